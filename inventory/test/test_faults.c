/* The store goes away in every way there is: what the buyer hears, and that the books balance after it. */
#include <stdio.h>
#include <string.h>

#include "inventory/purchases/putback.h"
#include "inventory/test/fixture.h"
#include "inventory/transactions/transactions_internal.h"

static void start(struct redis_server *redis) {
    redis_start(redis, NULL);
}

/* Everything that can be asked is answered with UNAVAILABLE, and all but an audit at once. */
static void check_all_unavailable(struct seller *seller) {
    struct shop *shop = seller->shop;
    struct inventory_item item = terms("new", INVENTORY_BATCH, 1);
    struct buy *bought = buy_begin(seller, "phone", "ann", "down", 1);
    enum { CALLS = 5 };
    struct answer *answers[CALLS] = {
        item_put_begin(seller, &item), item_read_begin(seller, "phone"),
        item_restock_begin(seller, "phone", "down", 1),
        order_step_begin(seller, "phone:0123456789012345678901", INVENTORY_READ),
        order_step_begin(seller, "phone:0123456789012345678901", INVENTORY_CONFIRM)};
    inventory_sweep(seller->inventory);
    CHECK_INT(shop->open, 0);
    CHECK_STATUS(bought->status, INVENTORY_UNAVAILABLE);
    for (int i = 0; i < CALLS; i++) {
        CHECK_STATUS(answers[i]->status, INVENTORY_UNAVAILABLE);
        CHECK(!answers[i]->told);
    }
    CHECK_STATUS(item_audit(seller, "phone", NULL), INVENTORY_UNAVAILABLE); /* once it has tried to connect */
    struct inventory_health health;
    store_health(seller, &health);
    CHECK(!health.ready);
    CHECK_HAS(health.reason, "no connection to the store");
    CHECK_STR(health.appendonly, "unknown");
}

static void test_down_at_start(void) {
    struct redis_server redis;
    start(&redis);
    redis_stop(&redis);
    struct seller *seller = seller_open_with(shop_open(), &(struct seller_options){.port = redis.port});
    check_all_unavailable(seller);
    shop_idle(seller->shop, 100);
    check_all_unavailable(seller);
    CHECK_HAS(inventory_last_error(seller->inventory), "refused");
    redis_restart(&redis);
    seller_wait_up(seller);
    CHECK_STR(inventory_last_error(seller->inventory), "");
    item_sell(seller, "phone", INVENTORY_BATCH, 1);
    CHECK_STATUS(buy(seller, "phone", "ann", "down", 1)->status, INVENTORY_OK);
    check_books(seller, &redis, "phone", 0, 0, 1);
}

static void test_stopped_when_idle(void) {
    struct redis_server redis;
    start(&redis);
    struct seller *seller = seller_open(shop_open(), &redis);
    item_sell(seller, "phone", strategy, 3);
    CHECK_STATUS(buy(seller, "phone", "ann", "k1", 1)->status, INVENTORY_OK);
    for (int round = 0; round < 2; round++) {
        redis_stop(&redis);
        seller_wait_down(seller);
        check_all_unavailable(seller);
        redis_restart(&redis);
        seller_wait_up(seller);
    }
    if (strategy == INVENTORY_OPTIMISTIC) /* its own connections may take a moment longer */
        shop_idle(seller->shop, 300);
    CHECK_STATUS(buy(seller, "phone", "ann", "k1", 1)->status, INVENTORY_REPLAYED);
    CHECK_STATUS(buy(seller, "phone", "ann", "k2", 1)->status, INVENTORY_OK);
    CHECK_INT(seller->inventory->shared.metrics->reconnects, 3);
    check_books(seller, &redis, "phone", 1, 0, 2);
}

/* ---- killed under load ---- */

enum { BUYERS = 64 };

/* Keeps so many purchases in flight until `sold` were answered OK. */
static void load_until(struct seller *seller, int *count, int sold) {
    while (buys_with(seller->shop, INVENTORY_OK) < sold) {
        while (seller->shop->open < BUYERS) {
            const char *name = harness_format("k%d", (*count)++);
            if (buy_begin(seller, "phone", name, name, 1)->answers)
                break; /* the store is down: the next turn is early enough */
        }
        shop_turn(seller->shop);
    }
}

/* Each answer against what the store has: returns how many units the orders have. */
static int64_t check_answers(struct seller *seller) {
    int64_t units = 0;
    for (const struct buy *buy = seller->shop->buys; buy; buy = buy->next) {
        struct inventory_order order;
        enum inventory_status found = order_step(seller, buy->id, INVENTORY_READ, &order);
        if (buy->status == INVENTORY_OK || buy->status == INVENTORY_REPLAYED) {
            CHECK_STATUS(found, INVENTORY_OK);
            CHECK_STR(order.id, buy->order.id);
            CHECK_INT(order.quantity, buy->order.quantity);
        } else if (buy->status == INVENTORY_UNAVAILABLE) {
            CHECK_STATUS(found, INVENTORY_UNKNOWN_ORDER);
        } else {
            CHECK_STATUS(buy->status, INVENTORY_UNKNOWN);
        }
        units += found == INVENTORY_OK ? 1 : 0;
    }
    return units;
}

static void test_killed_under_load(void) {
    enum { STOCK = 100000 };
    struct redis_server redis;
    start(&redis);
    struct seller *seller = seller_open(shop_open(), &redis);
    struct shop *shop = seller->shop;
    item_sell(seller, "phone", strategy, STOCK);
    int count = 0;
    for (int round = 1; round <= 3; round++) {
        load_until(seller, &count, round * 400);
        redis_kill(&redis);
        seller_wait_down(seller);
        redis_restart(&redis);
        seller_wait_up(seller);
    }
    load_until(seller, &count, 4 * 400);
    shop_settle(shop);
    int64_t units = check_answers(seller);
    struct inventory_audit audit = item_audited(seller, "phone");
    CHECK_INT(audit.units[INVENTORY_STATE_CONFIRMED], units);
    CHECK_INT(audit.oversold, 0);
    if (strategy != INVENTORY_DECR) /* which loses units when it is interrupted, but no order */
        check_books(seller, &redis, "phone", STOCK - units, 0, units);
}

static void ping_twice(const struct redis_server *redis) {
    for (int i = 0; i < 2; i++)
        CHECK_STR(redis_command(redis, "PING", NULL), "PONG");
}

/* The replies have arrived, and the store is gone by the time that they are read: what follows them cannot be
 * written any more. */
static void test_killed_between_reply_and_next_call(void) {
    struct redis_server redis;
    start(&redis);
    struct shop *shop = shop_open();
    struct seller *seller = seller_open(shop, &redis);
    item_sell(seller, "phone", strategy, 1000);
    CHECK_STATUS(buy(seller, "phone", "first", "first", 1)->status, INVENTORY_OK);
    CHECK_STR(redis_command(&redis, "SCRIPT", "FLUSH", NULL), "OK");
    for (int i = 0; i < 50; i++) {
        const char *name = harness_format("k%d", i);
        buy_begin(seller, "phone", name, name, 1);
        item_restock_begin(seller, "phone", name, 1);
        inventory_flush(seller->inventory);
    }
    inventory_sweep(seller->inventory);
    inventory_flush(seller->inventory);
    ping_twice(&redis);
    redis_kill(&redis);
    seller_wait_down(seller);
    redis_restart(&redis);
    seller_wait_up(seller);
    shop_settle(shop);
    for (const struct buy *buy = shop->buys; buy; buy = buy->next)
        CHECK(buy->status == INVENTORY_OK || buy->status == INVENTORY_UNAVAILABLE ||
              buy->status == INVENTORY_UNKNOWN);
    struct inventory_audit audit = item_audited(seller, "phone");
    CHECK_INT(audit.units[INVENTORY_STATE_CONFIRMED], buys_with(shop, INVENTORY_OK));
    if (strategy != INVENTORY_DECR)
        CHECK_STR(ledger_audit(&redis, "phone"), "balanced");
}

/* ---- restarted empty: what was acknowledged lately is put back; the rest is unknown, and neither full nor
 * sold out ---- */

static void restart_empty(struct seller *seller, struct redis_server *redis) {
    redis_kill(redis);
    seller_wait_down(seller);
    redis_wipe(redis);
    redis_restart(redis);
    seller_hurry_up(seller);
    if (strategy == INVENTORY_OPTIMISTIC)
        shop_idle(seller->shop, 300);
}

static void test_restarted_empty(void) {
    struct redis_server redis;
    start(&redis);
    struct seller *seller = seller_open(shop_open(), &redis);
    item_sell(seller, "phone", strategy, 5);
    item_sell(seller, "gone", strategy, 1);
    CHECK_STATUS(buy(seller, "phone", "ann", "k1", 1)->status, INVENTORY_OK);
    CHECK_STATUS(buy(seller, "gone", "ann", "k1", 1)->status, INVENTORY_OK);
    CHECK_STATUS(buy(seller, "gone", "bob", "k2", 1)->status, INVENTORY_SOLD_OUT);
    restart_empty(seller, &redis);
    CHECK_STATUS(buy(seller, "phone", "ann", "k1", 1)->status, INVENTORY_REPLAYED);
    CHECK_STATUS(buy(seller, "gone", "bob", "k2", 1)->status, INVENTORY_SOLD_OUT);
    check_books(seller, &redis, "phone", 4, 0, 1);
    check_books(seller, &redis, "gone", 0, 0, 1);
    seller->shop->hurried_ms += RECEIPTS_REPLICATED_LONG_MS + 1000;
    SHOP_UNTIL(seller->shop, seller->inventory->purchases->putback->receipts.count == 0,
               "the receipts are forgotten");
    restart_empty(seller, &redis);
    CHECK_STATUS(buy(seller, "phone", "ann", "k1", 1)->status, INVENTORY_UNKNOWN_ITEM);
    CHECK_STATUS(buy(seller, "gone", "bob", "k2", 1)->status, INVENTORY_UNKNOWN_ITEM);
    CHECK_STATUS(item_reader(seller, "gone", &(struct inventory_item){.initial = 0}), INVENTORY_UNKNOWN_ITEM);
}

/* ---- silent ---- */

static void test_paused(void) {
    struct redis_server redis;
    start(&redis);
    struct shop *shop = shop_open();
    struct seller *seller =
        seller_open_up(shop, &(struct seller_options){.port = redis.port, .call_timeout_ms = 200});
    item_sell(seller, "phone", strategy, 100);
    CHECK_STATUS(buy(seller, "phone", "first", "first", 1)->status, INVENTORY_OK);
    redis_pause(&redis);
    struct buy *bought[20];
    for (int i = 0; i < 20; i++)
        bought[i] = buy_begin(seller, "phone", "ann", harness_format("k%d", i), 1);
    seller_wait_down(seller);
    CHECK_HAS(inventory_last_error(seller->inventory), "time-out");
    shop_idle(shop, 500); /* connecting again comes to nothing, too */
    CHECK_STATUS(buy(seller, "phone", "ann", "meanwhile", 1)->status, INVENTORY_UNAVAILABLE);
    redis_resume(&redis);
    shop_settle(shop);
    seller_wait_up(seller);
    for (int i = 0; i < 20; i++) {
        CHECK(bought[i]->status == INVENTORY_OK || bought[i]->status == INVENTORY_UNKNOWN ||
              bought[i]->status == INVENTORY_UNAVAILABLE || bought[i]->status == INVENTORY_OVERLOADED);
        struct buy *again = buy(seller, "phone", "ann", harness_format("k%d", i), 1);
        if (bought[i]->status == INVENTORY_OK)
            CHECK_STATUS(again->status, INVENTORY_REPLAYED);
        else
            CHECK(again->status == INVENTORY_OK || again->status == INVENTORY_REPLAYED);
    }
    check_books(seller, &redis, "phone", 79, 0, 21);
}

static void test_unknown_in_the_end(void) {
    struct redis_server redis;
    start(&redis);
    struct shop *shop = shop_open();
    struct seller *seller = seller_open_up(
        shop, &(struct seller_options){.port = redis.port, .call_timeout_ms = 150, .resolve_ms = 300});
    item_sell(seller, "phone", strategy, 10);
    redis_pause(&redis);
    int64_t from_ms = harness_now_ms();
    struct buy *bought = buy(seller, "phone", "ann", "k", 1);
    CHECK_STATUS(bought->status, INVENTORY_UNKNOWN);
    CHECK(harness_now_ms() - from_ms >= 450);
    CHECK_INT(seller->inventory->shared.metrics->unknown, 1);
    CHECK_INT(seller->inventory->shared.metrics->unknown_resolved, 0);
    redis_resume(&redis);
    seller_wait_up(seller);
    struct buy *again = buy(seller, "phone", "ann", "k", 1);
    CHECK(again->status == INVENTORY_OK || again->status == INVENTORY_REPLAYED);
    check_books(seller, &redis, "phone", 9, 0, 1);
}

/* ---- closed with everything in flight ---- */

static void fill(struct seller *seller) {
    for (int i = 0; i < INVENTORY_STRATEGIES; i++) {
        const char *item = inventory_strategy_name((enum inventory_strategy)i);
        seller->locked = true;
        for (int j = 0; j < 700; j++)
            buy_begin(seller, item, item, harness_format("k%d", j), 1);
        item_read_begin(seller, item);
        item_audit_begin(seller, item);
        item_restock_begin(seller, item, "r", 1);
        order_step_begin(seller, harness_format("%s:0123456789012345678901", item), INVENTORY_CONFIRM);
    }
    store_health_begin(seller);
    inventory_sweep(seller->inventory);
    inventory_flush(seller->inventory);
}

static void test_closed_when_busy(void) {
    struct redis_server redis;
    start(&redis);
    for (int when = 0; when < 7; when++) {
        struct shop *shop = shop_open();
        struct inventory_metrics metrics = {.batches = 0};
        struct seller *seller = seller_open_up(
            shop, &(struct seller_options){
                      .port = redis.port, .call_timeout_ms = 300, .work_delay_ms = 50, .metrics = &metrics});
        for (int i = 0; i < INVENTORY_STRATEGIES; i++) {
            struct inventory_item item = terms(inventory_strategy_name((enum inventory_strategy)i),
                                               (enum inventory_strategy)i, 100000);
            item_put(seller, &item);
            seller->locked = true;
            buy(seller, item.item, "first", "first", 1);
        }
        if (when == 5)
            redis_pause(&redis);
        fill(seller);
        if (when < 4)
            shop_idle(shop,
                      when * 15); /* some replies have come, some have not; some are in their work delay */
        else if (when == 4)
            redis_kill(&redis);
        else if (when == 5)
            seller_wait_down(seller); /* they are lost now, and asked for */
        int before = shop->open;
        for (struct buy *buy = shop->buys; buy; buy = buy->next)
            buy->ctx = buy->answers ? NULL : buy;
        CHECK_INT(metrics.waiting > 0, shop->open > 0);
        seller_close(seller);
        CHECK_INT(shop->open, 0);
        CHECK_INT(metrics.waiting, 0);
        CHECK(when > 0 || before > 0);
        for (const struct buy *buy = shop->buys; buy; buy = buy->next) {
            CHECK_INT(buy->answers, 1);
            if (buy->ctx && buy->status != INVENTORY_UNKNOWN && buy->status != INVENTORY_UNAVAILABLE)
                FAIL("%s, closed at %d: %s", buy->item, when, status_text(buy->status));
        }
        shop_close(shop);
        if (when == 4)
            redis_restart(&redis);
        if (when == 5)
            redis_resume(&redis);
    }
}

static void test_closed_at_once(void) {
    struct redis_server redis;
    start(&redis);
    struct shop *shop = shop_open();
    seller_open_with(shop, &(struct seller_options){.port = redis.port});
    shop_close(shop);
    redis_stop(&redis);
    shop = shop_open();
    seller_open_with(shop, &(struct seller_options){.port = redis.port});
    shop_close(shop);
    char error[128] = "";
    uv_loop_t loop;
    uv_loop_init(&loop);
    struct inventory_config config = {.redis_url = "redis://:hunter2@h:x", .clock = &clock_system};
    CHECK(inventory_open(&loop, &config, error, sizeof error) == NULL);
    CHECK(error[0] && !strstr(error, "hunter2"));
    CHECK_INT(uv_loop_close(&loop), 0);
    inventory_close(NULL);
}

/* Units came back, so a purchase is to start again with the next flush; the inventory is closed before that.
 */
static void test_closed_before_it_starts_again(void) {
    struct redis_server redis;
    start(&redis);
    struct shop *shop = shop_open();
    struct seller *seller = seller_open(shop, &redis), *other = seller_open(shop, &redis);
    item_sell(seller, "phone", INVENTORY_BATCH, 1);
    CHECK_STATUS(buy(seller, "phone", "ann", "k1", 1)->status, INVENTORY_OK);
    CHECK_STATUS(buy(seller, "phone", "bob", "k2", 1)->status, INVENTORY_SOLD_OUT);
    CHECK_STATUS(item_restock(other, "phone", "r", 1, NULL), INVENTORY_OK);
    struct buy *late = buy_begin(seller, "phone", "eve", "k3", 1);
    while (STAILQ_EMPTY(&seller->inventory->purchases->again) && shop->open > 0)
        shop_turn(shop);
    CHECK(!STAILQ_EMPTY(&seller->inventory->purchases->again));
    seller_close(seller);
    CHECK_STATUS(late->status, INVENTORY_UNAVAILABLE);
    check_books(other, &redis, "phone", 1, 0, 1);
}

/* A queue as long as it may get, and the store dies. */
static void test_killed_with_a_long_queue(void) {
    enum { QUEUE = 50000, STOCK = 100000 };
    struct redis_server redis;
    start(&redis);
    struct shop *shop = shop_open();
    struct seller *seller =
        seller_open_up(shop, &(struct seller_options){.port = redis.port, .call_timeout_ms = 1500});
    seller->locked = true;
    item_sell(seller, "phone", strategy, STOCK);
    CHECK_STATUS(buy(seller, "phone", "first", "first", 1)->status, INVENTORY_OK);
    for (int i = 0; i < QUEUE; i++) {
        char name[16];
        snprintf(name, sizeof name, "k%d", i);
        buy_begin(seller, "phone", name, name, 1);
    }
    redis_kill(&redis);
    seller_wait_down(seller);
    redis_restart(&redis);
    seller_wait_up(seller);
    shop_settle(shop);
    CHECK_INT(seller->inventory->shared.metrics->waiting, 0);
    if (strategy == INVENTORY_BATCH || strategy == INVENTORY_LUA || strategy == INVENTORY_OPTIMISTIC ||
        fenced)
        check_books(seller, &redis, "phone", STOCK - buys_with(shop, INVENTORY_OK), 0,
                    buys_with(shop, INVENTORY_OK));
}

int main(int argc, char **argv) {
    harness_begin(argc, argv);
    harness_run("down at start", test_down_at_start);
    run_each("stopped while idle", test_stopped_when_idle, INVENTORY_OPTIMISTIC);
    run_each("killed under load, restarted from its file", test_killed_under_load, INVENTORY_OPTIMISTIC);
    run_each("killed between a reply and the next call", test_killed_between_reply_and_next_call,
             INVENTORY_OPTIMISTIC);
    run_fenced("killed under load, restarted from its file", test_killed_under_load);
    run_fenced("killed between a reply and the next call", test_killed_between_reply_and_next_call);
    run_each("killed with a long queue", test_killed_with_a_long_queue, INVENTORY_LOCKED);
    run_each("restarted empty", test_restarted_empty, INVENTORY_OPTIMISTIC);
    run_each_and_fenced("paused for longer than a call may take", test_paused, INVENTORY_LUA);
    run_each("not back before the deadline", test_unknown_in_the_end, INVENTORY_LUA);
    harness_run("closed with everything in flight", test_closed_when_busy);
    harness_run("closed before a purchase starts again", test_closed_before_it_starts_again);
    harness_run("closed at once, and not opened at all", test_closed_at_once);
    return harness_finish();
}
