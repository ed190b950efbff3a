/* Fences: of the holders of an item's lock only the newest writes, however long the others were paused. */
#include <stdlib.h>
#include <string.h>

#include "inventory/test/fixture.h"
#include "inventory/transactions/transactions_internal.h"

static struct redis_server redis;

enum { WORK_MS = 10000 /* less than a call may take */ };

/* A seller with the lock, and this fence. */
static struct seller *holder(struct shop *shop, uint64_t fence, struct seller_options options) {
    options.port = redis.port;
    struct seller *seller = seller_open_up(shop, &options);
    seller->locked = true;
    seller->fence = fence;
    return seller;
}

/* A shop of ten phones, and its first holder. */
static struct seller *open_sale(uint64_t fence) {
    CHECK_STR(redis_command(&redis, "FLUSHALL", NULL), "OK");
    struct seller *seller = holder(shop_open(), fence, (struct seller_options){0});
    item_sell(seller, "phone", INVENTORY_LOCKED, 10);
    return seller;
}

/* EPOCH:FENCE, without the zeros before them. */
static const char *newest(const char *item) {
    const char *text = redis_command(&redis, "GET", stock_key(harness_format("%s:token", item)), NULL);
    if (strcmp(text, "(nil)") == 0)
        return text;
    CHECK_INT(strlen(text), 41);
    CHECK(text[20] == ':');
    return harness_format("%llu:%llu", strtoull(text, NULL, 10), strtoull(text + 21, NULL, 10));
}

static enum inventory_status buy_with(struct seller *seller, uint64_t fence, const char *key) {
    seller->fence = fence;
    return buy(seller, "phone", "ann", key, 1)->status;
}

/* Refused, and nothing in the store is other than it was. */
static void refused(struct seller *seller, uint64_t fence) {
    const char *before = store_dump(&redis, true);
    CHECK_STATUS(buy_with(seller, fence, "stale"), INVENTORY_STALE);
    CHECK_STR(store_dump(&redis, true), before);
}

static void test_older_is_refused(void) {
    struct seller *seller = open_sale(0);
    CHECK_STATUS(buy_with(seller, 7, "k1"), INVENTORY_OK);
    CHECK_STR(newest("phone"), "0:7");
    refused(seller, 6);
    refused(seller, 1);
    CHECK_STATUS(buy_with(seller, 7, "k2"), INVENTORY_OK);
    CHECK_STR(newest("phone"), "0:7");
    CHECK_STATUS(buy_with(seller, 8, "k3"), INVENTORY_OK);
    CHECK_STR(newest("phone"), "0:8");
    refused(seller, 7);
    CHECK_STATUS(buy_with(seller, 9, "stale"), INVENTORY_OK); /* what was refused may win later */
    check_books(seller, &redis, "phone", 6, 0, 4);
}

/* Each is newer than the one before it; some of them are one and the same as doubles, or before it as texts.
 */
static void test_order_of_fences(void) {
    static const uint64_t fences[] = {1,
                                      2,
                                      9,
                                      10,
                                      11,
                                      99,
                                      100,
                                      UINT64_C(9007199254740991),
                                      UINT64_C(9007199254740992), /* 2^53 */
                                      UINT64_C(9007199254740993),
                                      UINT64_C(9007199254740994),
                                      UINT64_C(9223372036854775806),
                                      UINT64_C(9223372036854775807),
                                      UINT64_C(9223372036854775808), /* 2^63 */
                                      UINT64_C(9999999999999999999),
                                      UINT64_C(10000000000000000000),
                                      UINT64_MAX};
    enum { FENCES = sizeof fences / sizeof *fences };
    struct seller *seller = open_sale(0);
    CHECK_STATUS(item_restock(seller, "phone", "r", FENCES, NULL), INVENTORY_OK);
    for (int i = 0; i < FENCES; i++) {
        CHECK_STATUS(buy_with(seller, fences[i], harness_format("k%d", i)), INVENTORY_OK);
        CHECK_STR(newest("phone"), harness_format("0:%llu", (unsigned long long)fences[i]));
        for (int j = 0; j < i; j++)
            refused(seller, fences[j]);
    }
    check_books(seller, &redis, "phone", 10, 0, FENCES);
}

/* A newer epoch counts whatever its fences. */
static void test_order_of_epochs(void) {
    static const uint64_t epochs[] = {0, 1, 9, 10, 11, UINT64_C(9007199254740993), UINT64_MAX};
    enum { EPOCHS = sizeof epochs / sizeof *epochs };
    struct seller *seller = open_sale(0);
    CHECK_STATUS(item_restock(seller, "phone", "r", EPOCHS, NULL), INVENTORY_OK);
    for (int i = 0; i < EPOCHS; i++) {
        seller->epoch = epochs[i];
        CHECK_STATUS(buy_with(seller, 5, harness_format("k%d", i)), INVENTORY_OK);
        CHECK_STR(newest("phone"), harness_format("%llu:5", (unsigned long long)epochs[i]));
        refused(seller, 4);
        for (int j = 0; j < i; j++) {
            seller->epoch = epochs[j];
            refused(seller, 6);
        }
    }
    check_books(seller, &redis, "phone", 10, 0, EPOCHS);
}

/* Without fence and epoch, and with fencing off, the write is the naive one, and no fence is checked or
 * kept. */
static void test_unchecked(void) {
    struct seller *seller = open_sale(7);
    struct seller *off = holder(seller->shop, 3, (struct seller_options){.without_fencing = true});
    CHECK_STATUS(buy(seller, "phone", "ann", "k1", 1)->status, INVENTORY_OK);
    CHECK_STATUS(buy_with(seller, 0, "k2"), INVENTORY_OK);
    CHECK_STATUS(buy_with(off, 3, "k3"), INVENTORY_OK);
    CHECK_STATUS(buy_with(off, 9, "k4"), INVENTORY_OK);
    CHECK_STR(newest("phone"), "0:7");
    check_books(seller, &redis, "phone", 6, 0, 4);
}

/* A newer lock that has no fences stops the grants of older ones all the same, but not each other's. */
static void test_epochs_without_fences(void) {
    struct seller *seller = open_sale(7);
    seller->epoch = 1;
    CHECK_STATUS(buy_with(seller, 7, "k1"), INVENTORY_OK);
    seller->epoch = 2;
    CHECK_STATUS(buy_with(seller, 0, "k2"), INVENTORY_OK);
    CHECK_STR(newest("phone"), "2:0");
    CHECK_STATUS(buy_with(seller, 0, "k3"), INVENTORY_OK);
    seller->epoch = 1;
    refused(seller, 8);
    refused(seller, 0);
    seller->epoch = 3;
    CHECK_STATUS(buy_with(seller, 5, "k4"), INVENTORY_OK);
    seller->epoch = 2;
    refused(seller, 0);
    check_books(seller, &redis, "phone", 6, 0, 4);
}

/* Only `locked` is sold under a lock. */
static void test_other_strategies(void) {
    for (int i = 0; i < INVENTORY_LOCKED; i++) {
        struct seller *seller = open_sale(7);
        item_sell(seller, "lamp", (enum inventory_strategy)i, 2);
        CHECK_STATUS(buy(seller, "lamp", "ann", "k1", 1)->status, INVENTORY_OK);
        seller->fence = 6;
        CHECK_STATUS(buy(seller, "lamp", "ann", "k2", 1)->status, INVENTORY_OK);
        CHECK_STR(newest("lamp"), "(nil)");
        shop_close(seller->shop);
    }
}

static void test_replay(void) {
    struct seller *seller = open_sale(7);
    struct inventory_order first = buy(seller, "phone", "ann", "k", 2)->order;
    seller->fence = 9;
    CHECK_STATUS(buy(seller, "phone", "bob", "k2", 1)->status, INVENTORY_OK);
    const char *before = store_dump(&redis, true);
    for (uint64_t fence = 6; fence <= 8; fence++) {
        seller->fence = fence;
        struct buy *again = buy(seller, "phone", "ann", "k", 2);
        CHECK_STATUS(again->status, INVENTORY_REPLAYED);
        CHECK_STR(again->order.id, first.id);
        CHECK_INT(again->order.quantity, 2);
        CHECK_INT(again->order.created_ms, first.created_ms);
        CHECK_STATUS(buy(seller, "phone", "ann", "k", 1)->status, INVENTORY_KEY_REUSED);
    }
    CHECK_STR(store_dump(&redis, true), before);
}

static void test_each_item_has_its_own(void) {
    struct seller *seller = open_sale(7);
    item_sell(seller, "lamp", INVENTORY_LOCKED, 10);
    CHECK_STATUS(buy(seller, "phone", "ann", "k", 1)->status, INVENTORY_OK);
    seller->fence = 3;
    CHECK_STATUS(buy(seller, "lamp", "ann", "k", 1)->status, INVENTORY_OK);
    CHECK_STR(newest("phone"), "0:7");
    CHECK_STR(newest("lamp"), "0:3");
    refused(seller, 3);
    check_books(seller, &redis, "lamp", 9, 0, 1);
}

static void test_outlives_the_item(void) {
    struct seller *seller = open_sale(7);
    struct inventory_item item = terms("phone", INVENTORY_LOCKED, 10);
    CHECK_STATUS(buy(seller, "phone", "ann", "k", 1)->status, INVENTORY_OK);
    CHECK_STATUS(item_put(seller, &item), INVENTORY_REPLAYED);
    CHECK_STATUS(item_restock(seller, "phone", "r", 5, NULL), INVENTORY_OK);
    refused(seller, 6);
    redis_command(&redis, "DEL", stock_key("phone"), stock_key("phone"), stock_key("phone:events"),
                  stock_key("phone"), NULL);
    CHECK_STATUS(buy_with(seller, 8, "k"), INVENTORY_UNKNOWN_ITEM);
    CHECK_STR(newest("phone"), "0:7");
    CHECK_STATUS(item_put(seller, &item), INVENTORY_OK);
    refused(seller, 6);
    CHECK_STATUS(buy_with(seller, 7, "k"), INVENTORY_OK);
    check_books(seller, &redis, "phone", 9, 0, 1);
}

/* Nothing is kept for what nobody sells, also where it is remembered as sold under a lock. */
static void test_unknown_item(void) {
    struct seller *seller = open_sale(7);
    CHECK_STATUS(buy(seller, "phone", "ann", "k", 1)->status, INVENTORY_OK);
    redis_command(&redis, "FLUSHALL", NULL);
    CHECK_STATUS(buy(seller, "phone", "ann", "k", 1)->status, INVENTORY_UNKNOWN_ITEM);
    CHECK_INT(redis_integer(&redis, "DBSIZE", NULL), 0);
}

/* ---- paused between read and write ---- */

/* A purchase has read, and is paused before its write. */
static struct buy *pause_buyer(struct seller *seller, const char *user, const char *key, int64_t quantity) {
    struct buy *paused = buy_begin(seller, "phone", user, key, quantity);
    SHOP_UNTIL(seller->shop, seller->inventory->strategies->work_delay.first != NULL,
               "the purchase has read");
    return paused;
}

static enum inventory_status wake(struct buy *paused) {
    struct shop *shop = paused->seller->shop;
    CHECK_INT(paused->answers, 0);
    shop->hurried_ms += WORK_MS;
    shop_settle(shop);
    return paused->status;
}

static struct seller *slow_holder(struct seller *seller, uint64_t fence) {
    return holder(seller->shop, fence, (struct seller_options){.work_delay_ms = WORK_MS});
}

static void test_overtaken_by_a_sale(void) {
    struct seller *seller = open_sale(6);
    struct buy *paused = pause_buyer(slow_holder(seller, 5), "ann", "k1", 1);
    CHECK_STR(newest("phone"), "0:5");
    CHECK_STATUS(buy(seller, "phone", "bob", "k2", 1)->status, INVENTORY_OK);
    const char *before = store_dump(&redis, true);
    CHECK_STATUS(wake(paused), INVENTORY_STALE);
    CHECK_STR(store_dump(&redis, true), before);
    check_books(seller, &redis, "phone", 9, 0, 1);
    CHECK_STATUS(buy_with(seller, 7, "k1"), INVENTORY_OK); /* the retry */
}

/* The new holder has only read: nothing may change what it read until it writes. */
static void test_overtaken_by_a_read(void) {
    struct seller *seller = open_sale(0);
    struct buy *old = pause_buyer(slow_holder(seller, 5), "ann", "k1", 10);
    seller->shop->hurried_ms = WORK_MS / 2;
    struct buy *new = pause_buyer(slow_holder(seller, 6), "bob", "k2", 10);
    CHECK_STR(newest("phone"), "0:6");
    const char *before = store_dump(&redis, true);
    seller->shop->hurried_ms = WORK_MS + 1;
    while (!old->answers)
        shop_turn(seller->shop);
    CHECK_STATUS(old->status, INVENTORY_STALE);
    CHECK_STR(store_dump(&redis, true), before);
    CHECK_STATUS(wake(new), INVENTORY_OK);
    check_books(seller, &redis, "phone", 0, 0, 10);
}

/* Its own retry was faster, under a newer fence. */
static void test_overtaken_by_its_retry(void) {
    struct seller *seller = open_sale(6);
    struct buy *paused = pause_buyer(slow_holder(seller, 5), "ann", "k", 2);
    struct inventory_order order = buy(seller, "phone", "ann", "k", 2)->order;
    CHECK_STATUS(wake(paused), INVENTORY_REPLAYED);
    CHECK_STR(paused->order.id, order.id);
    CHECK_INT(paused->order.created_ms, order.created_ms);
    check_books(seller, &redis, "phone", 8, 0, 2);
}

/* What needs no lock goes on meanwhile, and the write does not undo it. */
static void test_units_added_meanwhile(void) {
    CHECK_STR(redis_command(&redis, "FLUSHALL", NULL), "OK");
    struct seller *seller = holder(shop_open(), 5, (struct seller_options){0});
    item_put_as(seller, "phone", INVENTORY_LOCKED, 10, 6, 600000);
    struct inventory_order held = buy(seller, "phone", "ann", "k1", 4)->order;
    struct buy *paused = pause_buyer(slow_holder(seller, 6), "ann", "k2", 2);
    CHECK_STATUS(item_restock(seller, "phone", "r", 3, NULL), INVENTORY_OK);
    CHECK_STATUS(order_step(seller, held.id, INVENTORY_CANCEL, NULL), INVENTORY_OK);
    CHECK_STATUS(wake(paused), INVENTORY_OK);
    CHECK_INT(paused->order.state, INVENTORY_STATE_HELD);
    check_books(seller, &redis, "phone", 11, 2, 0);
}

/* One fence, given out twice: both hold it by what is known here, and still nobody oversells. */
static void test_one_fence_twice(void) {
    CHECK_STR(redis_command(&redis, "FLUSHALL", NULL), "OK");
    struct seller *seller = holder(shop_open(), 5, (struct seller_options){0});
    item_put_as(seller, "phone", INVENTORY_LOCKED, 10, 6, 0);
    struct buy *paused = pause_buyer(slow_holder(seller, 5), "ann", "k1", 2);
    CHECK_STATUS(buy(seller, "phone", "ann", "k2", 5)->status, INVENTORY_OK);
    CHECK_STATUS(wake(paused), INVENTORY_LIMIT);
    paused = pause_buyer(slow_holder(seller, 5), "bob", "k3", 5);
    CHECK_STATUS(buy(seller, "phone", "eve", "k4", 2)->status, INVENTORY_OK);
    CHECK_STATUS(wake(paused), INVENTORY_SOLD_OUT);
    CHECK_INT(paused->available, 3);
    check_books(seller, &redis, "phone", 3, 0, 7);
}

static void test_item_gone_meanwhile(void) {
    struct seller *seller = open_sale(0);
    struct buy *paused = pause_buyer(slow_holder(seller, 5), "ann", "k", 1);
    CHECK_STR(redis_command(&redis, "FLUSHALL", NULL), "OK");
    CHECK_STATUS(wake(paused), INVENTORY_UNKNOWN_ITEM);
    CHECK_INT(redis_integer(&redis, "DBSIZE", NULL), 0);
}

/* ---- a lock that is lost all the time ---- */

enum { SELLERS = 4, STOCK = 30, GRANTS = 200 };

static void let_all_write(struct shop *shop) {
    for (; shop->open > 0; shop->hurried_ms += 10)
        shop_turn(shop);
}

/* Hands the lock on, mostly without waiting for its holder, and has the holders write in random order. */
static struct shop *sell_by_a_bad_lock(uint64_t *random, bool without_fencing) {
    CHECK_STR(redis_command(&redis, "FLUSHALL", NULL), "OK");
    struct shop *shop = shop_open();
    struct seller *sellers[SELLERS];
    for (int i = 0; i < SELLERS; i++)
        sellers[i] = holder(
            shop, 0, (struct seller_options){.work_delay_ms = 10 * i, .without_fencing = without_fencing});
    item_put_as(sellers[0], "phone", INVENTORY_LOCKED, STOCK, 8, 0);
    for (uint64_t fence = 1; fence <= GRANTS; fence++) {
        struct seller *seller = sellers[harness_random(random) % SELLERS];
        seller->fence = fence;
        buy_begin(seller, "phone", harness_format("user%d", (int)(harness_random(random) % 6)),
                  harness_format("k%d", (int)fence), 1);
        if (harness_random(random) % 2)
            shop_turn(shop);
        shop->hurried_ms += (int64_t)(harness_random(random) % 10);
        if (harness_random(random) % 4 == 0)
            let_all_write(shop);
    }
    let_all_write(shop);
    return shop;
}

static void test_a_bad_lock(void) {
    uint64_t random = harness_seed();
    for (int round = 0; round < 5; round++) {
        struct shop *shop = sell_by_a_bad_lock(&random, false);
        int sold = buys_with(shop, INVENTORY_OK);
        CHECK(buys_with(shop, INVENTORY_STALE) > 0);
        CHECK_INT(sold, STOCK);
        check_books(shop->sellers, &redis, "phone", 0, 0, sold);
        shop_close(shop);
        /* The same without fences, to see that there was something to prevent. */
        shop = sell_by_a_bad_lock(&random, true);
        struct inventory_audit audit = item_audited(shop->sellers, "phone");
        CHECK(!audit.conserved);
        CHECK_INT(buys_with(shop, INVENTORY_STALE), 0);
        shop_close(shop);
    }
}

int main(int argc, char **argv) {
    harness_begin(argc, argv);
    store_start(&redis, argc, argv);
    harness_run("an older fence is refused, an equal or newer one is not", test_older_is_refused);
    harness_run("fences as large as they come", test_order_of_fences);
    harness_run("no fence, or fencing off: unchecked", test_unchecked);
    harness_run("other strategies know no fences", test_other_strategies);
    harness_run("a newer epoch, whatever its fences", test_order_of_epochs);
    harness_run("a newer epoch without fences", test_epochs_without_fences);
    harness_run("a retry gets the original answer, however old its fence", test_replay);
    harness_run("each item has its own", test_each_item_has_its_own);
    harness_run("the newest fence outlives the item", test_outlives_the_item);
    harness_run("nothing is kept for an unknown item", test_unknown_item);
    harness_run("paused, and overtaken by a sale", test_overtaken_by_a_sale);
    harness_run("paused, and overtaken by a read", test_overtaken_by_a_read);
    harness_run("paused, and overtaken by its own retry", test_overtaken_by_its_retry);
    harness_run("paused, and units were added", test_units_added_meanwhile);
    harness_run("paused, and another has the same fence", test_one_fence_twice);
    harness_run("paused, and the item is gone", test_item_gone_meanwhile);
    harness_run("a lock that is lost all the time", test_a_bad_lock);
    return harness_finish();
}
