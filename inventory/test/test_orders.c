/* What becomes of orders: confirm, cancel, expire, and what each says of the others. */
#include <string.h>

#include "inventory/test/fixture.h"
#include "inventory/transactions/transactions_internal.h"

enum { HOLD_MS = 30000 };

static struct redis_server redis;

static struct seller *open_seller(int64_t stock, int64_t limit) {
    CHECK_STR(redis_command(&redis, "FLUSHALL", NULL), "OK");
    struct seller *seller = seller_open(shop_open(), &redis);
    item_put_with(seller, "phone", stock, limit, HOLD_MS);
    return seller;
}

static const struct inventory_order *hold(struct seller *seller, const char *user, int64_t quantity) {
    static int count;
    struct buy *held = buy(seller, "phone", user, harness_format("key-%d", count++), quantity);
    CHECK_STATUS(held->status, INVENTORY_OK);
    CHECK_INT(held->order.state, INVENTORY_STATE_HELD);
    return &held->order;
}

static void check_step(struct seller *seller, const struct inventory_order *held, enum inventory_step step,
                       enum inventory_status status, enum inventory_state state) {
    struct inventory_order order = {.id = ""};
    CHECK_STATUS(order_step(seller, held->id, step, &order), status);
    CHECK_STR(order.id, held->id);
    CHECK_STR(order.item, "phone");
    CHECK_STR(order.user, held->user);
    CHECK_INT(order.quantity, held->quantity);
    CHECK_STR(inventory_state_name(order.state), inventory_state_name(state));
    CHECK_INT(order.created_ms, held->created_ms);
    CHECK_INT(order.expires_ms, held->expires_ms);
}

/* All that can be asked of an order that has come to `state`, twice over. */
static void check_settled(struct seller *seller, const struct inventory_order *held,
                          enum inventory_state state) {
    for (int i = 0; i < 2; i++) {
        check_step(seller, held, INVENTORY_READ, INVENTORY_OK, state);
        if (state != INVENTORY_STATE_EXPIRED) /* of what has expired test_payment.c tells */
            check_step(seller, held, INVENTORY_CONFIRM,
                       state == INVENTORY_STATE_CONFIRMED ? INVENTORY_OK : INVENTORY_CANCELLED, state);
        check_step(seller, held, INVENTORY_CANCEL,
                   state == INVENTORY_STATE_CANCELLED   ? INVENTORY_OK
                   : state == INVENTORY_STATE_CONFIRMED ? INVENTORY_CONFIRMED
                                                        : INVENTORY_EXPIRED,
                   state);
    }
}

static void test_states(void) {
    struct seller *seller = open_seller(10, 5);
    const struct inventory_order *confirmed = hold(seller, "ann", 1), *cancelled = hold(seller, "ann", 2),
                                 *expired = hold(seller, "bob", 4);
    check_books(seller, &redis, "phone", 3, 7, 0);
    for (int i = 0; i < 2; i++)
        check_step(seller, confirmed, INVENTORY_READ, INVENTORY_OK, INVENTORY_STATE_HELD);
    check_step(seller, confirmed, INVENTORY_CONFIRM, INVENTORY_OK, INVENTORY_STATE_CONFIRMED);
    check_books(seller, &redis, "phone", 3, 6, 1);
    check_step(seller, cancelled, INVENTORY_CANCEL, INVENTORY_OK, INVENTORY_STATE_CANCELLED);
    check_books(seller, &redis, "phone", 5, 4, 1);
    check_settled(seller, confirmed, INVENTORY_STATE_CONFIRMED);
    check_settled(seller, cancelled, INVENTORY_STATE_CANCELLED);
    redis_clock()->ahead_ms = HOLD_MS + 1000;
    check_settled(seller, expired, INVENTORY_STATE_EXPIRED);
    check_settled(seller, confirmed, INVENTORY_STATE_CONFIRMED);
    check_settled(seller, cancelled, INVENTORY_STATE_CANCELLED);
    check_books(seller, &redis, "phone", 9, 0, 1);
    /* the user's units came back, as many as there were: ann has 1 of 5, bob none */
    CHECK_STATUS(buy(seller, "phone", "ann", "more", 5)->status, INVENTORY_LIMIT);
    CHECK_STATUS(buy(seller, "phone", "ann", "more", 4)->status, INVENTORY_OK);
    CHECK_STATUS(buy(seller, "phone", "bob", "much", 5)->status, INVENTORY_OK);
    check_books(seller, &redis, "phone", 0, 9, 1);
}

/* Each step on a due hold finds it expired; a moment earlier it did not. */
static void test_last_moment(void) {
    static const enum inventory_status due[] = {INVENTORY_OK, INVENTORY_OK, INVENTORY_EXPIRED};
    static const enum inventory_state after[] = {INVENTORY_STATE_EXPIRED, INVENTORY_STATE_CONFIRMED,
                                                 INVENTORY_STATE_EXPIRED};
    static const enum inventory_state before[] = {INVENTORY_STATE_HELD, INVENTORY_STATE_CONFIRMED,
                                                  INVENTORY_STATE_CANCELLED};
    for (int step = 0; step < 3; step++) {
        struct seller *seller = open_seller(10, 0);
        redis_clock()->stopped_ms = 1800000000000;
        const struct inventory_order *first = hold(seller, "ann", 1), *second = hold(seller, "ann", 1);
        CHECK_INT(first->expires_ms, 1800000000000 + HOLD_MS);
        redis_clock()->stopped_ms = first->expires_ms - 1;
        inventory_sweep(seller->inventory);
        check_step(seller, first, (enum inventory_step)step, INVENTORY_OK, before[step]);
        check_books(seller, &redis, "phone", step == INVENTORY_CANCEL ? 9 : 8, step == 0 ? 2 : 1, step == 1);
        /* Its time is up; but it is there for those who came in time. */
        redis_clock()->stopped_ms = first->expires_ms + INVENTORY_HOLD_GRACE_MS - 1;
        check_step(seller, second, INVENTORY_READ, INVENTORY_OK, INVENTORY_STATE_HELD);
        redis_clock()->stopped_ms =
            first->expires_ms + (step == INVENTORY_READ ? INVENTORY_HOLD_GRACE_MS : 0);
        check_step(seller, second, (enum inventory_step)step, due[step], after[step]);
        shop_close(seller->shop);
    }
}

/* An order that never was a hold. */
static void test_never_held(void) {
    struct seller *seller = open_seller(10, 0);
    item_sell(seller, "cash", INVENTORY_BATCH, 3);
    struct buy *sold = buy(seller, "cash", "ann", "k", 2);
    struct inventory_order order;
    CHECK_STATUS(order_step(seller, sold->order.id, INVENTORY_CANCEL, &order), INVENTORY_CONFIRMED);
    CHECK_INT(order.state, INVENTORY_STATE_CONFIRMED);
    CHECK_STATUS(order_step(seller, sold->order.id, INVENTORY_CONFIRM, &order), INVENTORY_OK);
    redis_clock()->ahead_ms = 1000000000;
    CHECK_STATUS(order_step(seller, sold->order.id, INVENTORY_READ, &order), INVENTORY_OK);
    CHECK_INT(order.state, INVENTORY_STATE_CONFIRMED);
    CHECK_INT(order.expires_ms, 0);
    check_books(seller, &redis, "cash", 1, 0, 2);
}

static bool all_expired(void *arg) {
    struct shop *shop = arg;
    uint64_t expired = 0;
    for (struct seller *seller = shop->sellers; seller; seller = seller->next) {
        holds_sweep_on(seller);
        expired += seller->inventory->shared.metrics->expired;
    }
    return expired >= 250;
}

/* More than one step's worth, by one call of inventory_sweep() in one process, or in two at once. */
static void test_sweep(int sweepers) {
    struct seller *seller = open_seller(300, 5);
    struct seller *other = seller_open(seller->shop, &redis);
    item_sell(seller, "cash", INVENTORY_BATCH, 10);
    buy(seller, "cash", "ann", "k", 1);
    for (int i = 0; i < 250; i++)
        buy_begin(seller, "phone", harness_format("user%d", i % 125), harness_format("k%d", i), 1);
    shop_settle(seller->shop);
    redis_clock()->ahead_ms = HOLD_MS / 2;
    const struct inventory_order *young = hold(seller, "young", 3);
    check_books(seller, &redis, "phone", 47, 253, 0);
    inventory_sweep(seller->inventory);
    SHOP_UNTIL(seller->shop, !seller->inventory->purchases->sweeping, "the sweep ends");
    check_books(seller, &redis, "phone", 47, 253, 0);
    redis_clock()->ahead_ms = HOLD_MS + 1000;
    inventory_sweep(seller->inventory);
    if (sweepers == 2)
        inventory_sweep(other->inventory);
    shop_wait(seller->shop, all_expired, seller->shop, "all due holds are expired");
    shop_idle(seller->shop, 20);
    CHECK_INT(seller->inventory->shared.metrics->expired + other->inventory->shared.metrics->expired, 250);
    check_books(seller, &redis, "phone", 297, 3, 0);
    CHECK_INT(redis_integer(&redis, "HGET", stock_key("phone"), "@user7", NULL), 0);
    CHECK_INT(redis_integer(&redis, "HGET", stock_key("phone"), "@young", NULL), 3);
    CHECK_STATUS(order_step(seller, young->id, INVENTORY_CONFIRM, NULL), INVENTORY_OK);
    check_books(seller, &redis, "phone", 297, 0, 3);
    check_books(seller, &redis, "cash", 9, 0, 1);
}

/* Two who sweep and others who settle the same holds: each hold ends once, in the way that was told. */
static void test_crossings(void) {
    uint64_t random = harness_seed();
    struct seller *sellers[2] = {open_seller(200, 0)};
    struct shop *shop = sellers[0]->shop;
    sellers[1] = seller_open(shop, &redis);
    redis_clock()->stopped_ms = 1800000000000;
    const struct inventory_order *orders[100];
    for (int i = 0; i < 100; i++) {
        if (i == 50)
            redis_clock()->stopped_ms += 1000;
        orders[i] = hold(sellers[0], "ann", 1);
    }
    redis_clock()->stopped_ms = orders[0]->expires_ms; /* half of them are due */
    struct answer *answers[100][2][2];
    for (int i = 0; i < 100; i++) {
        for (int j = 0; j < 2; j++) {
            bool first = harness_random(&random) % 2;
            for (int k = 0; k < 2; k++)
                answers[i][j][first ? k : !k] = order_step_begin(
                    sellers[j], orders[i]->id, (first ? k : !k) ? INVENTORY_CANCEL : INVENTORY_CONFIRM);
        }
        if (i % 10 == 0) {
            inventory_sweep(sellers[0]->inventory);
            inventory_sweep(sellers[1]->inventory);
        }
    }
    shop_settle(shop);
    int confirmed = 0;
    for (int i = 0; i < 100; i++) {
        struct inventory_order now;
        CHECK_STATUS(order_step(sellers[0], orders[i]->id, INVENTORY_READ, &now), INVENTORY_OK);
        /* What was due is confirmed late, since there are units for all. */
        bool is_confirmed = now.state == INVENTORY_STATE_CONFIRMED;
        CHECK(is_confirmed || (i >= 50 && now.state == INVENTORY_STATE_CANCELLED));
        CHECK_INT(now.late, i < 50);
        confirmed += is_confirmed;
        for (int j = 0; j < 2; j++) {
            enum inventory_status confirm = answers[i][j][0]->status, cancel = answers[i][j][1]->status;
            if (is_confirmed)
                CHECK((confirm == INVENTORY_OK || confirm == INVENTORY_REPLAYED) &&
                      (cancel == INVENTORY_CONFIRMED || (i < 50 && cancel == INVENTORY_EXPIRED)));
            else
                CHECK(confirm == INVENTORY_CANCELLED &&
                      (cancel == INVENTORY_OK || cancel == INVENTORY_REPLAYED));
        }
    }
    check_books(sellers[0], &redis, "phone", 200 - confirmed, 0, confirmed);
}

static enum inventory_status step_of(struct seller *seller, const char *id, enum inventory_step step,
                                     const char *owner) {
    struct inventory_order order;
    struct inventory_order_call call = {.step = step, .owner = owner};
    return answer_wait(order_call_begin(seller, id, &call), &order, sizeof order);
}

/* Another user's order is as unknown as one that is not there, whatever is asked. */
static void test_owner(void) {
    struct seller *seller = open_seller(10, 5);
    const struct inventory_order *held = hold(seller, "ann", 1);
    for (int step = INVENTORY_READ; step <= INVENTORY_CANCEL; step++) {
        CHECK_STATUS(step_of(seller, held->id, (enum inventory_step)step, "bob"), INVENTORY_UNKNOWN_ORDER);
        CHECK_STATUS(step_of(seller, held->id, (enum inventory_step)step, "an"), INVENTORY_UNKNOWN_ORDER);
    }
    check_books(seller, &redis, "phone", 9, 1, 0);
    CHECK_STATUS(step_of(seller, held->id, INVENTORY_READ, "ann"), INVENTORY_OK);
    CHECK_STATUS(step_of(seller, held->id, INVENTORY_CANCEL, "ann"), INVENTORY_OK);
    check_books(seller, &redis, "phone", 10, 0, 0);
}

static void test_unknown_orders(void) {
    struct seller *seller = open_seller(10, 0);
    const struct inventory_order *order = hold(seller, "ann", 1);
    const char *digest = strchr(order->id, ':') + 1;
    const char *const ids[] = {
        "",
        "phone",
        digest,
        harness_format(":%s", digest),
        harness_format("phone:%.21s", digest),
        harness_format("phone:%sA", digest),
        harness_format("phone:%.21s=", digest),
        harness_format("phone:%.21s/", digest),
        harness_format("phone:%.21s\n", digest),
        harness_format("phone::%.21s", digest),
        harness_format("pho ne:%s", digest),
        harness_format("%065d:%s", 0, digest),
        /* from here on they could be: */
        harness_format("phone:%.21s%c", digest, digest[21] == 'A' ? 'B' : 'A'),
        harness_format("Phone:%s", digest),
        harness_format("none:%s", digest),
    };
    enum { IDS = sizeof ids / sizeof *ids };
    for (int i = 0; i < IDS; i++) {
        for (int step = 0; step < 3; step++) {
            struct answer *answer = order_step_begin(seller, ids[i], (enum inventory_step)step);
            CHECK_INT(answer->count, i < IDS - 3); /* the store is not asked for what is none */
            shop_settle(seller->shop);
            if (answer->status != INVENTORY_UNKNOWN_ORDER || answer->told)
                FAIL("\"%s\": %s", ids[i], status_text(answer->status));
        }
    }
    check_step(seller, order, INVENTORY_READ, INVENTORY_OK, INVENTORY_STATE_HELD);
    check_books(seller, &redis, "phone", 9, 1, 0);
}

/* A list of holds that disagrees with the orders must neither undo what was settled nor keep the others from
 * expiring. */
static void test_sweep_with_wrong_list(void) {
    struct seller *seller = open_seller(300, 5);
    const struct inventory_order *sold = hold(seller, "ann", 1), *due = hold(seller, "bob", 1);
    CHECK_STATUS(order_step(seller, sold->id, INVENTORY_CONFIRM, NULL), INVENTORY_OK);
    redis_command(&redis, "ZADD", stock_key("phone:holds"), "1", strchr(sold->id, ':') + 1, NULL);
    redis_command(&redis, "ZADD", stock_key("phone:holds"), "2", "no-such-order-is-there", NULL);
    redis_clock()->ahead_ms = HOLD_MS + 1000;
    holds_sweep(seller, &redis);
    check_step(seller, sold, INVENTORY_READ, INVENTORY_OK, INVENTORY_STATE_CONFIRMED);
    CHECK_INT(redis_integer(&redis, "HGET", stock_key("phone"), "held", NULL), 0);
    check_step(seller, due, INVENTORY_READ, INVENTORY_OK, INVENTORY_STATE_EXPIRED);
    check_books(seller, &redis, "phone", 299, 0, 1);
}

/* The item is gone, and its holds are not: nothing can be settled, and nothing is written. */
static void test_item_gone(void) {
    struct seller *seller = open_seller(10, 5);
    const struct inventory_order *held = hold(seller, "ann", 2);
    CHECK_INT(redis_integer(&redis, "DEL", stock_key("phone"), NULL), 1);
    const char *before = store_dump(&redis, true);
    for (int due = 0; due < 2; due++) {
        for (int step = due ? INVENTORY_READ : INVENTORY_CONFIRM; step <= INVENTORY_CANCEL; step++)
            CHECK_STATUS(order_step(seller, held->id, (enum inventory_step)step, NULL),
                         INVENTORY_UNKNOWN_ORDER);
        redis_clock()->ahead_ms = HOLD_MS + 1000;
    }
    holds_sweep(seller, &redis);
    CHECK_STR(inventory_last_error(seller->inventory), "");
    CHECK_HAS(before, store_dump(&redis, true)); /* less the index of due times, which comes first */
}

int main(int argc, char **argv) {
    harness_begin(argc, argv);
    store_start(&redis, argc, argv);
    harness_run("the table of states", test_states);
    harness_run("a hold ends at its end, not before", test_last_moment);
    harness_run("an order born confirmed", test_never_held);
    run_case("one sweeps 250 holds", test_sweep, 1);
    run_case("two sweep 250 holds, once", test_sweep, 2);
    harness_run("confirm, cancel and expiry at once", test_crossings);
    harness_run("an order of somebody else", test_owner);
    harness_run("unknown orders and what is no order's id", test_unknown_orders);
    harness_run("a list of holds that is wrong", test_sweep_with_wrong_list);
    harness_run("holds of an item that is gone", test_item_gone);
    return harness_finish();
}
