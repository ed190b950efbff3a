/* Audits in pages: beside a sale, of what is large, of what is wrong, many at once, and cut off. */
#include <stdlib.h>
#include <string.h>

#include "inventory/test/fixture.h"
#include "inventory/test/transactions.h"

static struct redis_server redis;

enum { HOLD_MS = 60000, STOCK = 10000000, PATIENCE_MS = 30000 };

#define ITEM  "seckill:{47}:phone"
#define HOLDS "seckill:{47}:phone:holds"
#define EXTRA "extra00000000000000000"
#define SOLD  "sold000000000000000000"
#define HELD  "held000000000000000000"
#define OVER  "over000000000000000000"

/* Orders as a sale of `phone` would have left them: each of one unit and a user of its own. */
static void grow(int count) {
    static const char script[] = "local orders, users = {}, {}\n"
                                 "for i = ARGV[1] + 0, ARGV[1] + ARGV[2] - 1 do\n"
                                 "  orders[#orders + 1] = string.format('%022d', i)\n"
                                 "  orders[#orders + 1] = 'c 1 old' .. i .. ' 1700000000000'\n"
                                 "  users[#users + 1] = '@old' .. i\n"
                                 "  users[#users + 1] = 1\n"
                                 "end\n"
                                 "redis.call('HSET', KEYS[1], unpack(orders))\n"
                                 "redis.call('HSET', KEYS[1], unpack(users))\n"
                                 "redis.call('HINCRBY', KEYS[1], 'sold', ARGV[2])\n"
                                 "return redis.call('HINCRBY', KEYS[1], 'available', -ARGV[2])\n";
    enum { STEP = 2000 };
    for (int i = 0; i < count; i += STEP)
        CHECK_INT(redis_integer(&redis, "EVAL", script, "1", ITEM, harness_format("%d", i),
                                harness_format("%d", STEP), NULL),
                  STOCK - i - STEP);
}

static struct seller *open_sale(enum inventory_strategy sold_by, bool held, int orders) {
    CHECK_STR(redis_command(&redis, "FLUSHALL", NULL), "OK");
    struct seller *seller = seller_open(shop_open(), &redis);
    item_put_as(seller, "phone", sold_by, STOCK, 1000000, held ? HOLD_MS : 0);
    grow(orders);
    return seller;
}

static long long calls_of(const char *command) {
    const char *stats = redis_command(&redis, "INFO", "commandstats", NULL);
    const char *at = strstr(stats, harness_format("cmdstat_%s:calls=", command));
    return at ? strtoll(strchr(at, '=') + 1, NULL, 10) : 0;
}

/* ---- large, and quiet ---- */

static void test_large(void) {
    enum { MANY = 40000 };
    struct seller *seller = open_sale(INVENTORY_BATCH, false, MANY);
    struct inventory_audit audit;
    redis_command(&redis, "CONFIG", "RESETSTAT", NULL);
    audit = item_audited(seller, "phone");
    CHECK(audit.exact && audit.conserved);
    CHECK_INT(audit.off_by, 0);
    CHECK_INT(audit.orders[INVENTORY_STATE_CONFIRMED], MANY);
    CHECK_INT(audit.user_units, MANY);
    /* In pages of no more than a thousand, and nothing that reads all at once. */
    CHECK(calls_of("hscan") >= 2 * MANY / 1000);
    CHECK_INT(calls_of("hgetall") + calls_of("hvals") + calls_of("hkeys"), 0);
    /* One order that was changed, and one that is missing, show among all of them. */
    redis_command(&redis, "HSET", ITEM, "0000000000000000033333", "c 1 old33332 1700000000000", NULL);
    audit = item_audited(seller, "phone");
    CHECK(audit.exact && !audit.conserved);
    redis_command(&redis, "HDEL", ITEM, "0000000000000000033333", NULL);
    audit = item_audited(seller, "phone");
    CHECK(audit.exact && !audit.conserved);
    CHECK_INT(audit.units[INVENTORY_STATE_CONFIRMED], MANY - 1);
}

/* ---- beside a sale ---- */

struct sale {
    struct seller *seller;
    uint64_t random;
    int bought, restocks, transactions;
    bool transactions_too;
};

static int below(struct sale *sale, int n) {
    return (int)(harness_random(&sale->random) % (uint64_t)n);
}

static const char *user_of(int purchase) {
    return harness_format("u%d", purchase % 50);
}

static void any_step(struct sale *sale) {
    struct seller *seller = sale->seller;
    int what = below(sale, 20);
    int any = below(sale, sale->bought + 1);
    if (what < 10) {
        buy_begin(seller, "phone", user_of(sale->bought), harness_format("k%d", sale->bought),
                  1 + below(sale, 9));
        sale->bought++;
    } else if (what < 17) {
        char digest[INVENTORY_DIGEST_SIZE];
        const char *key = harness_format("k%d", any);
        inventory_key_digest(user_of(any), key, strlen(key), digest);
        order_step_begin(seller, harness_format("phone:%s", digest),
                         what < 13 ? INVENTORY_CONFIRM : INVENTORY_CANCEL);
    } else if (what == 17) {
        item_restock_begin(seller, "phone", harness_format("r%d", sale->restocks++), 1 + below(sale, 100));
    } else if (sale->transactions_too) {
        /* The second line fails now and then: what was taken of the first is undone. */
        const char *lines = harness_format("phone:2 lamp:%d phone:1", 1 + below(sale, 3));
        struct txn *txn = txn_new(seller, harness_format("b%d", sale->transactions++), lines);
        txn_begin(txn, what == 18 ? TXN_MAKE : TXN_FIND);
    }
    if (below(sale, 50) == 0) { /* what is held so far is due */
        redis_clock()->ahead_ms += HOLD_MS;
        inventory_sweep(seller->inventory);
    }
}

static int64_t difference(int64_t a, int64_t b) {
    return a > b ? a - b : b - a;
}

static void check_off_by(const struct inventory_audit *audit) {
    CHECK(difference(audit->units[INVENTORY_STATE_HELD], audit->item.held) <= audit->off_by);
    CHECK(difference(audit->units[INVENTORY_STATE_CONFIRMED], audit->item.sold) <= audit->off_by);
    CHECK_INT(audit->oversold, 0);
    CHECK(audit->exact == (audit->off_by == 0));
}

/* Audits while `steps` of the sale are begun at each turn; returns how many were not exact. */
static int audit_beside(struct sale *sale, int audits) {
    struct seller *auditor = seller_open(sale->seller->shop, &redis);
    int inexact = 0;
    for (int i = 0; i < audits; i++) {
        struct answer *answer = item_audit_begin(auditor, "phone");
        while (answer->count == 0) {
            for (int k = 0; k < 3; k++)
                any_step(sale);
            shop_turn(sale->seller->shop);
        }
        CHECK_STATUS(answer->status, INVENTORY_OK);
        check_off_by(&answer->audit);
        /* Who goes step by step may have stopped between two, for all that can be seen of it. */
        if (!answer->audit.conserved && !(strategy == INVENTORY_DECR && answer->audit.exact))
            FAIL("audit %d is not conserved, off by %lld", i, (long long)answer->audit.off_by);
        inexact += !answer->audit.exact;
    }
    shop_settle(sale->seller->shop);
    return inexact;
}

/* A sweep may still be at work when all else has been answered. */
static void check_quiet(struct seller *seller) {
    struct inventory_audit audit;
    int64_t deadline_ms = harness_now_ms() + PATIENCE_MS;
    do {
        CHECK(harness_now_ms() < deadline_ms);
        audit = item_audited(seller, "phone");
        CHECK(audit.conserved);
        check_off_by(&audit);
    } while (!audit.exact);
}

enum { SOME = 4000 };

static void test_beside_a_sale(void) {
    struct sale sale = {.seller = open_sale(strategy, true, SOME), .random = harness_seed()};
    CHECK(audit_beside(&sale, 6) > 3);
    /* `decr` enters a hold after the order: one that was cancelled in between stays in the list until it is
     * due. */
    redis_clock()->ahead_ms += HOLD_MS + INVENTORY_HOLD_GRACE_MS + 1000;
    holds_sweep(sale.seller, &redis);
    check_quiet(sale.seller);
}

static void test_beside_baskets(void) {
    struct sale sale = {
        .seller = open_sale(INVENTORY_BATCH, true, SOME), .random = harness_seed(), .transactions_too = true};
    item_sell(sale.seller, "lamp", INVENTORY_BATCH, 200);
    CHECK(audit_beside(&sale, 6) > 3);
    txns_recover(sale.seller);
    check_quiet(sale.seller);
}

/* ---- something is wrong, and it sells ---- */

static void buy_again(struct buy *buy) {
    int *left = buy->ctx;
    if (*left == 0)
        return;
    static int bought;
    struct buy *next = buy_begin(buy->seller, "phone", "ann", harness_format("on%d", bought++), 1);
    next->ctx = left;
    next->then = buy_again;
}

/* An audit beside one buyer, in which some units were sold, and by far fewer than are wrong. */
static void audit_while_selling(struct seller *seller, struct inventory_audit *audit) {
    int64_t deadline_ms = harness_now_ms() + PATIENCE_MS;
    int selling = 1;
    struct seller *auditor = seller_open(seller->shop, &redis);
    struct buy first = {.seller = seller, .ctx = &selling};
    buy_again(&first);
    do {
        CHECK(harness_now_ms() < deadline_ms);
        CHECK_STATUS(item_audit(auditor, "phone", audit), INVENTORY_OK);
    } while (audit->exact || audit->off_by >= 5000);
    selling = 0;
    shop_settle(seller->shop);
}

static const char *const planted[][8] = {
    {"HSET", ITEM, EXTRA, "c 100000 zoe 1700000000000"},
    {"HSET", ITEM, EXTRA, "h 100000 zoe 1700000000000 1700000060000"},
    {"HSET", ITEM, EXTRA, "x 100000 zoe 1700000000000 1700000060000"},
    {"HSET", ITEM, EXTRA, "garbage"},
    {"HDEL", ITEM, SOLD},
    {"HDEL", ITEM, HELD},
    {"HINCRBY", ITEM, "available", "1"},
    {"HINCRBY", ITEM, "held", "-1"},
    {"HSET", ITEM, "terms", "10100000 1000000 0 0 0 0 batch"},
    {"HINCRBY", ITEM, "released", "100000"},
    {"HINCRBY", ITEM, "@tom", "100000"},
    {"HSET", ITEM, "@tom", "99999999"}, /* over the limit */
    {"HDEL", ITEM, "@zoe"},
    {"HSET", ITEM, "sold", "0", "available", "9900000"}, /* the counters agree, but not with the orders */
};

static struct seller *open_planted(void) {
    struct seller *seller = open_sale(INVENTORY_BATCH, false, SOME);
    redis_command(&redis, "HSET", ITEM, SOLD, "c 100000 zoe 1700000000000", HELD,
                  "h 100000 zoe 1700000000000 9900000000000", OVER,
                  "x 100000 zoe 1700000000000 1700000060000", NULL);
    redis_command(&redis, "ZADD", HOLDS, "9900000000000", HELD, NULL);
    redis_command(&redis, "HSET", ITEM, "@zoe", "200000", NULL);
    redis_command(&redis, "HSET", ITEM, "released", "100000", "held", "100000", NULL);
    redis_command(&redis, "HINCRBY", ITEM, "sold", "100000", NULL);
    redis_command(&redis, "HINCRBY", ITEM, "available", "-200000", NULL);
    return seller;
}

static void test_planted(void) {
    struct inventory_audit audit;
    for (size_t i = 0; i < sizeof planted / sizeof *planted; i++) {
        const char *const *p = planted[i];
        struct seller *seller = open_planted();
        if (i == 0) {
            audit_while_selling(seller, &audit);
            CHECK(audit.conserved);
        }
        const char *reply = redis_command(&redis, p[0], p[1], p[2], p[3], p[4], p[5], NULL);
        CHECK(!strstr(reply, "error"));
        audit_while_selling(seller, &audit);
        if (audit.conserved)
            FAIL("not noticed: %s %s %s %s", p[0], p[1], p[2], p[3] ? p[3] : "");
        audit = item_audited(seller, "phone");
        CHECK(audit.exact && !audit.conserved);
        shop_close(seller->shop);
    }
}

static void test_oversold(void) {
    struct inventory_audit audit;
    struct seller *seller = open_planted();
    redis_command(&redis, "HSET", ITEM, EXTRA, "c 9999999 zoe 1700000000000", NULL);
    audit_while_selling(seller, &audit);
    CHECK(audit.oversold >= 200000 + SOME - 1);
    CHECK(!audit.conserved);
}

/* ---- many at once ---- */

static int count_status(struct answer **answers, int count, enum inventory_status status) {
    int found = 0;
    for (int i = 0; i < count; i++)
        found += answers[i]->count == 1 && answers[i]->status == status;
    return found;
}

static void test_many(void) {
    enum { MOST = 1024, MORE = 100 };
    static struct answer *answers[MOST + MORE];
    struct seller *seller = open_sale(INVENTORY_BATCH, false, SOME);
    redis_command(&redis, "CONFIG", "RESETSTAT", NULL);
    for (int i = 0; i < MOST + MORE; i++)
        answers[i] = item_audit_begin(seller, "phone");
    CHECK_INT(count_status(answers, MOST + MORE, INVENTORY_OVERLOADED), MORE);
    CHECK_STATUS(buy(seller, "phone", "ann", "k", 1)->status, INVENTORY_OK);
    shop_settle(seller->shop);
    CHECK_INT(count_status(answers, MOST + MORE, INVENTORY_OK), MOST);
    /* Those who ask for the same are told by the same pages. */
    CHECK(calls_of("hscan") < 10 * 2 * SOME / 100);
    CHECK_STATUS(item_audit(seller, "phone", NULL), INVENTORY_OK);
}

static void wait_for_pages(struct seller *seller) {
    long long before = calls_of("hscan");
    int64_t deadline_ms = harness_now_ms() + PATIENCE_MS;
    while (calls_of("hscan") < before + 3) {
        CHECK(harness_now_ms() < deadline_ms);
        shop_turn(seller->shop);
    }
}

/* A small item does not wait until a large one is read. */
static void test_turns(void) {
    struct seller *seller = open_sale(INVENTORY_BATCH, false, 10 * SOME);
    item_sell(seller, "lamp", INVENTORY_BATCH, 1);
    CHECK_STATUS(item_audit(seller, "lamp", NULL), INVENTORY_OK); /* so that the connection is there */
    struct answer *large = item_audit_begin(seller, "phone"), *small = item_audit_begin(seller, "lamp"),
                  *same = item_audit_begin(seller, "phone");
    while (small->count == 0)
        shop_turn(seller->shop);
    CHECK_STATUS(small->status, INVENTORY_OK);
    CHECK_INT(large->count, 0);
    CHECK_INT(same->count, 0);
    shop_settle(seller->shop);
    CHECK_STATUS(large->status, INVENTORY_OK);
    CHECK_STATUS(same->status, INVENTORY_OK); /* told by the same pages */
}

/* ---- what comes in between ---- */

/* The page that follows is lost: who buys over the other connection sees nothing of it. */
static void test_cut(void) {
    open_sale(INVENTORY_BATCH, false, SOME);
    struct proxy *proxy = proxy_start(redis.port);
    struct seller *seller = seller_open_up(
        shop_open(), &(struct seller_options){.port = proxy_port(proxy), .call_timeout_ms = 20000});
    for (int bytes = 0; bytes < 15000; bytes += 5000) {
        int before = proxy_faults(proxy);
        proxy_set(proxy, PROXY_CUT, bytes, "HSCAN");
        struct answer *answer = item_audit_begin(seller, "phone"), *other = item_audit_begin(seller, "lamp");
        for (int i = 0; answer->count == 0; i++)
            CHECK_STATUS(buy(seller, "phone", "ann", harness_format("k%d-%d", bytes, i), 1)->status,
                         INVENTORY_OK);
        CHECK_STATUS(answer->status, INVENTORY_UNAVAILABLE);
        shop_settle(seller->shop);
        CHECK_STATUS(other->status, INVENTORY_UNAVAILABLE);
        CHECK_INT(proxy_faults(proxy), before + 1);
        CHECK_STATUS(item_audit(seller, "phone", NULL), INVENTORY_OK);
    }
    CHECK_INT(seller->inventory->shared.metrics->reconnects, 1);
    CHECK_INT(seller->inventory->shared.metrics->unknown, 0);
}

/* What belongs to two items is not put together. */
static void test_made_anew(void) {
    struct seller *seller = open_sale(INVENTORY_BATCH, false, 10 * SOME);
    struct answer *answer = item_audit_begin(seller, "phone");
    wait_for_pages(seller);
    redis_command(&redis, "DEL", ITEM, NULL);
    item_sell(seller, "phone", INVENTORY_BATCH, 10);
    shop_settle(seller->shop);
    CHECK_STATUS(answer->status, INVENTORY_UNAVAILABLE);
    check_quiet(seller);
    grow(0);
    redis_command(&redis, "DEL", ITEM, NULL);
    CHECK_STATUS(item_audit(seller, "phone", NULL), INVENTORY_UNKNOWN_ITEM);
}

static void test_closed(void) {
    struct seller *seller = open_sale(INVENTORY_BATCH, false, 10 * SOME);
    struct answer *answer = item_audit_begin(seller, "phone");
    wait_for_pages(seller);
    struct answer *waits = item_audit_begin(seller, "lamp");
    seller_close(seller);
    CHECK_STATUS(answer->status, INVENTORY_UNAVAILABLE);
    CHECK_STATUS(waits->status, INVENTORY_UNAVAILABLE);
}

int main(int argc, char **argv) {
    harness_begin(argc, argv);
    store_start(&redis, argc, argv);
    harness_run("a large item, in pages", test_large);
    run_each("beside a sale", test_beside_a_sale, INVENTORY_OPTIMISTIC);
    harness_run("beside baskets", test_beside_baskets);
    harness_run("every planted error is noticed while it sells", test_planted);
    harness_run("oversold while it sells", test_oversold);
    harness_run("many at once", test_many);
    harness_run("they take turns", test_turns);
    harness_run("cut off", test_cut);
    harness_run("the item is made anew", test_made_anew);
    harness_run("closed", test_closed);
    return harness_finish();
}
