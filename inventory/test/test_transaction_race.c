/* Everything at once, on few items: baskets at once and in steps, under no lock at all, with the same keys,
 * transfers, single purchases, settlements and expiries; and a store that is killed meanwhile. In the end,
 * when all that was left unfinished is finished, the books balance, and every transaction is whole or is not.
 */
#include <stdio.h>
#include <string.h>

#include "inventory/purchases/putback.h"
#include "inventory/test/transactions.h"
#include "inventory/transactions.h"
#include "inventory/transactions/transactions_internal.h"
#include "test/harness.h"

enum {
    SELLERS = 6,
    ITEMS = 5,
    STOCK = 120,
    KEYS = 300,
    TRANSFERS = 12,
    UNDER_WAY = 48,
    HOLD_MS = 150,
    TRANSACTIONS_MOST = 4096
};

static const char *const items[ITEMS] = {"phone", "lamp", "chair", "sofa", "tv"};

struct race {
    struct redis_server redis;
    uint64_t random;
    struct shop *shop;
    struct seller *sellers[SELLERS];
    struct txn *txns[TRANSACTIONS_MOST];
    enum txn_call calls[TRANSACTIONS_MOST];
    enum way ways[TRANSACTIONS_MOST];
    int count, begun;
};

static int64_t below(struct race *race, uint64_t n) {
    return (int64_t)(harness_random(&race->random) % n);
}

/* Batch, one by one, and optimistic; with limits and with holds. */
static struct race *race_begin(void) {
    struct race *race = harness_alloc(sizeof *race);
    redis_clock();
    redis_start(&race->redis, NULL);
    race->random = harness_seed();
    race->shop = shop_open();
    for (int i = 0; i < SELLERS; i++)
        race->sellers[i] = seller_open(race->shop, &race->redis);
    for (int i = 0; i < ITEMS; i++) {
        static const enum inventory_strategy sold_by[] = {INVENTORY_BATCH, INVENTORY_LUA,
                                                          INVENTORY_OPTIMISTIC};
        struct inventory_item item = terms(items[i], sold_by[i % 3], STOCK);
        item.limit = i == 1 ? 20 : 0;
        item.hold_ms = i >= 3 ? HOLD_MS * (i - 2) : 0;
        CHECK_STATUS(item_put(race->sellers[0], &item), INVENTORY_OK);
    }
    return race;
}

static const char *user_of(int number) {
    return harness_format("user%d", number % 9);
}

/* One key is one request: its user and lines follow from it. */
static struct txn *transaction_of(struct seller *seller, bool transfer, int number) {
    if (transfer) {
        int from = number % ITEMS, to = (from + 1 + number / ITEMS % (ITEMS - 1)) % ITEMS;
        return txn_new(seller, harness_format("t%d", number),
                       harness_format("%s:%d %s:%d", items[from], 1 + number % 7, items[to], 1 + number % 7));
    }
    uint64_t random = (uint64_t)number;
    char lines[256] = "";
    for (int64_t left = 1 + number % 4; left > 0; left--)
        snprintf(lines + strlen(lines), sizeof lines - strlen(lines), "%s%s:%d", *lines ? " " : "",
                 items[harness_random(&random) % ITEMS], 1 + (int)(harness_random(&random) % 3));
    return txn_new_of(seller, user_of(number), harness_format("k%d", number), lines);
}

static void begin_transaction(struct race *race, struct seller *seller, bool transfer, enum txn_call call) {
    CHECK(race->count < TRANSACTIONS_MOST);
    /* Among the latest keys, that most likely are in flight elsewhere; some have been there before. */
    int newest = race->begun++ / 5;
    int number = transfer             ? (int)below(race, TRANSFERS)
                 : below(race, 8) > 0 ? (newest + (int)below(race, 8)) % KEYS
                                      : (int)below(race, KEYS);
    struct txn *txn = transaction_of(seller, transfer, number);
    way = transfer || below(race, 2) ? IN_STEPS : AT_ONCE;
    race->txns[race->count] = txn;
    race->calls[race->count] = call;
    race->ways[race->count++] = way;
    if (below(race, 2))
        txn->transaction.lease_ms = 5; /* so others finish it while it is being made */
    txn_begin(txn, call);
}

static void begin_something(struct race *race) {
    struct seller *seller = race->sellers[below(race, SELLERS)];
    int64_t what = below(race, 100);
    int number = (int)below(race, 400);
    if (what < 45) {
        begin_transaction(race, seller, false, what < 35 ? TXN_MAKE : TXN_CHECK);
    } else if (what < 50) {
        begin_transaction(race, seller, true, TXN_MAKE);
    } else if (what < 62) {
        begin_transaction(race, seller, false, what < 55 ? TXN_CONFIRM : what < 60 ? TXN_CANCEL : TXN_FINISH);
    } else if (what < 85) {
        buy_begin(seller, items[number % ITEMS], user_of(number), harness_format("p%d", number),
                  1 + number % 2);
    } else if (what < 95) {
        char digest[INVENTORY_DIGEST_SIZE];
        const char *key = harness_format("p%d", number);
        inventory_key_digest(user_of(number), key, strlen(key), digest);
        order_step_begin(seller, harness_format("%s:%s", items[number % ITEMS], digest),
                         (enum inventory_step)below(race, 3));
    } else if (what < 97) {
        inventory_sweep(seller->inventory);
    } else if (what < 98) {
        if (inventory_is_up(seller->inventory))
            txns_recover(seller);
    } else {
        item_restock_begin(seller, items[number % ITEMS], harness_format("r%d", number % 4), 3);
    }
}

static void run_race(struct race *race, int steps) {
    for (int i = 0; i < steps; i++) {
        redis_clock()->ahead_ms += below(race, 3);
        begin_something(race);
        if (below(race, 8) == 0)
            shop_turn(race->shop);
        while (race->shop->open >= UNDER_WAY)
            shop_turn(race->shop);
    }
}

/* ---- afterwards ---- */

static bool is_disowned(void *arg) {
    const struct race *race = arg;
    int todo = 0;
    for (int i = 0; i < SELLERS; i++)
        todo += race->sellers[i]->inventory->purchases->putback->receipts.todo;
    return todo == 0;
}

/* An attempt whose receipt met another attempt may be entered again once that is undone: see disown.c. */
static void finish_all(struct race *race) {
    shop_settle(race->shop);
    redis_clock()->ahead_ms += 20000; /* longer than any lease or hold: whatever was left is anybody's */
    txns_recover(race->sellers[0]);
    shop_wait(race->shop, is_disowned, race, "second attempts are undone");
    txns_recover(race->sellers[0]);
    CHECK_INT(journal_open(&race->redis), 0);
}

/* How many units of a basket's orders are in each state, of all items: "b0 c3 e0 x0". */
static const char *orders_of(struct race *race, const char *id) {
    static const char count[] =
        "local units = {b = 0, c = 0, e = 0, x = 0, u = 0}\n"
        "for i = 2, #ARGV do\n"
        "  for _, record in ipairs(redis.call('HVALS', ARGV[i])) do\n"
        "    local state, n, id = string.match(record, '^(%a)%d* (%d+) %S+ %d+ %d+ (%S+)$')\n"
        "    if id == ARGV[1] then units[state] = units[state] + n end\n"
        "  end\n"
        "end\n"
        "return string.format('b%d c%d e%d x%d', units.b, units.c, units.e, units.x)\n";
    return redis_command(&race->redis, "EVAL", count, "0", id, stock_key(items[0]), stock_key(items[1]),
                         stock_key(items[2]), stock_key(items[3]), stock_key(items[4]), NULL);
}

/* Each basket is in one state, with all of its lines, or there is none. */
static void check_basket(struct race *race, int number) {
    struct txn *basket = transaction_of(race->sellers[0], false, number);
    const char *phase = txn_phase(&race->redis, basket);
    int units = 0;
    for (int i = 0; i < basket->transaction.count; i++)
        units += (int)basket->transaction.lines[i].quantity;
    bool none = strcmp(phase, "none") == 0, confirmed = strcmp(phase, "confirmed") == 0,
         cancelled = strcmp(phase, "cancelled") == 0, expired = strcmp(phase, "expired") == 0;
    if (!none && !confirmed && !cancelled && !expired)
        FAIL("basket %s is %s", basket->transaction.id, phase);
    CHECK_STR(
        orders_of(race, basket->transaction.id),
        harness_format("b0 c%d e%d x%d", confirmed ? units : 0, expired ? units : 0, cancelled ? units : 0));
    /* What was told is so. */
    int ok = 0;
    for (int i = 0; i < race->count; i++) {
        const struct txn *told = race->txns[i];
        if (strcmp(told->transaction.id, basket->transaction.id) != 0 ||
            told->transaction.kind != INVENTORY_BASKET)
            continue;
        enum inventory_status status = told->status;
        bool done = status == INVENTORY_OK || status == INVENTORY_REPLAYED;
        if (race->calls[i] <= TXN_CHECK && done) {
            CHECK(!none);
            ok += status == INVENTORY_OK;
        } else if (race->calls[i] == TXN_CONFIRM && (done || status == INVENTORY_CONFIRMED)) {
            CHECK_STR(phase, "confirmed");
        } else if (race->calls[i] == TXN_CANCEL && (done || status == INVENTORY_CANCELLED)) {
            CHECK_STR(phase, "cancelled");
        }
    }
    CHECK(ok <= 1);
}

static void check_all(struct race *race) {
    int64_t moved = 0;
    for (int i = 0; i < ITEMS; i++) {
        struct inventory_audit audit = item_audited(race->sellers[0], items[i]);
        CHECK_INT(audit.pending, 0);
        CHECK_INT(audit.oversold, 0);
        CHECK(audit.conserved);
        CHECK_STR(ledger_audit(&race->redis, items[i]), "balanced");
        moved += audit.item.restocked;
        const char *item = stock_key(items[i]);
        for (int r = 0; r < 4; r++) {
            char digest[INVENTORY_DIGEST_SIZE];
            const char *key = harness_format("r%d", r);
            inventory_key_digest("", key, strlen(key), digest);
            moved -= 3 * redis_integer(&race->redis, "HEXISTS", item, harness_format("+%s", digest), NULL);
        }
    }
    CHECK_INT(moved, 0); /* what left one item arrived in another */
    for (int number = 0; number < KEYS; number++)
        check_basket(race, number);
}

static int told(const struct race *race, enum way by, enum inventory_status status) {
    int count = 0;
    for (int i = 0; i < race->count; i++)
        count += race->calls[i] == TXN_MAKE && race->ways[i] == by && race->txns[i]->status == status;
    return count;
}

static void test_race(void) {
    struct race *race = race_begin();
    run_race(race, 3000);
    finish_all(race);
    check_all(race);
    CHECK_INT(buys_with(race->shop, INVENTORY_UNKNOWN), 0);
    for (int by = IN_STEPS; by <= AT_ONCE; by++) {
        printf("     %s: %d made, %d replayed, %d sold out\n", by == IN_STEPS ? "in steps" : "at once",
               told(race, (enum way)by, INVENTORY_OK), told(race, (enum way)by, INVENTORY_REPLAYED),
               told(race, (enum way)by, INVENTORY_SOLD_OUT));
        CHECK(told(race, (enum way)by, INVENTORY_OK) > 5);
        CHECK(told(race, (enum way)by, INVENTORY_REPLAYED) > 5);
    }
    printf("     at once, and another was at it: %d; in steps, and another has undone it: %d\n",
           told(race, AT_ONCE, INVENTORY_PENDING), told(race, IN_STEPS, INVENTORY_STALE));
}

/* kill -9 with everything in flight; every write was on the disk before it was answered. */
static void test_killed(void) {
    struct race *race = race_begin();
    for (int round = 0; round < 3; round++) {
        run_race(race, 500);
        redis_kill(&race->redis);
        run_race(race, 20);
        for (int i = 0; i < SELLERS; i++)
            seller_wait_down(race->sellers[i]);
        redis_restart(&race->redis);
        for (int i = 0; i < SELLERS; i++)
            seller_wait_up(race->sellers[i]);
    }
    run_race(race, 300);
    finish_all(race);
    check_all(race);
    CHECK(told(race, IN_STEPS, INVENTORY_OK) > 5 && told(race, AT_ONCE, INVENTORY_OK) > 5);
}

int main(int argc, char **argv) {
    harness_begin(argc, argv);
    harness_run("everything at once", test_race);
    harness_run("everything at once, and the store is killed", test_killed);
    return harness_finish();
}
