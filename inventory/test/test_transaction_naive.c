/* Naive baskets: right under a lock that holds, and otherwise wrong in the ways that they are there to show.
 */
#include <stdio.h>
#include <string.h>

#include "inventory/test/transactions.h"
#include "inventory/transactions.h"
#include "inventory/transactions/transactions_internal.h"

static struct redis_server redis;

enum { WORK_MS = 10000 /* less than a call may take */, LEAST_STOCK = 3 };

/* A seller that makes naive baskets, as the holder of the locks, with this fence. */
static struct seller *holder(struct shop *shop, uint64_t fence, struct seller_options options) {
    options.port = options.port ? options.port : redis.port;
    struct seller *seller = seller_open_up(shop, &options);
    seller->fence = fence;
    return seller;
}

static struct seller *open_sale(uint64_t fence) {
    CHECK_STR(redis_command(&redis, "FLUSHALL", NULL), "OK");
    struct seller *seller = holder(shop_open(), fence, (struct seller_options){0});
    struct inventory_item lamp = terms("lamp", INVENTORY_OPTIMISTIC, LEAST_STOCK);
    lamp.limit = 2;
    lamp.hold_ms = 60000;
    item_sell(seller, "phone", INVENTORY_BATCH, LEAST_STOCK);
    CHECK_STATUS(item_put(seller, &lamp), INVENTORY_OK);
    return seller;
}

static void check_both(struct seller *seller, int64_t phones, int64_t lamps) {
    check_books(seller, &redis, "phone", LEAST_STOCK - phones, 0, phones);
    check_books(seller, &redis, "lamp", LEAST_STOCK - lamps, 0, lamps);
}

static void test_needs_teaching(void) {
    struct seller *seller = open_sale(0);
    struct seller *strict = holder(seller->shop, 5, (struct seller_options){.without_teaching = true});
    const char *before = store_dump(&redis, false);
    CHECK_STATUS(txn_make(strict, "k", "phone:1 lamp:1"), INVENTORY_REFUSED);
    CHECK_STR(store_dump(&redis, false), before);
}

/* Also what others hold is sold at once. With a fence and without. */
static void test_basket(int fence) {
    struct seller *seller = open_sale((uint64_t)fence);
    struct txn *first = txn_new(seller, "k", "lamp:1 phone:2 lamp:1");
    CHECK_STATUS(txn_do(first, TXN_MAKE), INVENTORY_OK);
    CHECK_STR(inventory_state_name(first->transaction.state), "confirmed");
    for (int i = 0; i < 3; i++) {
        struct inventory_order told, stands;
        inventory_transaction_order(&first->transaction, i, &told);
        CHECK_STATUS(order_step(seller, told.id, INVENTORY_READ, &stands), INVENTORY_OK);
        CHECK_STR(stands.item, first->transaction.lines[i].item);
        CHECK_STR(stands.user, "ann");
        CHECK_STR(stands.basket, first->transaction.id);
        CHECK_INT(stands.quantity, first->transaction.lines[i].quantity);
        CHECK_INT(stands.created_ms, told.created_ms);
        CHECK_STR(inventory_state_name(stands.state), "confirmed");
    }
    check_both(seller, 2, 2);
    CHECK_STR(redis_command(&redis, "KEYS", "seckill:{baskets*", NULL), "[]");
    CHECK_INT(redis_integer(&redis, "EXISTS", stock_key("phone:token"), NULL), fence > 0);
    /* A retry, with an older fence, and other requests with its key. */
    const char *before = store_dump(&redis, false);
    seller->fence = fence ? (uint64_t)fence - 1 : 0;
    redis_clock()->ahead_ms = 1000;
    struct txn *again = txn_new(seller, "k", "lamp:1 phone:2 lamp:1");
    CHECK_STATUS(txn_do(again, TXN_MAKE), INVENTORY_REPLAYED);
    CHECK_INT(again->transaction.created_ms, first->transaction.created_ms);
    CHECK_STATUS(txn_make(seller, "k", "lamp:1 phone:1 lamp:1"), INVENTORY_KEY_REUSED);
    CHECK_STATUS(txn_do(again, TXN_FIND), INVENTORY_UNKNOWN_BASKET);
    CHECK_STR(store_dump(&redis, false), before);
}

static void refused(struct seller *seller, const char *lines, enum inventory_status status, int line) {
    const char *before = store_dump(&redis, false);
    struct txn *txn = txn_new(seller, "refused", lines);
    CHECK_STATUS(txn_do(txn, TXN_MAKE), status);
    CHECK_INT(txn->transaction.failed, line);
    if (status == INVENTORY_SOLD_OUT)
        CHECK_INT(txn->transaction.available, LEAST_STOCK);
    CHECK_STR(store_dump(&redis, false), before);
}

static void test_refusals(void) {
    for (uint64_t fence = 0; fence <= 5; fence += 5) {
        struct seller *seller = open_sale(fence);
        refused(seller, "lamp:1 phone:4", INVENTORY_SOLD_OUT, 1);
        refused(seller, "phone:2 lamp:2 lamp:1 phone:2", INVENTORY_LIMIT, 2);
        refused(seller, "phone:2 lamp:1 phone:2 lamp:2", INVENTORY_SOLD_OUT, 2);
        refused(seller, "phone:1 nothing:1 phone:3", INVENTORY_UNKNOWN_ITEM, 1);
        CHECK_STATUS(txn_make(seller, "refused", "phone:1 lamp:1"), INVENTORY_OK);
        check_both(seller, 1, 1);
        shop_close(seller->shop);
    }
}

/* ---- a lock that holds: each waits for the one before ---- */

enum { SELLERS = 4, BASKETS = 60, STOCK = 40 };

static void test_in_turn(int with_fences) {
    CHECK_STR(redis_command(&redis, "FLUSHALL", NULL), "OK");
    uint64_t random = harness_seed();
    struct shop *shop = shop_open();
    struct seller *sellers[SELLERS];
    for (int i = 0; i < SELLERS; i++)
        sellers[i] = holder(shop, 0, (struct seller_options){.work_delay_ms = i % 2});
    static const char *const items[] = {"phone", "lamp", "chair"};
    for (int i = 0; i < 3; i++) {
        item_put_as(sellers[0], items[i], INVENTORY_BATCH, STOCK, i ? 12 : 0, 0);
    }
    int64_t sold[3] = {0};
    int refusals = 0;
    for (int i = 0; i < BASKETS; i++) {
        struct seller *seller = sellers[harness_random(&random) % SELLERS];
        int first = (int)(harness_random(&random) % 3), second = (int)(harness_random(&random) % 3);
        struct txn *txn = txn_new(seller, harness_format("k%d", i),
                                  harness_format("%s:1 %s:2", items[first], items[second]));
        snprintf(txn->transaction.user, sizeof txn->transaction.user, "user%d", i % 4);
        seller->fence = with_fences ? (uint64_t)i + 1 : 0;
        enum inventory_status status = txn_do(txn, TXN_MAKE);
        if (status == INVENTORY_OK) {
            sold[first] += 1;
            sold[second] += 2;
        } else {
            CHECK(status == INVENTORY_SOLD_OUT || status == INVENTORY_LIMIT);
            refusals++;
        }
    }
    CHECK(refusals > 0);
    for (int i = 0; i < 3; i++)
        check_books(sellers[0], &redis, items[i], STOCK - sold[i], 0, sold[i]);
}

/* ---- and one that does not ---- */

/* A basket has read, and is paused before its write. */
static struct txn *pause_basket(struct seller *seller, const char *key, const char *lines) {
    struct txn *paused = txn_new(seller, key, lines);
    txn_begin(paused, TXN_MAKE);
    SHOP_UNTIL(seller->shop, seller->inventory->strategies->work_delay.first != NULL, "the basket has read");
    return paused;
}

static enum inventory_status wake(struct txn *paused) {
    CHECK_INT(paused->answers, 0);
    paused->seller->shop->hurried_ms += WORK_MS;
    return txn_wait(paused);
}

static struct seller *slow_holder(struct seller *seller, uint64_t fence) {
    return holder(seller->shop, fence, (struct seller_options){.work_delay_ms = WORK_MS});
}

static int64_t oversold(struct seller *seller, const char *item) {
    struct inventory_audit audit = item_audited(seller, item);
    CHECK_INT(audit.conserved, audit.oversold == 0);
    return audit.oversold;
}

/* Without a fence, and with fencing off. */
static void test_overlap_oversells(void) {
    struct seller *seller = open_sale(0);
    struct seller *off =
        holder(seller->shop, 7, (struct seller_options){.work_delay_ms = WORK_MS, .without_fencing = true});
    struct seller *none = slow_holder(seller, 0);
    struct txn *first = pause_basket(none, "k1", "phone:2 lamp:1");
    struct txn *second = pause_basket(off, "k2", "phone:3 lamp:1");
    CHECK_STATUS(wake(first), INVENTORY_OK);
    CHECK_STATUS(txn_wait(second), INVENTORY_OK);
    CHECK_INT(oversold(seller, "phone"), 2);
    CHECK_INT(redis_integer(&redis, "EXISTS", stock_key("phone:token"), NULL), 0);
    /* Of lamps there were enough, and one was counted once. */
    struct inventory_audit audit = item_audited(seller, "lamp");
    CHECK(!audit.conserved);
    CHECK_INT(audit.item.available, LEAST_STOCK - 1);
    CHECK_INT(audit.units[INVENTORY_STATE_CONFIRMED], 2);
}

static void test_overtaken_at_the_write(void) {
    struct seller *seller = open_sale(6);
    struct txn *paused = pause_basket(slow_holder(seller, 5), "k1", "phone:2 lamp:1");
    CHECK_STATUS(txn_make(seller, "k2", "phone:2 lamp:1"), INVENTORY_OK);
    const char *before = store_dump(&redis, false);
    CHECK_STATUS(wake(paused), INVENTORY_STALE);
    CHECK_STR(store_dump(&redis, false), before);
    check_both(seller, 2, 1);
}

static void test_overtaken_at_the_read(void) {
    struct seller *seller = open_sale(6);
    CHECK_STATUS(txn_make(seller, "k2", "phone:1"), INVENTORY_OK);
    seller->fence = 5;
    const char *before = store_dump(&redis, false);
    CHECK_STATUS(txn_make(seller, "k1", "lamp:1 phone:1"), INVENTORY_STALE);
    CHECK_STR(store_dump(&redis, false), before);
    /* The new one has only read: nothing changes what it read until it writes. */
    struct txn *old = pause_basket(slow_holder(seller, 7), "k3", "phone:2 lamp:1");
    struct txn *new = pause_basket(slow_holder(seller, 8), "k4", "phone:2 lamp:1");
    CHECK_STATUS(wake(old), INVENTORY_STALE);
    CHECK_STATUS(txn_wait(new), INVENTORY_OK);
    check_both(seller, 3, 1);
}

/* Of two items one was overtaken: no fence makes it whole. Its retry does. */
static void test_half_a_basket(void) {
    struct seller *seller = open_sale(6);
    struct txn *paused = pause_basket(slow_holder(seller, 5), "k1", "phone:2 lamp:1");
    CHECK_STATUS(txn_make(seller, "k2", "lamp:1"), INVENTORY_OK);
    CHECK_STATUS(wake(paused), INVENTORY_STALE);
    check_both(seller, 2, 1);
    seller->fence = 7;
    CHECK_STATUS(txn_make(seller, "k1", "phone:2 lamp:1"), INVENTORY_OK);
    CHECK_STATUS(txn_make(seller, "k1", "phone:2 lamp:1"), INVENTORY_REPLAYED);
    check_both(seller, 2, 2);
}

/* ---- what breaks ---- */

static void test_reply_lost(void) {
    static const char *const after[] = {"HINCRBY", "HMGET", "EVALSHA"}; /* the write; its orders; the read */
    struct seller *seller = open_sale(0);
    struct proxy *proxy = proxy_start(redis.port);
    struct seller *other = holder(seller->shop, 0, (struct seller_options){.port = proxy_port(proxy)});
    for (int i = 0; i < 3; i++) {
        proxy_set(proxy, PROXY_CUT, 0, after[i]);
        struct txn *basket = txn_new(other, harness_format("k%d", i), "phone:1 lamp:1");
        snprintf(basket->transaction.user, sizeof basket->transaction.user, "user%d", i);
        CHECK_STATUS(txn_do(basket, TXN_MAKE), INVENTORY_OK);
        CHECK_INT(proxy_faults(proxy), i + 1);
        CHECK_STATUS(txn_do(basket, TXN_MAKE), INVENTORY_REPLAYED);
        check_both(seller, i + 1, i + 1);
    }
}

static void settings_again(void *arg) {
    (void)arg;
    redis_command(&redis, "CONFIG", "SET", "maxmemory", "0", NULL);
}

/* The store is full when it is to be written, and has room again by the time that its orders are asked for.
 */
static void at_failpoint(void *ctx, const char *step) {
    int *sold = ctx;
    if (strcmp(step, "before sell 0") == 0)
        redis_command(&redis, "CONFIG", "SET", "maxmemory", "1", NULL);
    else if (strcmp(step, "before orders 0") == 0)
        settings_again(NULL);
    *sold += strncmp(step, "before sell", 11) == 0;
}

/* Nothing was written, by what its orders say; nobody knows what else was, so it is not written again. */
static void test_refused_by_the_store(void) {
    struct seller *seller = open_sale(0);
    int sold = 0;
    struct seller *other = holder(
        seller->shop, 0, (struct seller_options){.at_failpoint = at_failpoint, .at_failpoint_ctx = &sold});
    harness_defer(settings_again, NULL);
    CHECK_STATUS(txn_make(other, "k1", "phone:1 lamp:1"), INVENTORY_UNKNOWN);
    CHECK_INT(sold, 2);
    check_both(seller, 0, 0);
    CHECK_STATUS(txn_make(seller, "k1", "phone:1 lamp:1"), INVENTORY_OK);
    check_both(seller, 1, 1);
}

static void test_closed_at_work(void) {
    struct seller *seller = open_sale(0);
    struct seller *slow = slow_holder(seller, 0);
    struct txn *paused = pause_basket(slow, "k1", "phone:1 lamp:1");
    seller_close(slow);
    CHECK_INT(paused->answers, 1);
    CHECK_STATUS(paused->status, INVENTORY_UNAVAILABLE);
    check_both(seller, 0, 0);
}

int main(int argc, char **argv) {
    harness_begin(argc, argv);
    store_start(&redis, argc, argv);
    way = NAIVELY;
    harness_run("it needs teaching", test_needs_teaching);
    run_case("a basket, and a retry", test_basket, 0);
    run_case("a basket, and a retry, with fences", test_basket, 5);
    harness_run("the first line that fails is named, and nothing is done", test_refusals);
    run_case("one after the other, it is right", test_in_turn, false);
    run_case("one after the other, it is right, with fences", test_in_turn, true);
    harness_run("two that overlap oversell", test_overlap_oversells);
    harness_run("with fences: overtaken at the write", test_overtaken_at_the_write);
    harness_run("with fences: overtaken at the read", test_overtaken_at_the_read);
    harness_run("with fences: half a basket", test_half_a_basket);
    harness_run("a reply is lost", test_reply_lost);
    harness_run("the store refuses", test_refused_by_the_store);
    harness_run("closed at work", test_closed_at_work);
    return harness_finish();
}
