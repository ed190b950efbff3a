/* Many at once: group commit, and its bounds. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "inventory/test/fixture.h"
#include "inventory/transactions/transactions_internal.h"

static struct redis_server redis;

static struct seller *open_seller_with(struct seller_options options) {
    CHECK_STR(redis_command(&redis, "FLUSHALL", NULL), "OK");
    options.port = redis.port;
    return seller_open_up(shop_open(), &options);
}

static struct seller *open_seller(void) {
    return open_seller_with((struct seller_options){.port = 0});
}

static struct buy *begin(struct seller *seller, const char *item, int i, int64_t quantity) {
    char name[32];
    snprintf(name, sizeof name, "u%d", i);
    return buy_begin(seller, item, name, name, quantity);
}

/* How often this seller has called the sale's script, by itself and by what the store counted. */
static uint64_t calls(struct seller *seller) {
    return seller->inventory->shared.metrics->batches;
}

static long long called(const char *command) {
    const char *stats = redis_command(&redis, "INFO", "commandstats", NULL);
    const char *name = harness_format("cmdstat_%s:calls=", command), *at = strstr(stats, name);
    return at ? strtoll(at + strlen(name), NULL, 10) : 0;
}

static void check_scripts_run(long long want) {
    CHECK_INT(called("evalsha") + called("eval"), want);
}

static void test_one_turn_one_call(void) {
    struct seller *seller = open_seller();
    item_sell(seller, "phone", INVENTORY_BATCH, 1000);
    buy(seller, "phone", "first", "first", 1); /* so that the script is loaded */
    redis_command(&redis, "CONFIG", "RESETSTAT", NULL);
    uint64_t before = calls(seller);
    for (int i = 0; i < 200; i++)
        begin(seller, "phone", i, 1);
    shop_settle(seller->shop);
    CHECK_INT(calls(seller) - before, 1);
    CHECK_INT(seller->inventory->shared.metrics->batched, 201);
    check_scripts_run(1);
    CHECK_INT(buys_with(seller->shop, INVENTORY_OK), 201);
    check_books(seller, &redis, "phone", 799, 0, 201);
}

static void test_many_items_one_call(void) {
    struct seller *seller = open_seller();
    item_sell(seller, "warm", INVENTORY_BATCH, 1);
    buy(seller, "warm", "first", "first", 1);
    for (int i = 0; i < 300; i++)
        item_sell(seller, harness_format("item%d", i), INVENTORY_BATCH, 10);
    redis_command(&redis, "CONFIG", "RESETSTAT", NULL);
    uint64_t before = calls(seller);
    for (int i = 0; i < 300; i++)
        begin(seller, harness_format("item%d", i), i, 1);
    begin(seller, "item0", 1000, 2); /* joins the first of its item */
    shop_settle(seller->shop);
    CHECK_INT(calls(seller) - before, 2); /* 256, and the rest */
    check_scripts_run(2);
    CHECK_INT(buys_with(seller->shop, INVENTORY_OK), 302);
    check_books(seller, &redis, "item0", 7, 0, 3);
    for (int i = 1; i < 300; i += 13)
        check_books(seller, &redis, harness_format("item%d", i), 9, 0, 1);
}

/* Each item of a call has its own answer, whatever the others have. */
static void test_each_item_its_answer(void) {
    struct seller *seller = open_seller();
    struct inventory_item held = terms("held", INVENTORY_BATCH, 5),
                          early = terms("early", INVENTORY_BATCH, 5),
                          late = terms("late", INVENTORY_BATCH, 5);
    held.hold_ms = 60000;
    early.starts_ms = clock_wall_ms(&seller->shop->clock) + 60000;
    late.ends_ms = 1;
    CHECK_STATUS(item_put(seller, &held), INVENTORY_OK);
    CHECK_STATUS(item_put(seller, &early), INVENTORY_OK);
    CHECK_STATUS(item_put(seller, &late), INVENTORY_OK);
    item_put_as(seller, "limited", strategy, 5, 1, 0);
    item_sell(seller, "plain", INVENTORY_BATCH, 5);
    item_sell(seller, "empty", INVENTORY_BATCH, 1);
    item_sell(seller, "other", INVENTORY_DECR, 5);
    item_sell(seller, "alone", INVENTORY_LUA, 5);
    CHECK_STATUS(buy(seller, "plain", "ann", "k", 1)->status, INVENTORY_OK);
    CHECK_STATUS(buy(seller, "empty", "ann", "k", 1)->status, INVENTORY_OK);
    CHECK_STATUS(buy(seller, "limited", "ann", "k", 1)->status, INVENTORY_OK);
    CHECK_STATUS(buy(seller, "empty", "bob", "k2", 1)->status, INVENTORY_SOLD_OUT); /* from now on it asks */
    static const struct {
        const char *item, *key;
        enum inventory_status want;
    } cases[] = {
        {"held", "a", INVENTORY_OK},        {"nobody", "a", INVENTORY_UNKNOWN_ITEM},
        {"plain", "k", INVENTORY_REPLAYED}, {"early", "a", INVENTORY_NOT_STARTED},
        {"empty", "k", INVENTORY_REPLAYED}, {"empty", "a", INVENTORY_SOLD_OUT},
        {"other", "a", INVENTORY_OK},       {"limited", "a", INVENTORY_LIMIT},
        {"alone", "a", INVENTORY_OK},       {"plain", "a", INVENTORY_OK},
        {"late", "a", INVENTORY_ENDED},     {"held", "b", INVENTORY_OK},
    };
    enum { CASES = sizeof cases / sizeof *cases };
    struct buy *buys[CASES];
    for (int i = 0; i < CASES; i++)
        buys[i] = buy_begin(seller, cases[i].item, "ann", cases[i].key, 1);
    shop_settle(seller->shop);
    for (int i = 0; i < CASES; i++)
        CHECK_STATUS(buys[i]->status, cases[i].want);
    CHECK_STR(buys[0]->order.item, "held");
    CHECK(buys[0]->order.expires_ms > 0);
    CHECK_INT(buys[9]->order.expires_ms, 0);
    check_books(seller, &redis, "held", 3, 2, 0);
    check_books(seller, &redis, "plain", 3, 0, 2);
    check_books(seller, &redis, "limited", 4, 0, 1);
    check_books(seller, &redis, "early", 5, 0, 0);
}

/* A crowd at one item does not keep the buyers of another one waiting. */
static void test_items_take_turns(void) {
    struct seller *seller = open_seller();
    item_sell(seller, "phone", INVENTORY_BATCH, 5000);
    item_sell(seller, "lamp", INVENTORY_BATCH, 5);
    buy(seller, "phone", "first", "first", 1);
    for (int i = 0; i < 2000; i++)
        begin(seller, "phone", i, 1);
    struct buy *lamp = buy_begin(seller, "lamp", "ann", "k", 1);
    while (!lamp->answers)
        shop_turn(seller->shop);
    CHECK_STATUS(lamp->status, INVENTORY_OK);
    CHECK(buys_with(seller->shop, INVENTORY_OK) < 1500); /* four calls at most, of eight */
    shop_settle(seller->shop);
    CHECK_INT(buys_with(seller->shop, INVENTORY_OK), 2002);
}

static void test_without_events(void) {
    struct seller *seller = open_seller_with((struct seller_options){.without_events = true});
    seller->locked = true;
    item_put_as(seller, "phone", strategy, 10, 0, 60000);
    const struct buy *first = buy(seller, "phone", "ann", "k1", 2),
                     *second = buy(seller, "phone", "bob", "k2", 1);
    CHECK_STATUS(first->status, INVENTORY_OK);
    CHECK_STATUS(second->status, INVENTORY_OK);
    CHECK_STATUS(order_step(seller, first->order.id, INVENTORY_CONFIRM, NULL), INVENTORY_OK);
    CHECK_STATUS(order_step(seller, second->order.id, INVENTORY_CANCEL, NULL), INVENTORY_OK);
    CHECK_STATUS(item_restock(seller, "phone", "r", 5, NULL), INVENTORY_OK);
    CHECK_INT(redis_integer(&redis, "EXISTS", stock_key("phone:events"), NULL), 0);
    item_check_audit(seller, "phone", 13, 0, 2);
}

static void test_alone_at_once(void) {
    struct seller *seller = open_seller();
    item_sell(seller, "phone", INVENTORY_BATCH, 10);
    buy(seller, "phone", "first", "first", 1);
    struct buy *lone = buy_begin(seller, "phone", "ann", "k", 1);
    CHECK_INT(calls(seller), 1);
    inventory_flush(seller->inventory);
    CHECK_INT(calls(seller), 2); /* it has left, no timer came in between */
    while (!lone->answers)
        uv_run(&seller->shop->loop, UV_RUN_ONCE);
    CHECK_STATUS(lone->status, INVENTORY_OK);
}

/* While two calls are in flight the others gather; they leave by themselves when one returns. */
static void test_two_in_flight(void) {
    struct seller *seller = open_seller();
    item_sell(seller, "phone", INVENTORY_BATCH, 1000);
    buy(seller, "phone", "first", "first", 1);
    redis_pause(&redis);
    uint64_t before = calls(seller);
    for (int i = 0; i < 50; i++) {
        begin(seller, "phone", i, 1);
        inventory_flush(seller->inventory);
    }
    uint64_t sent = calls(seller) - before;
    redis_resume(&redis);
    CHECK_INT(sent, 2);
    shop_settle(seller->shop);
    CHECK_INT(calls(seller) - before, 3);
    CHECK_INT(buys_with(seller->shop, INVENTORY_OK), 51);
    check_books(seller, &redis, "phone", 949, 0, 51);
}

/* The second call leaves once it is as large as the first, and takes all that have gathered. */
static void test_the_second_is_as_large(void) {
    struct seller *seller = open_seller();
    item_sell(seller, "phone", INVENTORY_BATCH, 1000);
    buy(seller, "phone", "first", "first", 1);
    redis_pause(&redis);
    uint64_t before = calls(seller), sent[30];
    for (int i = 0; i < 10; i++)
        begin(seller, "phone", i, 1);
    inventory_flush(seller->inventory);
    for (int i = 10; i < 30; i++) {
        begin(seller, "phone", i, 1);
        inventory_flush(seller->inventory);
        sent[i] = calls(seller) - before;
    }
    redis_resume(&redis);
    for (int i = 10; i < 30; i++)
        CHECK_INT(sent[i], i < 19 ? 1 : 2);
    shop_settle(seller->shop);
    CHECK_INT(calls(seller) - before, 3);
    CHECK_INT(buys_with(seller->shop, INVENTORY_OK), 31);
    check_books(seller, &redis, "phone", 969, 0, 31);
}

static void test_lua_goes_alone(void) {
    struct seller *seller = open_seller();
    item_sell(seller, "phone", INVENTORY_LUA, 1000);
    buy(seller, "phone", "first", "first", 1);
    for (int i = 0; i < 2; i++)
        begin(seller, "phone", i, 1);
    shop_settle(seller->shop);
    redis_command(&redis, "CONFIG", "RESETSTAT", NULL);
    uint64_t before = calls(seller);
    for (int i = 2; i < 100; i++)
        begin(seller, "phone", i, 1);
    shop_settle(seller->shop);
    CHECK_INT(calls(seller) - before, 98);
    check_scripts_run(98);
    CHECK_INT(buys_with(seller->shop, INVENTORY_OK), 101);
    check_books(seller, &redis, "phone", 899, 0, 101);
}

static void test_more_than_a_batch(void) {
    enum { ALL = 2000 };
    static struct buy *first[ALL], *again[ALL];
    struct seller *seller = open_seller();
    item_sell(seller, "phone", strategy, 1500);
    for (int i = 0; i < ALL; i++)
        first[i] = begin(seller, "phone", i, 1);
    shop_settle(seller->shop);
    CHECK_INT(buys_with(seller->shop, INVENTORY_OK), 1500);
    CHECK_INT(buys_with(seller->shop, INVENTORY_SOLD_OUT), 500);
    check_books(seller, &redis, "phone", 0, 0, 1500);
    /* and every one of them again: the winners hear that they won, sold out though it is */
    for (int i = 0; i < ALL; i++)
        again[i] = begin(seller, "phone", i, 1);
    shop_settle(seller->shop);
    for (int i = 0; i < ALL; i++) {
        bool won = first[i]->status == INVENTORY_OK;
        CHECK_STATUS(again[i]->status, won ? INVENTORY_REPLAYED : INVENTORY_SOLD_OUT);
        if (won) {
            CHECK_STR(again[i]->order.id, first[i]->order.id);
            CHECK_STR(again[i]->order.user, first[i]->order.user);
        }
    }
    check_books(seller, &redis, "phone", 0, 0, 1500);
}

static void test_many_items(void) {
    enum { ITEMS = 2000 };
    struct seller *seller = open_seller();
    char name[32];
    for (int i = 0; i < ITEMS; i++) {
        snprintf(name, sizeof name, "item%d", i);
        struct inventory_item item = terms(name, strategy, 1);
        item_put_begin(seller, &item);
    }
    shop_settle(seller->shop);
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < ITEMS; i++) {
            snprintf(name, sizeof name, "item%d", i);
            buy_begin(seller, name, "ann", round ? "second" : "first", 1);
        }
        shop_settle(seller->shop);
    }
    CHECK_INT(buys_with(seller->shop, INVENTORY_OK), ITEMS);
    CHECK_INT(buys_with(seller->shop, INVENTORY_SOLD_OUT), ITEMS);
    for (int i = 0; i < ITEMS; i += 997)
        check_books(seller, &redis, harness_format("item%d", i), 0, 0, 1);
}

static void test_twins(void) {
    struct seller *seller = open_seller();
    item_sell(seller, "phone", strategy, 20);
    struct buy *twins[7];
    for (int i = 0; i < 5; i++)
        twins[i] = buy_begin(seller, "phone", "ann", "k", 2);
    twins[5] = buy_begin(seller, "phone", "bob", "k", 2);
    twins[6] = buy_begin(seller, "phone", "ann", "k", 1);
    shop_settle(seller->shop);
    int first = -1;
    for (int i = 0; i < 5; i++) {
        if (twins[i]->status != INVENTORY_REPLAYED) {
            CHECK_STATUS(twins[i]->status, INVENTORY_OK);
            CHECK_INT(first, -1);
            first = i;
        }
        CHECK_STR(twins[i]->order.id, twins[0]->order.id);
        CHECK_STR(twins[i]->order.user, "ann");
        CHECK_INT(twins[i]->order.quantity, 2);
    }
    CHECK(first >= 0);
    CHECK_STATUS(twins[5]->status, INVENTORY_OK); /* bob's key is another one */
    CHECK_STR(twins[5]->order.user, "bob");
    CHECK_STATUS(twins[6]->status, INVENTORY_KEY_REUSED);
    check_books(seller, &redis, "phone", 16, 0, 4);
}

/* What the twins take for a moment must not turn them away from the order that one of them wrote. */
static void test_twins_of_the_last_unit(void) {
    struct seller *seller = open_seller();
    /* Between two processes `decr` does not promise it. */
    struct seller *other = strategy == INVENTORY_DECR ? seller : seller_open(seller->shop, &redis);
    for (int limit = 0; limit < 2; limit++) {
        for (int round = 0; round < 20; round++) {
            const char *name = harness_format("phone-%d-%d", limit, round);
            item_put_as(seller, name, strategy, limit ? 100 : 1, limit, 0);
            for (int i = 0; i < 3; i++) {
                buy_begin(seller, name, "ann", "k", 1);
                buy_begin(other, name, "ann", "k", 1);
            }
            shop_settle(seller->shop);
            CHECK_INT(buys_with(seller->shop, INVENTORY_OK), 1);
            CHECK_INT(buys_with(seller->shop, INVENTORY_REPLAYED), 5);
            check_books(seller, &redis, name, limit ? 99 : 0, 0, 1);
            buys_forget(seller->shop);
        }
    }
}

static void test_limit_within_a_turn(void) {
    struct seller *seller = open_seller();
    item_put_as(seller, "phone", strategy, 100, 3, 0);
    for (int i = 0; i < 10; i++)
        buy_begin(seller, "phone", "ann", harness_format("a%d", i), 1);
    buy_begin(seller, "phone", "bob", "b1", 2);
    shop_settle(seller->shop);
    buy_begin(seller, "phone", "bob", "b2", 2);
    buy_begin(seller, "phone", "bob", "b3", 1);
    shop_settle(seller->shop);
    struct inventory_audit audit = item_audited(seller, "phone");
    CHECK(audit.conserved);
    CHECK_STR(ledger_audit(&redis, "phone"), "balanced");
    if (strategy == INVENTORY_DECR) /* two that are in each other's way may both be refused */
        CHECK(audit.user_units <= 6);
    else
        CHECK_INT(audit.user_units, 6);
}

/* Three want 5, 4 and 3 of 8 in one call: the first one is served first, and one that still fits gets its
 * units. */
static void test_mixed_quantities(void) {
    struct seller *seller = open_seller();
    item_sell(seller, "phone", INVENTORY_BATCH, 8);
    struct buy *five = begin(seller, "phone", 1, 5), *four = begin(seller, "phone", 2, 4),
               *three = begin(seller, "phone", 3, 3), *one = begin(seller, "phone", 4, 1);
    shop_settle(seller->shop);
    CHECK_STATUS(five->status, INVENTORY_OK);
    CHECK_STATUS(four->status, INVENTORY_SOLD_OUT);
    CHECK_STATUS(three->status, INVENTORY_OK);
    CHECK_STATUS(one->status, INVENTORY_SOLD_OUT);
    CHECK_INT(four->available, 0); /* when all in the call are served */
    CHECK_INT(one->available, 0);
    CHECK_INT(calls(seller), 1);
    check_books(seller, &redis, "phone", 0, 0, 8);
}

static void test_overload(void) {
    struct seller *seller = open_seller_with((struct seller_options){.queue_max = 300});
    struct shop *shop = seller->shop;
    seller->locked = true;
    item_sell(seller, "phone", strategy, 1000);
    for (int i = 0; i < 1000; i++) {
        struct buy *buy = begin(seller, "phone", i, 1);
        CHECK_INT(buy->answers, i >= 300); /* refused at once */
    }
    CHECK_INT(buys_with(shop, INVENTORY_OVERLOADED), 700);
    CHECK_INT(seller->inventory->shared.metrics->waiting, 300);
    shop_settle(shop);
    CHECK_INT(buys_with(shop, INVENTORY_OVERLOADED), 700);
    CHECK_INT(seller->inventory->shared.metrics->waiting, 0);
    struct inventory_audit audit = item_audited(seller, "phone");
    CHECK_INT(audit.orders[INVENTORY_STATE_CONFIRMED], 300);
    if (strategy < INVENTORY_NAIVE || fenced)
        check_books(seller, &redis, "phone", 700, 0, 300);
    CHECK_STATUS(buy(seller, "phone", "again", "again", 1)->status, INVENTORY_OK);
}

static void buy_more(struct buy *buy) {
    int *left = buy->ctx;
    if (*left == 0)
        return;
    char key[32];
    snprintf(key, sizeof key, "k%d", --*left);
    struct buy *next = buy_begin(buy->seller, buy->item, key, key, 1);
    next->then = buy_more;
    next->ctx = left;
    /* It may have been answered before it was told whom to call. */
    if (next->answers)
        buy->seller->shop->fault = "answered at once";
}

/* A caller that buys from within the answer, as a server does when a pipelined request follows. */
static void test_buys_when_answered(void) {
    struct seller *seller = open_seller();
    seller->locked = true;
    item_sell(seller, "phone", strategy, 150);
    int left = 300;
    for (int i = 0; i < 4; i++) {
        struct buy *buy = begin(seller, "phone", i, 1);
        buy->then = buy_more;
        buy->ctx = &left;
    }
    shop_settle(seller->shop);
    CHECK_INT(left, 0);
    CHECK_INT(buys_with(seller->shop, INVENTORY_OK) + buys_with(seller->shop, INVENTORY_SOLD_OUT), 304);
    if (strategy < INVENTORY_NAIVE || fenced) {
        CHECK_INT(buys_with(seller->shop, INVENTORY_OK), 150);
        check_books(seller, &redis, "phone", 0, 0, 150);
    }
}

static void test_made_anew_in_batches(void) {
    struct seller *seller = open_seller();
    item_sell(seller, "phone", INVENTORY_LUA, 3);
    for (int i = 0; i < 3; i++)
        begin(seller, "phone", i, 1);
    shop_settle(seller->shop);
    CHECK_STR(redis_command(&redis, "FLUSHALL", NULL), "OK");
    item_sell(seller, "phone", INVENTORY_BATCH, 300);
    for (int i = 0; i < 100; i++)
        begin(seller, "phone", i, 1);
    shop_settle(seller->shop);
    uint64_t before = calls(seller);
    for (int i = 100; i < 200; i++)
        begin(seller, "phone", i, 1);
    shop_settle(seller->shop);
    CHECK_INT(calls(seller) - before, 1);
    CHECK_INT(buys_with(seller->shop, INVENTORY_OK), 3 + 200);
}

/* A connection that has watched one item sells another one. */
static void test_no_conflict_with_another_item(void) {
    struct seller *seller = open_seller();
    item_sell(seller, "gone", INVENTORY_OPTIMISTIC, 0);
    item_sell(seller, "phone", INVENTORY_OPTIMISTIC, 10);
    for (int i = 0; i < 8; i++) {
        CHECK_STATUS(buy(seller, "gone", "ann", "k", 1)->status, INVENTORY_SOLD_OUT);
        redis_command(&redis, "HSET", stock_key("gone"), "sold", "0", NULL);
        CHECK_STATUS(buy(seller, "phone", "ann", harness_format("k%d", i), 1)->status, INVENTORY_OK);
    }
    CHECK_INT(seller->inventory->shared.metrics->conflicts, 0);
    for (int i = 0; i < 20; i++)
        begin(seller, "phone", i, 1);
    shop_settle(seller->shop);
    CHECK(seller->inventory->shared.metrics->conflicts > 0);
    CHECK_INT(buys_with(seller->shop, INVENTORY_OK), 10);
}

/* Names that are made up must not fill the memory. */
static void test_unknown_names_are_forgotten(void) {
    struct seller *seller = open_seller();
    for (int i = 0; i < 3000; i++)
        buy_begin(seller, harness_format("none%d", i), "ann", "k", 1);
    shop_settle(seller->shop);
    CHECK_INT(buys_with(seller->shop, INVENTORY_UNKNOWN_ITEM), 3000);
    CHECK_INT(seller->inventory->purchases->items.count, 0);
    CHECK_STR(store_dump(&redis, true), "");
}

int main(int argc, char **argv) {
    harness_begin(argc, argv);
    store_start(&redis, argc, argv);
    harness_run("what comes in one turn leaves in one call", test_one_turn_one_call);
    harness_run("many items leave in one call", test_many_items_one_call);
    harness_run("each item of a call has its own answer", test_each_item_its_answer);
    harness_run("items take turns", test_items_take_turns);
    run_each_and_fenced("without the event stream", test_without_events, INVENTORY_LOCKED);
    harness_run("a lone purchase leaves at once", test_alone_at_once);
    harness_run("two calls in flight, the others gather", test_two_in_flight);
    harness_run("the second call is as large as the first", test_the_second_is_as_large);
    harness_run("with the strategy lua each purchase is a call", test_lua_goes_alone);
    harness_run("made anew to be sold in batches", test_made_anew_in_batches);
    harness_run("mixed quantities in one call", test_mixed_quantities);
    harness_run("optimistic does not stumble over another item", test_no_conflict_with_another_item);
    harness_run("names that nobody sells", test_unknown_names_are_forgotten);
    run_each("more than a batch, and all of them again", test_more_than_a_batch, INVENTORY_OPTIMISTIC);
    run_each("thousands of items in one turn", test_many_items, INVENTORY_OPTIMISTIC);
    run_each_and_fenced("one key many times in one turn", test_twins, INVENTORY_OPTIMISTIC);
    run_each_and_fenced("one key many times, and one unit", test_twins_of_the_last_unit,
                        INVENTORY_OPTIMISTIC);
    run_each_and_fenced("one user many times in one turn", test_limit_within_a_turn, INVENTORY_OPTIMISTIC);
    run_each("a full queue refuses", test_overload, INVENTORY_LOCKED);
    run_each("buying from within an answer", test_buys_when_answered, INVENTORY_LOCKED);
    return harness_finish();
}
