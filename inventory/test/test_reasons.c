/* Of several reasons to refuse a purchase, or a basket, each way to sell names the same one. */

#include "inventory/test/transactions.h"

static struct redis_server redis;

enum { STARTS_MS = 10000000, ENDS_MS = 20000000, STOCK = 10, LIMIT = 2, WANTED = 2 };

enum moment { EARLY, OPEN, LATE, MOMENTS };
static const int64_t moments_ms[MOMENTS] = {[EARLY] = STARTS_MS - 1, [OPEN] = STARTS_MS, [LATE] = ENDS_MS};

/* Items with so many units left. One is fewer than are wanted. */
static const int64_t left[] = {0, 1, 5};
enum { LEFT = sizeof left / sizeof *left };

static const char *item_of(int i) {
    return harness_format("left-%d", (int)left[i]);
}

static enum inventory_status expected(enum moment moment, int64_t units, bool over_limit) {
    if (moment != OPEN)
        return moment == EARLY ? INVENTORY_NOT_STARTED : INVENTORY_ENDED;
    if (units < WANTED)
        return INVENTORY_SOLD_OUT;
    return over_limit ? INVENTORY_LIMIT : INVENTORY_OK;
}

/* The items are on sale; ann has one unit of each, and a second one would be her last. Whoever sold them
 * knows of those that are sold out. */
static struct seller *open_sale(void) {
    CHECK_STR(redis_command(&redis, "FLUSHALL", NULL), "OK");
    struct seller *seller = seller_open(shop_open(), &redis);
    seller->locked = strategy == INVENTORY_LOCKED;
    redis_clock()->stopped_ms = STARTS_MS;
    for (int i = 0; i < LEFT; i++) {
        struct inventory_item item = terms(item_of(i), strategy, STOCK);
        item.limit = LIMIT;
        item.starts_ms = STARTS_MS;
        item.ends_ms = ENDS_MS;
        CHECK_STATUS(item_put(seller, &item), INVENTORY_OK);
        CHECK_STATUS(buy(seller, item.item, "ann", "first", 1)->status, INVENTORY_OK);
        for (int64_t n = 1; n < STOCK - left[i]; n++) {
            const char *name = harness_format("user-%d", (int)n);
            CHECK_STATUS(buy(seller, item.item, name, name, 1)->status, INVENTORY_OK);
        }
    }
    return seller;
}

static void check_purchases(struct seller *seller, enum moment moment, int i) {
    static const char *const users[] = {"bob", "ann"};
    redis_clock()->stopped_ms = moments_ms[moment];
    for (int over_limit = 0; over_limit < 2; over_limit++) {
        enum inventory_status want = expected(moment, left[i], over_limit);
        if (want == INVENTORY_OK)
            continue;
        struct buy *refused = buy(seller, item_of(i), users[over_limit], "again", WANTED);
        CHECK_STATUS(refused->status, want);
        if (want == INVENTORY_SOLD_OUT)
            CHECK_INT(refused->available, left[i]);
    }
}

static void test_purchases(void) {
    struct seller *knows = open_sale();
    struct seller *fresh = seller_open(knows->shop, &redis);
    fresh->locked = knows->locked;
    for (int round = 0; round < 2; round++) {
        for (int moment = 0; moment < MOMENTS; moment++) {
            for (int i = 0; i < LEFT; i++) {
                check_purchases(knows, (enum moment)moment, i);
                check_purchases(fresh, (enum moment)moment, i);
            }
        }
    }
    for (int i = 0; i < LEFT; i++)
        check_books(knows, &redis, item_of(i), left[i], 0, STOCK - left[i]);
}

/* Baskets are ann's. */
static void test_baskets(void) {
    strategy = INVENTORY_BATCH;
    struct seller *seller = open_sale();
    for (int moment = 0; moment < MOMENTS; moment++) {
        redis_clock()->stopped_ms = moments_ms[moment];
        for (int i = 0; i < LEFT; i++) {
            struct txn *basket = txn_new(seller, "basket", harness_format("%s:2", item_of(i)));
            enum inventory_status want = expected((enum moment)moment, left[i], true);
            CHECK_STATUS(txn_do(basket, TXN_MAKE), want);
            CHECK_INT(basket->transaction.failed, 0);
        }
    }
    for (int i = 0; i < LEFT; i++)
        check_books(seller, &redis, item_of(i), left[i], 0, STOCK - left[i]);
}

int main(int argc, char **argv) {
    harness_begin(argc, argv);
    store_start(&redis, argc, argv);
    run_each("one order of reasons", test_purchases, INVENTORY_LOCKED);
    run_ways("one order of reasons", test_baskets, NAIVELY);
    return harness_finish();
}
