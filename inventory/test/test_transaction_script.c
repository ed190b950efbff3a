/* Baskets at once, by a script: what they leave, beside baskets in steps, over a bad connection, and on
 * a store that refuses. What they answer is in test_transaction.c. */
#include <stdio.h>
#include <string.h>

#include "inventory/model/keys.h"
#include "inventory/test/transactions.h"
#include "inventory/transactions.h"
#include "test/harness.h"

static struct redis_server redis;

/* Three phones and lamps, in a shop that makes its baskets at once. */
static struct seller *open_sale(const struct seller_options *options) {
    CHECK_STR(redis_command(&redis, "FLUSHALL", NULL), "OK");
    struct seller *seller = seller_open_up(shop_open(), options);
    item_sell(seller, "phone", INVENTORY_BATCH, 3);
    item_sell(seller, "lamp", INVENTORY_BATCH, 3);
    way = AT_ONCE;
    return seller;
}

static struct seller *open_plain(void) {
    return open_sale(&(struct seller_options){.port = redis.port});
}

static void check_both(struct seller *seller, int64_t available, int64_t sold) {
    check_books(seller, &redis, "phone", available, 0, sold);
    check_books(seller, &redis, "lamp", available, 0, sold);
}

/* ---- beside baskets in steps ---- */

/* All that a basket leaves, but for what is made up: nonces, and the digests that follow from them. */
static const char *left_by(enum way by, int64_t hold_ms) {
    static const char dump[] =
        "local function sorted(list) table.sort(list) return table.concat(list, ',') end\n"
        "local out = {}\n"
        "for _, key in ipairs(KEYS) do\n"
        "  local item = redis.call('HGETALL', key)\n"
        "  for i = 1, #item, 2 do if #item[i] == 22 then item[i] = '' end end\n"
        "  out[#out + 1] = key .. ' ' .. sorted(item)\n"
        "  out[#out + 1] = redis.call('EXISTS', key .. ':holds')\n"
        "end\n"
        "for part = 0, 7 do\n"
        "  local J = 'seckill:{baskets:' .. part .. '}:'\n"
        "  local journal = redis.call('HGETALL', J .. 'journal')\n"
        "  for i = 2, #journal, 2 do journal[i] = string.gsub(journal[i], ' %S+', '', 1) end\n"
        "  out[#out + 1] = table.concat(journal, ' ')\n"
        "  out[#out + 1] = table.concat(redis.call('ZRANGE', J .. 'open', 0, -1, 'WITHSCORES'), ' ')\n"
        "end\n"
        "return table.concat(out, '\\n')\n";
    struct seller *seller = open_plain();
    redis_clock()->stopped_ms = 1700000000000;
    way = by;
    item_put_as(seller, "chair", INVENTORY_OPTIMISTIC, 9, 5, hold_ms);
    CHECK_STATUS(txn_make(seller, "k1", "phone:1 chair:2 lamp:2 chair:1"), INVENTORY_OK);
    CHECK_STATUS(txn_make(seller, "k2", "chair:1"), INVENTORY_OK);
    const char *left = harness_format("%s", redis_command(&redis, "EVAL", dump, "3", stock_key("phone"),
                                                          stock_key("lamp"), stock_key("chair"), NULL));
    int64_t sold = hold_ms ? 0 : 4;
    check_books(seller, &redis, "chair", 5, 4 - sold, sold);
    shop_close(seller->shop);
    return left;
}

static void test_leaves_the_same(void) {
    for (int64_t hold_ms = 0; hold_ms <= 60000; hold_ms += 60000) {
        const char *left = left_by(AT_ONCE, hold_ms);
        CHECK_HAS(left, hold_ms ? "held 1700000000000 1700000060000 ann phone:1,chair:2,lamp:2,chair:1"
                                : "confirmed 1700000000000 0 ann phone:1,chair:2,lamp:2,chair:1");
        CHECK_STR(left, left_by(IN_STEPS, hold_ms));
    }
}

/* No lock, no token: a newer one that was seen is nothing to it, nor is it noted. */
static void test_no_tokens(void) {
    struct seller *seller = open_plain();
    seller->fence = 7;
    way = IN_STEPS;
    CHECK_STATUS(txn_make(seller, "k1", "phone:1 lamp:1"), INVENTORY_OK);
    way = AT_ONCE;
    seller->fence = 6;
    CHECK_STATUS(txn_make(seller, "k2", "phone:1 lamp:1"), INVENTORY_OK);
    seller->fence = 9;
    CHECK_STATUS(txn_make(seller, "k3", "phone:1 lamp:1"), INVENTORY_OK);
    CHECK_HAS(redis_command(&redis, "GET", stock_key("phone:token"), NULL), ":00000000000000000007");
    check_both(seller, 0, 3);
}

/* What a process left, that made its basket in steps. */
static void test_unfinished(void) {
    static const char *const phases[] = {"intent", "undoing"};
    for (size_t i = 0; i < sizeof phases / sizeof *phases; i++) {
        struct seller *seller = open_plain();
        struct txn *basket = txn_new(seller, "k", "phone:1 lamp:2");
        const char *record =
            harness_format("%s 0123456789012345678901 1700000000000 0 ann phone:1,lamp:2", phases[i]);
        txn_set_record(&redis, basket, record, true);
        const char *before = store_dump(&redis, true);
        CHECK_STATUS(txn_do(basket, TXN_CHECK), INVENTORY_PENDING);
        CHECK_STATUS(txn_do(basket, TXN_MAKE), INVENTORY_PENDING);
        CHECK_STATUS(txn_make(seller, "k", "phone:2 lamp:2"), INVENTORY_KEY_REUSED);
        CHECK_STR(store_dump(&redis, true), before);
        CHECK_INT(txns_recover(seller), 1);
        CHECK_STATUS(txn_do(basket, TXN_MAKE), INVENTORY_OK);
        check_books(seller, &redis, "phone", 2, 0, 1);
        check_books(seller, &redis, "lamp", 1, 0, 2);
        shop_close(seller->shop);
    }
}

/* More than one claim takes, in all parts of the journal, one of which cannot be read: the others are not
 * held up. */
static void test_many_unfinished(void) {
    enum { MANY = 60 };
    struct txn *baskets[MANY];
    int whole = 0;
    struct seller *seller = open_plain();
    for (int i = 0; i < MANY; i++) {
        baskets[i] = txn_new(seller, harness_format("k%d", i), "phone:1");
        txn_set_record(&redis, baskets[i], "undoing 0123456789012345678901 1700000000000 0 ann phone:1",
                       true);
        whole += key_part(baskets[i]->transaction.id) != 2;
    }
    redis_command(&redis, "RENAME", "seckill:{baskets:2}:open", "away", NULL);
    redis_command(&redis, "SET", "seckill:{baskets:2}:open", "junk", NULL);
    CHECK_INT(txns_recover(seller), whole);
    CHECK_INT(journal_count(&redis), MANY - whole);
    redis_command(&redis, "RENAME", "away", "seckill:{baskets:2}:open", NULL);
    CHECK_INT(txns_recover(seller), MANY - whole);
    CHECK_INT(journal_open(&redis), 0);
    CHECK(whole > 0 && whole < MANY);
}

/* What was decided is written by the first run that reads it, which takes no lock. */
static void test_decided(void) {
    for (int call = TXN_MAKE; call <= TXN_CHECK; call++) {
        struct seller *seller = open_plain();
        item_put_with(seller, "chair", 3, 0, 60000);
        struct txn *basket = txn_new(seller, "k", "phone:1 chair:2");
        CHECK_STATUS(txn_do(basket, TXN_MAKE), INVENTORY_OK);
        const char *record = txn_record(&redis, basket);
        CHECK_HAS(record, "held ");
        record = harness_format("confirming%s", strchr(record, ' '));
        txn_set_record(&redis, basket, record, false);
        CHECK_STATUS(txn_do(basket, (enum txn_call)call), INVENTORY_REPLAYED);
        CHECK_STR(inventory_state_name(basket->transaction.state), "confirmed");
        check_books(seller, &redis, "phone", 2, 0, 1);
        check_books(seller, &redis, "chair", 1, 0, 2);
        shop_close(seller->shop);
    }
}

/* A basket at once comes between two steps of one in steps, which takes a second to give back what it had. */
struct between {
    struct seller *seller;
    struct shop *shop; /* of the one in steps */
    const char *key, *lines;
    int at, count;
    bool came;
    enum inventory_status status;
};

static void at_failpoint(void *ctx, const char *step) {
    struct between *between = ctx;
    if (strcmp(step, "before abort 0") == 0)
        between->shop->hurried_ms += 1000;
    if (between->count++ != between->at)
        return;
    way = AT_ONCE;
    between->came = true;
    between->status = txn_make(between->seller, between->key, between->lines);
    way = IN_STEPS;
}

/* Returns the answer to the basket in steps, or to the question whether it can be made. */
static enum inventory_status do_in_steps(struct between *between, enum txn_call call, struct txn **basket) {
    between->seller = open_plain(); /* of another shop, whose loop turns while the first one's stands */
    struct seller *seller = seller_open_up(
        shop_open(), &(struct seller_options){
                         .port = redis.port, .at_failpoint = at_failpoint, .at_failpoint_ctx = between});
    between->shop = seller->shop;
    way = IN_STEPS;
    *basket = txn_new(seller, "k", "phone:1 lamp:3");
    enum inventory_status status = txn_do(*basket, call);
    CHECK_INT(journal_open(&redis), 0);
    shop_close(seller->shop);
    return status;
}

static void test_same_key_in_between(void) {
    int answers[INVENTORY_UNKNOWN + 1] = {0};
    for (int at = 0;; at++) {
        struct txn *basket;
        struct between between = {.at = at, .key = "k", .lines = "phone:1 lamp:3"};
        enum inventory_status status = do_in_steps(&between, TXN_MAKE, &basket);
        if (!between.came)
            break;
        answers[between.status]++;
        CHECK_STATUS(status, between.status == INVENTORY_OK ? INVENTORY_REPLAYED : INVENTORY_OK);
        CHECK_STR(txn_phase(&redis, basket), "confirmed");
        check_books(between.seller, &redis, "phone", 2, 0, 1);
        check_books(between.seller, &redis, "lamp", 0, 0, 3);
        shop_close(between.seller->shop);
    }
    CHECK(answers[INVENTORY_OK] > 0 && answers[INVENTORY_PENDING] > 0 && answers[INVENTORY_REPLAYED] > 0);
    for (int i = 0; i <= INVENTORY_UNKNOWN; i++)
        CHECK(answers[i] == 0 || i == INVENTORY_OK || i == INVENTORY_PENDING || i == INVENTORY_REPLAYED);
}

/* It takes the last units, and the journal has it by then: nobody is told that it is sold out. */
static void test_checked_in_between(void) {
    for (int at = 0;; at++) {
        struct txn *basket;
        struct between between = {.at = at, .key = "k", .lines = "phone:1 lamp:3"};
        enum inventory_status status = do_in_steps(&between, TXN_CHECK, &basket);
        shop_close(between.seller->shop);
        if (!between.came) {
            CHECK_STATUS(status, INVENTORY_WANTS_LOCK);
            CHECK(at >= 4);
            break;
        }
        CHECK_STATUS(between.status, INVENTORY_OK);
        CHECK_STATUS(status, INVENTORY_REPLAYED);
    }
}

static void test_last_units_in_between(void) {
    int won = 0, lost = 0, undone = 0;
    for (int at = 0;; at++) {
        struct txn *basket;
        struct between between = {.at = at, .key = "other", .lines = "phone:1 lamp:1"};
        enum inventory_status status = do_in_steps(&between, TXN_MAKE, &basket);
        if (!between.came)
            break;
        if (between.status == INVENTORY_OK) {
            CHECK_STATUS(status, INVENTORY_SOLD_OUT);
            CHECK_INT(basket->transaction.failed, 1);
            CHECK_INT(basket->transaction.available, 2);
            won++;
        } else {
            CHECK_STATUS(between.status, INVENTORY_SOLD_OUT);
            CHECK_STATUS(status, INVENTORY_OK);
            lost++;
        }
        /* How long its units were gone is told, where it had any. */
        int64_t aborted_ns = basket->transaction.aborted_ns;
        CHECK(aborted_ns == 0 || (status == INVENTORY_SOLD_OUT && aborted_ns >= 1000000000));
        undone += aborted_ns != 0;
        int64_t lamps = status == INVENTORY_OK ? 3 : 1;
        check_books(between.seller, &redis, "phone", 2, 0, 1);
        check_books(between.seller, &redis, "lamp", 3 - lamps, 0, lamps);
        shop_close(between.seller->shop);
    }
    CHECK(won > 1 && lost > 0 && undone > 0 && undone < won);
}

/* ---- replies that are lost ---- */

static void test_reply_lost(void) {
    struct proxy *proxy = proxy_start(redis.port);
    struct seller *seller = open_sale(&(struct seller_options){.port = proxy_port(proxy)});
    for (int i = 0; i < 3; i++) {
        const char *key = harness_format("k%d", i);
        proxy_set(proxy, PROXY_CUT, 7 * i, "b:");
        CHECK_STATUS(txn_make(seller, key, "phone:1 lamp:1"), INVENTORY_OK);
        CHECK_INT(proxy_faults(proxy), i + 1);
        CHECK_STATUS(txn_make(seller, key, "phone:1 lamp:1"), INVENTORY_REPLAYED);
        check_both(seller, 2 - i, 1 + i);
    }
    /* The reply to one that another had made. */
    proxy_set(proxy, PROXY_CUT, 0, "b:");
    CHECK_STATUS(txn_make(seller, "k0", "phone:1 lamp:1"), INVENTORY_REPLAYED);
    /* A refusal. */
    proxy_set(proxy, PROXY_CUT, 0, "b:");
    CHECK_STATUS(txn_make(seller, "k4", "phone:1 lamp:1"), INVENTORY_UNKNOWN);
    CHECK_INT(proxy_faults(proxy), 5);
    CHECK_STATUS(txn_make(seller, "k4", "phone:1 lamp:1"), INVENTORY_SOLD_OUT);
    check_both(seller, 0, 3);
}

static void test_unknown_in_the_end(void) {
    struct proxy *proxy = proxy_start(redis.port);
    struct seller *seller = open_sale(&(struct seller_options){.port = proxy_port(proxy), .resolve_ms = 300});
    struct txn *basket = txn_new(seller, "k", "phone:1 lamp:1");
    proxy_set(proxy, PROXY_DELAY, 60000, NULL); /* no reply comes before the end */
    txn_begin(basket, TXN_MAKE);
    proxy_set(proxy, PROXY_REFUSE, 0, NULL);
    int64_t from_ms = harness_now_ms();
    CHECK_STATUS(txn_wait(basket), INVENTORY_UNKNOWN);
    CHECK(harness_now_ms() - from_ms >= 200);
    CHECK_STATUS(txn_do(basket, TXN_MAKE), INVENTORY_UNAVAILABLE);
    proxy_set(proxy, PROXY_PASS, 0, NULL);
    seller_wait_up(seller);
    enum inventory_status again = txn_do(basket, TXN_MAKE);
    CHECK(again == INVENTORY_OK || again == INVENTORY_REPLAYED);
    check_both(seller, 2, 1);
}

/* The first call waits in a store that is but stopped, and the second one comes behind it. */
static void test_call_late(void) {
    struct seller *seller = open_sale(&(struct seller_options){.port = redis.port, .call_timeout_ms = 200});
    struct txn *basket = txn_new(seller, "k", "phone:1 lamp:1");
    redis_pause(&redis);
    txn_begin(basket, TXN_MAKE);
    seller_wait_down(seller);
    redis_resume(&redis);
    CHECK_STATUS(txn_wait(basket), INVENTORY_OK);
    check_both(seller, 2, 1);
}

/* It comes between the question what the journal has and the second call. */
struct late {
    struct txn *basket;
    int calls;
    char nonce[INVENTORY_DIGEST_SIZE]; /* of the first call */
};

static void at_call(void *ctx, const char *step) {
    struct late *late = ctx;
    const struct inventory_transaction *transaction = &late->basket->transaction;
    if (strcmp(step, "before basket") != 0)
        return;
    if (late->calls++ == 0) {
        snprintf(late->nonce, sizeof late->nonce, "%s", transaction->nonce);
        return;
    }
    txn_set_record(&redis, late->basket,
                   harness_format("confirmed %s 1700000000000 0 ann phone:1,lamp:1", late->nonce), false);
}

static void test_call_very_late(void) {
    struct late late = {.calls = 0};
    struct seller *seller = open_sale(&(struct seller_options){
        .port = redis.port, .call_timeout_ms = 200, .at_failpoint = at_call, .at_failpoint_ctx = &late});
    late.basket = txn_new(seller, "k", "phone:1 lamp:1");
    redis_pause(&redis);
    txn_begin(late.basket, TXN_MAKE);
    seller_wait_down(seller);
    redis_kill(&redis);
    redis_restart(&redis);
    CHECK_STATUS(txn_wait(late.basket), INVENTORY_OK);
    CHECK_INT(late.calls, 2);
    CHECK_INT(late.basket->transaction.created_ms, 1700000000000);
}

static void test_closed_meanwhile(void) {
    struct seller *seller = open_plain();
    struct txn *basket = txn_new(seller, "k", "phone:1 lamp:1"),
               *checked = txn_new(seller, "k2", "phone:1 lamp:1");
    txn_begin(basket, TXN_MAKE);
    txn_begin(checked, TXN_CHECK);
    seller_close(seller);
    CHECK_INT(basket->answers, 1);
    CHECK_STATUS(basket->status, INVENTORY_UNKNOWN);
    CHECK_INT(checked->answers, 1);
    CHECK_STATUS(checked->status, INVENTORY_UNAVAILABLE);
}

/* ---- a store that refuses: whole or not at all ---- */

static void settings_again(void *arg) {
    (void)arg;
    redis_command(&redis, "CONFIG", "SET", "maxmemory", "0", "min-replicas-to-write", "0", NULL);
}

static void test_refused_by_the_store(void) {
    static const char *const settings[][3] = {{"maxmemory", "1", "OOM"},
                                              {"min-replicas-to-write", "1", "NOREPLICAS"}};
    struct seller *seller = open_plain();
    harness_defer(settings_again, NULL);
    for (size_t i = 0; i < 2; i++) {
        const char *before = store_dump(&redis, true);
        redis_command(&redis, "CONFIG", "SET", settings[i][0], settings[i][1], NULL);
        CHECK_STATUS(txn_make(seller, "k", "phone:1 lamp:1"), INVENTORY_UNAVAILABLE);
        CHECK_HAS(inventory_last_error(seller->inventory), settings[i][2]);
        settings_again(NULL);
        CHECK_STR(store_dump(&redis, true), before);
    }
    CHECK_STATUS(txn_make(seller, "k", "phone:1 lamp:1"), INVENTORY_OK);
    check_both(seller, 2, 1);
}

/* A store that refuses says nothing of an earlier call, whose reply was lost: so it is asked again. */
static void test_lost_then_refused(void) {
    struct seller *seller = open_sale(&(struct seller_options){.port = redis.port, .call_timeout_ms = 200});
    struct txn *basket = txn_new(seller, "k", "phone:1 lamp:1");
    harness_defer(settings_again, NULL);
    redis_pause(&redis);
    txn_begin(basket, TXN_MAKE);
    seller_wait_down(seller);
    redis_kill(&redis);
    redis_restart(&redis);
    redis_command(&redis, "CONFIG", "SET", "maxmemory", "1", NULL);
    seller_wait_up(seller);
    shop_idle(seller->shop, 200);
    CHECK_INT(basket->answers, 0);
    settings_again(NULL);
    CHECK_STATUS(txn_wait(basket), INVENTORY_OK);
    check_both(seller, 2, 1);
}

/* Where it starts in each test. */
static void run(const char *what, void (*test)(void)) {
    way = IN_STEPS;
    harness_run(what, test);
}

int main(int argc, char **argv) {
    harness_begin(argc, argv);
    store_start(&redis, argc, argv);
    run("it leaves what steps would have left", test_leaves_the_same);
    run("it checks no tokens", test_no_tokens);
    run("one in steps was left unfinished", test_unfinished);
    run("many were left unfinished", test_many_unfinished);
    run("one in steps was decided", test_decided);
    run("between two steps: the same key, and it is asked whether it can be made", test_checked_in_between);
    run("between two steps: the same key", test_same_key_in_between);
    run("between two steps: the last units", test_last_units_in_between);
    run("a reply is lost", test_reply_lost);
    run("a reply is lost, and the store does not come back in time", test_unknown_in_the_end);
    run("a call is late", test_call_late);
    run("a call is so late that it was made again", test_call_very_late);
    run("closed meanwhile", test_closed_meanwhile);
    run("refused by the store, whole", test_refused_by_the_store);
    run("a reply is lost, then the store refuses", test_lost_then_refused);
    return harness_finish();
}
