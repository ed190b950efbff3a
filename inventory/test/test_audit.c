/* The books: right after any mix of what can happen, and wrong as soon as anything in the store is. */
#include <stdio.h>
#include <string.h>

#include "inventory/test/fixture.h"

static struct redis_server redis;

/* ---- a model beside the store ---- */

enum { ITEMS = 4, USERS = 12, ITEM_MAX = 3000, HOLD_MS = 60000, STEPS = 1200 };

struct model_order {
    int item, user;
    int64_t quantity, expires_ms, returned;
    enum inventory_state state;
    const char *payment; /* NULL: none */
    bool late, refund_due;
    char key[24], id[INVENTORY_ORDER_SIZE];
};

struct model {
    struct inventory_item items[ITEMS];
    int64_t available[ITEMS], restocked[ITEMS], units[ITEMS][USERS];
    struct model_order orders[ITEM_MAX];
    int count;
    int restocks, returns;
    uint64_t random;
};

static int64_t below(struct model *model, int64_t n) {
    return (int64_t)(harness_random(&model->random) % (uint64_t)n);
}

static const char *user_name(int user) {
    return harness_format("user%d", user);
}

static bool is_held(const struct model_order *order) {
    return order->state == INVENTORY_STATE_HELD || order->state == INVENTORY_STATE_PAYING;
}

static void refund(struct model *model, struct model_order *order, enum inventory_state state) {
    order->state = state;
    model->available[order->item] += order->quantity;
    model->units[order->item][order->user] -= order->quantity;
}

static void expire_due(struct model *model, int64_t now_ms) {
    for (int i = 0; i < model->count; i++) {
        struct model_order *order = &model->orders[i];
        if (is_held(order) && order->expires_ms <= now_ms)
            refund(model, order, INVENTORY_STATE_EXPIRED);
    }
}

static void step_buy(struct model *model, struct seller *seller) {
    int i = (int)below(model, ITEMS), user = (int)below(model, USERS);
    int64_t quantity = 1 + below(model, 4);
    const struct inventory_item *item = &model->items[i];
    struct model_order *order = &model->orders[model->count];
    snprintf(order->key, sizeof order->key, "key%d", model->count);
    struct buy *bought = buy(seller, item->item, user_name(user), order->key, quantity);
    bool over = item->limit && model->units[i][user] + quantity > item->limit;
    if (quantity > model->available[i] && over) {
        CHECK(bought->status == INVENTORY_SOLD_OUT || bought->status == INVENTORY_LIMIT);
    } else if (quantity > model->available[i]) {
        CHECK_STATUS(bought->status, INVENTORY_SOLD_OUT);
        CHECK_INT(bought->available, model->available[i]);
    } else if (over) {
        /* Known to be sold out it is not asked for the user's units; but then there are none left. */
        CHECK_STATUS(bought->status, INVENTORY_LIMIT);
    } else {
        CHECK_STATUS(bought->status, INVENTORY_OK);
        order->item = i;
        order->user = user;
        order->quantity = quantity;
        order->state = item->hold_ms ? INVENTORY_STATE_HELD : INVENTORY_STATE_CONFIRMED;
        order->expires_ms = item->hold_ms ? redis_clock()->stopped_ms + item->hold_ms : 0;
        snprintf(order->id, sizeof order->id, "%s", bought->order.id);
        CHECK_INT(bought->order.expires_ms, order->expires_ms);
        model->available[i] -= quantity;
        model->units[i][user] += quantity;
        model->count++;
    }
}

static void step_retry(struct model *model, struct seller *seller) {
    if (model->count == 0)
        return;
    const struct model_order *order = &model->orders[below(model, model->count)];
    bool other = below(model, 4) == 0;
    struct buy *again = buy(seller, model->items[order->item].item, user_name(order->user), order->key,
                            order->quantity + other);
    CHECK_STATUS(again->status, other ? INVENTORY_KEY_REUSED : INVENTORY_REPLAYED);
    if (!other)
        CHECK_STR(again->order.id, order->id);
}

/* What a confirm does to the order, which is not over. */
static enum inventory_status confirm(struct model *model, struct model_order *order, const char *payment) {
    const struct inventory_item *item = &model->items[order->item];
    bool is_sold = order->state == INVENTORY_STATE_CONFIRMED || order->state == INVENTORY_STATE_RETURNED;
    int64_t *available = &model->available[order->item], *units = &model->units[order->item][order->user];
    if (payment && (order->payment ? strcmp(order->payment, payment) != 0 : is_sold))
        return INVENTORY_PAYMENT_DIFFERS;
    if (is_sold)
        return INVENTORY_REPLAYED;
    if (payment && !order->refund_due)
        order->payment = payment;
    if (order->state == INVENTORY_STATE_EXPIRED && !order->refund_due && order->quantity <= *available &&
        (!item->limit || *units + order->quantity <= item->limit)) {
        *available -= order->quantity;
        *units += order->quantity;
        order->late = true;
    } else if (!is_held(order)) {
        order->refund_due = true;
        return order->state == INVENTORY_STATE_EXPIRED ? INVENTORY_EXPIRED : INVENTORY_CANCELLED;
    }
    order->state = INVENTORY_STATE_CONFIRMED;
    return INVENTORY_OK;
}

static enum inventory_status pay(const struct model *model, struct model_order *order, const char *payment) {
    if (order->state == INVENTORY_STATE_HELD) {
        int64_t until_ms = redis_clock()->stopped_ms + model->items[order->item].pay_ms;
        order->expires_ms = until_ms > order->expires_ms ? until_ms : order->expires_ms;
        order->state = INVENTORY_STATE_PAYING;
        order->payment = payment;
        return INVENTORY_OK;
    }
    if (order->payment && strcmp(order->payment, payment) != 0)
        return INVENTORY_PAYMENT_DIFFERS;
    return order->state == INVENTORY_STATE_CANCELLED ? INVENTORY_CANCELLED
           : order->state == INVENTORY_STATE_EXPIRED ? INVENTORY_EXPIRED
           : order->payment                          ? INVENTORY_REPLAYED
                                                     : INVENTORY_CONFIRMED;
}

static enum inventory_status cancel(struct model *model, struct model_order *order, bool by_owner) {
    if (order->state == INVENTORY_STATE_PAYING && by_owner)
        return INVENTORY_IN_PAYMENT;
    if (is_held(order)) {
        refund(model, order, INVENTORY_STATE_CANCELLED);
        return INVENTORY_OK;
    }
    return order->state == INVENTORY_STATE_CANCELLED ? INVENTORY_REPLAYED
           : order->state == INVENTORY_STATE_EXPIRED ? INVENTORY_EXPIRED
                                                     : INVENTORY_CONFIRMED;
}

static enum inventory_status take_back(struct model *model, struct model_order *order, int64_t quantity,
                                       bool restock) {
    if (order->state == INVENTORY_STATE_CANCELLED || order->state == INVENTORY_STATE_EXPIRED)
        return order->state == INVENTORY_STATE_CANCELLED ? INVENTORY_CANCELLED : INVENTORY_EXPIRED;
    if (is_held(order) || order->returned + quantity > order->quantity)
        return INVENTORY_OVER_RETURN;
    order->returned += quantity;
    model->units[order->item][order->user] -= quantity;
    (restock ? model->available : model->restocked)[order->item] += restock ? quantity : -quantity;
    if (order->returned == order->quantity)
        order->state = INVENTORY_STATE_RETURNED;
    return INVENTORY_OK;
}

static void check_told(const struct model_order *order, const struct inventory_order *now) {
    CHECK_STR(inventory_state_name(now->state), inventory_state_name(order->state));
    CHECK_INT(now->quantity, order->quantity);
    CHECK_STR(now->user, user_name(order->user));
    CHECK_STR(now->payment, order->payment ? order->payment : "");
    CHECK_INT(now->expires_ms, order->expires_ms);
    CHECK_INT(now->returned, order->returned);
    CHECK_INT(now->late, order->late);
    CHECK_INT(now->refund_due, order->refund_due);
}

static void step_settle(struct model *model, struct seller *seller, enum inventory_step step) {
    if (model->count == 0)
        return;
    struct model_order *order = &model->orders[below(model, model->count)];
    int64_t over_ms = redis_clock()->stopped_ms - (step == INVENTORY_READ ? INVENTORY_HOLD_GRACE_MS : 0);
    bool mark = below(model, 3) == 0; /* another payment, none, or by the owner */
    struct inventory_order_call call = {.step = step, .pay_ms = -1};
    if (is_held(order) && order->expires_ms <= over_ms)
        refund(model, order, INVENTORY_STATE_EXPIRED);
    enum inventory_status status = INVENTORY_OK;
    if (step == INVENTORY_CONFIRM) {
        call.payment = mark ? below(model, 2) ? "pi-2" : NULL : "pi-1";
        status = confirm(model, order, call.payment);
    } else if (step == INVENTORY_PAY) {
        call.payment = mark ? "pi-2" : "pi-1";
        status = pay(model, order, call.payment);
    } else if (step == INVENTORY_CANCEL) {
        call.owner = mark ? user_name(order->user) : NULL;
        status = cancel(model, order, mark);
    } else if (step == INVENTORY_RETURN) {
        const char *key = harness_format("return%d", model->returns++);
        inventory_key_digest(order->id, key, strlen(key), call.digest);
        call.quantity = 1 + below(model, 2);
        call.restock = mark;
        status = take_back(model, order, call.quantity, mark);
    }
    struct inventory_order now;
    CHECK_STATUS(answer_wait(order_call_begin(seller, order->id, &call), &now, sizeof now), status);
    check_told(order, &now);
    if (step == INVENTORY_RETURN && status == INVENTORY_OK) { /* again, by the same key */
        CHECK_STATUS(answer_wait(order_call_begin(seller, order->id, &call), &now, sizeof now),
                     INVENTORY_REPLAYED);
        check_told(order, &now);
    }
}

static void step_restock(struct model *model, struct seller *seller) {
    int i = (int)below(model, ITEMS);
    int64_t quantity = 1 + below(model, 5);
    const char *key = harness_format("restock%d", model->restocks++);
    struct inventory_restock said;
    for (int again = 0; again < 2; again++) {
        CHECK_STATUS(item_restock(seller, model->items[i].item, key, quantity, &said),
                     again ? INVENTORY_REPLAYED : INVENTORY_OK);
        if (!again) {
            model->available[i] += quantity;
            model->restocked[i] += quantity;
        }
        CHECK_INT(said.available, model->available[i]);
        CHECK_INT(said.stock, model->items[i].initial + model->restocked[i]);
    }
}

static void compare(struct model *model, struct seller *seller) {
    holds_sweep(seller, &redis); /* so that what is due is as expired here as there */
    expire_due(model, redis_clock()->stopped_ms - INVENTORY_HOLD_GRACE_MS);
    for (int i = 0; i < ITEMS; i++) {
        struct inventory_audit audit;
        const char *name = model->items[i].item;
        audit = item_audited(seller, name);
        int64_t orders[INVENTORY_STATES] = {0}, units[INVENTORY_STATES] = {0}, user_units = 0;
        for (int j = 0; j < model->count; j++) {
            if (model->orders[j].item == i) {
                orders[model->orders[j].state]++;
                units[model->orders[j].state] += model->orders[j].quantity - model->orders[j].returned;
            }
        }
        for (int user = 0; user < USERS; user++)
            user_units += model->units[i][user];
        for (int state = 0; state < INVENTORY_STATES; state++) {
            CHECK_INT(audit.orders[state], orders[state]);
            CHECK_INT(audit.units[state], units[state]);
        }
        CHECK_INT(audit.item.restocked, model->restocked[i]);
        CHECK_INT(audit.holds, orders[INVENTORY_STATE_HELD] + orders[INVENTORY_STATE_PAYING]);
        CHECK_INT(audit.user_units, model->items[i].limit ? user_units : 0);
        CHECK_INT(audit.over_limit + audit.unreadable, 0);
        check_books(seller, &redis, name, model->available[i],
                    units[INVENTORY_STATE_HELD] + units[INVENTORY_STATE_PAYING],
                    units[INVENTORY_STATE_CONFIRMED]);
    }
}

static void test_random_mix(void) {
    CHECK_STR(redis_command(&redis, "FLUSHALL", NULL), "OK");
    struct seller *seller = seller_open(shop_open(), &redis);
    redis_clock()->stopped_ms = 1800000000000;
    struct model *model = harness_alloc(sizeof *model);
    model->random = harness_seed();
    for (int i = 0; i < ITEMS; i++) {
        struct inventory_item *item = &model->items[i];
        *item = terms(harness_format("item%d", i), (enum inventory_strategy)(i % 4), 20 + below(model, 30));
        item->limit = below(model, 2) ? 3 + below(model, 10) : 0;
        item->hold_ms = i == 0 || below(model, 4) ? HOLD_MS : 0;
        item->pay_ms = below(model, 2) * below(model, INT64_C(2) * HOLD_MS);
        model->available[i] = item->initial;
        CHECK_STATUS(item_put(seller, item), INVENTORY_OK);
    }
    for (int step = 0; step < STEPS; step++) {
        redis_clock()->stopped_ms += below(model, 300);
        int64_t what = below(model, 100);
        /* A hold that is due is returned when somebody reads the item; a buyer before that finds less. */
        if (what < 42)
            step_buy(model, seller);
        else if (what < 52)
            step_retry(model, seller);
        else if (what < 60)
            step_settle(model, seller, INVENTORY_PAY);
        else if (what < 70)
            step_settle(model, seller, INVENTORY_CONFIRM);
        else if (what < 76)
            step_settle(model, seller, INVENTORY_RETURN);
        else if (what < 88)
            step_settle(model, seller, INVENTORY_CANCEL);
        else if (what < 93)
            step_settle(model, seller, INVENTORY_READ);
        else if (what < 98)
            step_restock(model, seller);
        else
            compare(model, seller);
    }
    compare(model, seller);
    redis_clock()->stopped_ms += 2 * HOLD_MS + INVENTORY_HOLD_GRACE_MS;
    compare(model, seller);
}

/* ---- planted errors ---- */

static const char *
    order_of[6]; /* digests: ann 1 sold, ann 2 held, bob 3 cancelled, bob 1 expired, eve 4 held, dan 2 sold */

static struct seller *plant(void) {
    CHECK_STR(redis_command(&redis, "FLUSHALL", NULL), "OK");
    struct seller *seller = seller_open(shop_open(), &redis);
    item_put_with(seller, "phone", 10, 4, HOLD_MS);
    static const char *const users[] = {"ann", "ann", "bob", "bob", "eve", "dan"};
    static const int quantities[] = {1, 2, 3, 1, 4, 2};
    CHECK_STATUS(item_restock(seller, "phone", "r", 5, NULL), INVENTORY_OK);
    for (int i = 0; i < 6; i++) {
        struct buy *bought = buy(seller, "phone", users[i], harness_format("k%d", i), quantities[i]);
        CHECK_STATUS(bought->status, INVENTORY_OK);
        order_of[i] = strchr(bought->order.id, ':') + 1;
        if (i == 0 || i == 5)
            order_step(seller, bought->order.id, INVENTORY_CONFIRM, NULL);
        if (i == 2)
            order_step(seller, bought->order.id, INVENTORY_CANCEL, NULL);
        if (i == 3) {
            redis_clock()->ahead_ms = INT64_C(2) * HOLD_MS;
            order_step(seller, bought->order.id, INVENTORY_READ, NULL);
            redis_clock()->ahead_ms = 0;
        }
    }
    check_books(seller, &redis, "phone", 6, 6, 3);
    return seller;
}

#define ITEM  "seckill:{47}:phone"
#define HOLDS "seckill:{47}:phone:holds"

/* A digest is written #0 to #5. */
static const char *const planted[][5] = {
    {"HINCRBY", ITEM, "available", "1"},
    {"HINCRBY", ITEM, "available", "-1"},
    {"HINCRBY", ITEM, "sold", "1"},
    {"HINCRBY", ITEM, "sold", "-1"},
    {"HINCRBY", ITEM, "held", "1"},
    {"HINCRBY", ITEM, "held", "-1"},
    {"HINCRBY", ITEM, "restocked", "1"},
    {"HSET", ITEM, "terms", "9 4 0 0 60000 0 batch"},
    {"HINCRBY", ITEM, "released", "1"},
    {"HINCRBY", ITEM, "released", "-1"},
    {"HINCRBY", ITEM, "returned", "1"},
    {"HINCRBY", ITEM, "returned", "-1"},
    {"HSET", ITEM, "terms", "10 3 0 0 60000 0 batch"}, /* all agrees, but one has four */
    {"HDEL", ITEM, "available"},
    {"HDEL", ITEM, "sold"},
    {"HSET", ITEM, "available", "lots"},
    {"HDEL", ITEM, "#0"},
    {"HDEL", ITEM, "#1"},
    {"HSET", ITEM, "#0", "c 2 ann 1700000000000 1700000060000"},
    {"HSET", ITEM, "#0", "c 1 zoe 1700000000000 1700000060000"}, /* the sums agree, the users do not */
    {"HSET", ITEM, "#0", "x 1 ann 1700000000000 1700000060000"},
    {"HSET", ITEM, "#1", "c 2 ann 1700000000000 1700000060000"},
    {"HSET", ITEM, "#2", "c 3 bob 1700000000000 1700000060000"},
    {"HSET", ITEM, "#3", "h 1 bob 1700000000000 1700000060000"},
    {"HSET", ITEM, "#3", "garbage"},
    {"HSET", ITEM, "#3", ""},
    {"HSET", ITEM, "#3", "e 1 bob"},
    {"HSET", ITEM, "0123456789012345678901", "c 1 ann 1700000000000"},
    {"HSET", ITEM, "0123456789012345678901", "h 1 ann 1700000000000 1700000060000"},
    {"ZREM", HOLDS, "#1"},
    {"DEL", HOLDS},
    {"ZADD", HOLDS, "1", "#0"},
    {"ZADD", HOLDS, "1", "0123456789012345678901"},
    {"HINCRBY", ITEM, "@ann", "1"},
    {"HINCRBY", ITEM, "@bob", "1"},
    {"HINCRBY", ITEM, "@ann", "-1"},
    {"HSET", ITEM, "@nobody", "1"},
    {"HDEL", ITEM, "@ann"},
    {"HSET", ITEM, "unknown", "1"},
};

static void test_planted(void) {
    for (size_t i = 0; i < sizeof planted / sizeof *planted; i++) {
        struct seller *seller = plant();
        const char *words[5];
        for (int j = 0; j < 5; j++) {
            const char *word = planted[i][j];
            words[j] = word && *word == '#' ? order_of[word[1] - '0'] : word;
        }
        const char *reply = redis_command(&redis, words[0], words[1], words[2], words[3], words[4], NULL);
        if (strstr(reply, "error"))
            FAIL("planting %zu: %s", i, reply);
        struct inventory_audit audit = item_audited(seller, "phone");
        if (audit.conserved)
            FAIL("not noticed: %s %s %s %s", words[0], words[1], words[2] ? words[2] : "",
                 words[3] ? words[3] : "");
        CHECK(strcmp(ledger_audit(&redis, "phone"), "balanced") != 0);
        shop_close(seller->shop);
    }
}

static void test_counts_of_errors(void) {
    struct seller *seller = plant();
    struct inventory_audit audit;
    redis_command(&redis, "HSET", ITEM, "x000000000000000000001", "c 10 ann 1700000000000",
                  "x000000000000000000002", "??", "x000000000000000000003", "h 1 b 1 2 3", NULL);
    audit = item_audited(seller, "phone");
    CHECK(!audit.conserved);
    CHECK_INT(audit.oversold, 4); /* 6 held and 13 sold of 15 */
    CHECK_INT(audit.unreadable, 2);
    CHECK_INT(audit.over_limit, 0);
    redis_command(&redis, "HSET", ITEM, "@ann", "5", "@eve", "5", NULL);
    audit = item_audited(seller, "phone");
    CHECK_INT(audit.over_limit, 2);
    /* oversold by the counters alone: as many orders as units, but fewer taken */
    seller = plant();
    redis_command(&redis, "HSET", ITEM, "available", "-2", NULL);
    audit = item_audited(seller, "phone");
    CHECK(!audit.conserved);
    CHECK_INT(audit.item.available, -2);
    CHECK_INT(audit.oversold, 0);
    /* an over-full sale whose sums agree all the same */
    seller = plant();
    redis_command(&redis, "HSET", ITEM, "available", "-2", "sold", "11", NULL);
    redis_command(&redis, "HSET", ITEM, "x000000000000000000001", "c 8 ann 1700000000000", NULL);
    redis_command(&redis, "HINCRBY", ITEM, "@zoe", "4", NULL);
    redis_command(&redis, "HINCRBY", ITEM, "@tom", "4", NULL);
    audit = item_audited(seller, "phone");
    CHECK_INT(audit.oversold, 2);
    CHECK(!audit.conserved);
}

static void test_wrong_type(void) {
    struct seller *seller = plant();
    struct inventory_audit audit;
    redis_command(&redis, "DEL", HOLDS, NULL);
    redis_command(&redis, "SET", HOLDS, "a string", NULL);
    CHECK_STATUS(item_audit(seller, "phone", &audit), INVENTORY_UNAVAILABLE);
    redis_command(&redis, "DEL", ITEM, NULL);
    redis_command(&redis, "SET", ITEM, "a string", NULL);
    CHECK_STATUS(item_audit(seller, "phone", &audit), INVENTORY_UNAVAILABLE);
    CHECK_STATUS(buy(seller, "phone", "ann", "new", 1)->status, INVENTORY_UNAVAILABLE);
    CHECK_STR(redis_command(&redis, "GET", ITEM, NULL), "a string");
}

/* What was sold to a key whose record is garbage now must not be sold again. */
static void test_garbled_record(void) {
    struct seller *seller = plant();
    redis_command(&redis, "HSET", ITEM, order_of[0], "garbage", NULL);
    CHECK_STATUS(buy(seller, "phone", "ann", "k0", 1)->status, INVENTORY_UNAVAILABLE);
    struct answer *answer = order_step_begin(seller, harness_format("phone:%s", order_of[0]), INVENTORY_READ);
    shop_settle(seller->shop);
    CHECK_STATUS(answer->status, INVENTORY_UNAVAILABLE);
    CHECK_INT(redis_integer(&redis, "HGET", ITEM, "available", NULL), 6);
}

int main(int argc, char **argv) {
    harness_begin(argc, argv);
    store_start(&redis, argc, argv);
    harness_run("random mixes against a model", test_random_mix);
    harness_run("every planted error is noticed", test_planted);
    harness_run("errors are counted", test_counts_of_errors);
    harness_run("a key of the wrong type", test_wrong_type);
    harness_run("a garbled record is not sold over", test_garbled_record);
    return harness_finish();
}
