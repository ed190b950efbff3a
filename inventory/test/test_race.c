/* A hundred units, several sellers, many buyers of whom a fifth send a key again: exactly a hundred are sold,
 * and every repeated key hears what the first one heard. */
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "inventory/test/fixture.h"
#include "inventory/transactions/transactions_internal.h"

enum { STOCK = 100, SELLERS = 4, ROUNDS = 25, BUYERS = 400, UNDER_WAY = 64 };

static struct redis_server redis;

/* ---- one loop, four sellers, in random order ---- */

static int64_t below(uint64_t *random, uint64_t n) {
    return (int64_t)(harness_random(random) % n);
}

struct attempt {
    int key;
    bool settled; /* this key had won already when it was sent */
    struct buy *buy;
};

static void keep_below(struct shop *shop, int in_flight_purchases) {
    while (shop->open >= in_flight_purchases)
        shop_turn(shop);
}

static bool won(const struct buy *buy) {
    return buy->status == INVENTORY_OK || buy->status == INVENTORY_REPLAYED;
}

/* What the answers to one key must have in common: `first` won, or none of them did. */
static void check_key(const struct attempt *attempts, int count, int key, const struct buy *first) {
    int oks = 0;
    for (int i = 0; i < count; i++) {
        const struct buy *buy = attempts[i].buy;
        if (attempts[i].key != key)
            continue;
        oks += buy->status == INVENTORY_OK;
        if (won(buy)) {
            CHECK_STR(buy->order.id, first->order.id);
            CHECK_STR(buy->order.user, first->order.user);
            CHECK_INT(buy->order.quantity, first->order.quantity);
            CHECK_INT(buy->order.created_ms, first->order.created_ms);
        } else {
            CHECK_STATUS(buy->status, INVENTORY_SOLD_OUT);
            /* `decr` may turn away a key that is about to win elsewhere; but not one that has won. */
            if (first && (strategy != INVENTORY_DECR || attempts[i].settled))
                FAIL("key %d was told %s, and won", key, status_text(buy->status));
        }
    }
    CHECK_INT(oks, first != NULL);
}

static void check_keys(const struct attempt *attempts, int count, int keys) {
    for (int key = 0; key < keys; key++) {
        const struct buy *first = NULL;
        for (int i = 0; i < count && !first; i++)
            first = attempts[i].key == key && won(attempts[i].buy) ? attempts[i].buy : NULL;
        check_key(attempts, count, key, first);
    }
}

/* Sells out `name`, and nobody hears anything wrong. */
static void sell_out(struct seller *const *sellers, const char *name, uint64_t *random) {
    struct shop *shop = sellers[0]->shop;
    struct attempt *attempts = harness_alloc(sizeof *attempts * BUYERS * 2);
    int count = 0, keys = 0;
    item_sell(sellers[0], name, strategy, STOCK);
    while (keys < BUYERS) {
        struct attempt *attempt = &attempts[count++];
        bool again = keys > 0 && below(random, 100) < 20;
        /* Half of the repeated keys are among the latest, and most likely in flight. */
        attempt->key = !again             ? keys++
                       : below(random, 2) ? (int)below(random, (uint64_t)keys)
                                          : keys - 1 - (int)below(random, keys < 20 ? (uint64_t)keys : 20);
        for (int i = 0; i < count - 1; i++)
            attempt->settled |=
                attempts[i].key == attempt->key && attempts[i].buy->answers && won(attempts[i].buy);
        attempt->buy =
            buy_begin(sellers[below(random, SELLERS)], name, harness_format("user%d", attempt->key),
                      harness_format("key%d", attempt->key), 1);
        if (below(random, 8) == 0)
            shop_turn(shop);
        keep_below(shop, 1 + (int)below(random, UNDER_WAY));
    }
    shop_settle(shop);
    /* `decr` refuses buyers while units are about to be refunded; a buyer who tries again later gets them. */
    for (int i = 0; strategy == INVENTORY_DECR && buys_with(shop, INVENTORY_OK) < STOCK && i < STOCK; i++)
        attempts[count++] = (struct attempt){
            .key = BUYERS + i, .buy = buy(sellers[0], name, "later", harness_format("later%d", i), 1)};
    CHECK_INT(buys_with(shop, INVENTORY_OK), STOCK);
    check_keys(attempts, count, BUYERS + STOCK);
    check_books(sellers[0], &redis, name, 0, 0, STOCK);
    buys_forget(shop);
}

/* In an empty store. */
static void open_sellers(struct seller *sellers[SELLERS]) {
    CHECK_STR(redis_command(&redis, "FLUSHALL", NULL), "OK");
    struct shop *shop = shop_open();
    for (int i = 0; i < SELLERS; i++)
        sellers[i] = seller_open(shop, &redis);
}

static void test_hundred_units(void) {
    uint64_t random = harness_seed();
    struct seller *sellers[SELLERS];
    open_sellers(sellers);
    for (int round = 0; round < ROUNDS; round++)
        sell_out(sellers, harness_format("phone%d", round), &random);
}

/* Quantities, limits and holds that end while it goes on: the sum is right all the same. */
static void test_everything_at_once(void) {
    uint64_t random = harness_seed();
    struct seller *sellers[SELLERS];
    open_sellers(sellers);
    struct shop *shop = sellers[0]->shop;
    item_put_as(sellers[0], "phone", strategy, STOCK, 5, 200);
    for (int i = 0; i < 3000; i++) {
        struct seller *seller = sellers[below(&random, SELLERS)];
        redis_clock()->ahead_ms += below(&random, 4);
        int64_t what = below(&random, 100);
        int number = (int)below(&random, 600);
        /* One key is one request: user and quantity follow from it. */
        const char *key = harness_format("key%d", number), *user = harness_format("user%d", number % 40);
        if (what < 60) {
            buy_begin(seller, "phone", user, key, 1 + number % 3);
        } else if (what < 95) {
            char digest[INVENTORY_DIGEST_SIZE];
            inventory_key_digest(user, key, strlen(key), digest);
            order_step_begin(seller, harness_format("phone:%s", digest),
                             (enum inventory_step)below(&random, 3));
        } else if (what < 98) {
            inventory_sweep(seller->inventory);
        } else {
            item_restock_begin(seller, "phone", harness_format("r%d", (int)below(&random, 5)), 3);
        }
        keep_below(shop, UNDER_WAY);
    }
    shop_settle(shop);
    CHECK_INT(buys_with(shop, INVENTORY_KEY_REUSED) + buys_with(shop, INVENTORY_UNKNOWN), 0);
    CHECK(buys_with(shop, INVENTORY_OK) > STOCK / 3);
    struct inventory_audit audit = item_audited(sellers[0], "phone");
    CHECK(audit.conserved);
    CHECK_STR(ledger_audit(&redis, "phone"), "balanced");
    /* All holds end, and the item leaves the index of due times. */
    redis_clock()->ahead_ms += 200 + INVENTORY_HOLD_GRACE_MS;
    holds_sweep(sellers[0], &redis);
    CHECK_INT(holds_indexed(&redis, "+inf"), 0);
    check_books(sellers[0], &redis, "phone", audit.item.available + audit.item.held, 0, audit.item.sold);
}

/* ---- four threads, as the service has them ---- */

struct worker {
    pthread_t thread;
    struct seller *seller;
    int number;
    int sold; /* set by the thread */
};

static void *sell(void *arg) {
    struct worker *worker = arg;
    struct shop *shop = worker->seller->shop;
    char name[32], key[32];
    for (int i = 0; i < BUYERS; i++) {
        /* Each key is tried at all sellers. */
        snprintf(name, sizeof name, "user%d", i);
        snprintf(key, sizeof key, "key%d", i);
        buy_begin(worker->seller, "phone", name, key, 1);
        keep_below(shop, UNDER_WAY);
    }
    shop_settle(shop);
    worker->sold = buys_with(shop, INVENTORY_OK);
    return NULL;
}

static void test_threads(void) {
    CHECK_STR(redis_command(&redis, "FLUSHALL", NULL), "OK");
    struct worker workers[SELLERS];
    for (int i = 0; i < SELLERS; i++)
        workers[i] = (struct worker){.seller = seller_open(shop_open(), &redis), .number = i};
    item_sell(workers[0].seller, "phone", strategy, STOCK);
    for (int i = 0; i < SELLERS; i++)
        CHECK_INT(pthread_create(&workers[i].thread, NULL, sell, &workers[i]), 0);
    uint64_t batched = 0; /* read while it is written, as the metrics do */
    for (int i = 0; i < 100; i++) {
        for (int j = 0; j < SELLERS; j++)
            batched += workers[j].seller->inventory->shared.metrics->batched;
        harness_pause_ms(1);
    }
    int sold = 0;
    for (int i = 0; i < SELLERS; i++) {
        pthread_join(workers[i].thread, NULL);
        sold += workers[i].sold;
    }
    CHECK(!harness_failed());
    if (strategy == INVENTORY_DECR)
        CHECK(sold > STOCK / 2 && sold <= STOCK);
    else
        CHECK_INT(sold, STOCK);
    CHECK(strategy > INVENTORY_LUA || batched > 0);
    check_books(workers[0].seller, &redis, "phone", STOCK - sold, 0, sold);
}

/* ---- what teaches ---- */

static struct seller *open_teaching(struct shop *shop) {
    struct seller *seller =
        seller_open_up(shop, &(struct seller_options){.port = redis.port, .work_delay_ms = 2});
    return seller;
}

static void test_naive_oversells(void) {
    for (int round = 0; round < 5; round++) {
        CHECK_STR(redis_command(&redis, "FLUSHALL", NULL), "OK");
        struct shop *shop = shop_open();
        struct seller *sellers[2] = {open_teaching(shop), open_teaching(shop)};
        item_sell(sellers[0], "phone", INVENTORY_NAIVE, 10);
        for (int i = 0; i < 40; i++) {
            buy_begin(sellers[i % 2], "phone", "ann", harness_format("k%d", i), 1);
            keep_below(shop, 8);
        }
        shop_settle(shop);
        struct inventory_audit audit = item_audited(sellers[0], "phone");
        int sold = buys_with(shop, INVENTORY_OK);
        CHECK(sold > 10);
        CHECK_INT(audit.oversold, sold - 10);
        CHECK(!audit.conserved);
        shop_close(shop);
    }
}

static void on_worked(void *ctx, bool closing) {
    *(bool *)ctx = !closing;
}

/* Those who come after it do not put off somebody's end of work. */
static void test_work_beside_arrivals(void) {
    struct delayed *delayed = harness_alloc(2 * sizeof *delayed);
    bool *done = harness_alloc(2 * sizeof *done);
    struct shop *shop = shop_open();
    struct seller *seller =
        seller_open_with(shop, &(struct seller_options){.port = redis.port, .work_delay_ms = 1});
    work_delay_begin(&seller->inventory->strategies->work_delay, &delayed[0], on_worked, &done[0]);
    while (uv_timer_get_due_in(&seller->inventory->strategies->work_delay.timer) > 0) {
        harness_pause_ms(1);
        uv_update_time(&shop->loop);
    }
    work_delay_begin(&seller->inventory->strategies->work_delay, &delayed[1], on_worked, &done[1]);
    CHECK_INT(uv_timer_get_due_in(&seller->inventory->strategies->work_delay.timer), 0);
    SHOP_UNTIL(shop, done[0], "the first has worked");
    SHOP_UNTIL(shop, done[1], "the second has worked");
}

int main(int argc, char **argv) {
    harness_begin(argc, argv);
    store_start(&redis, argc, argv);
    run_each("a hundred units, four sellers, repeated keys", test_hundred_units, INVENTORY_OPTIMISTIC);
    run_each("everything at once", test_everything_at_once, INVENTORY_LUA);
    strategy = INVENTORY_OPTIMISTIC; /* `decr` does not promise it: its orders come before their entries */
    harness_run("optimistic: everything at once", test_everything_at_once);
    run_each("four threads", test_threads, INVENTORY_OPTIMISTIC);
    run_fenced("a hundred units, four sellers, repeated keys", test_hundred_units);
    run_fenced("everything at once", test_everything_at_once);
    run_fenced("four threads", test_threads);
    harness_run("naive oversells, and the audit says by how much", test_naive_oversells);
    harness_run("arrivals do not put off the end of work", test_work_beside_arrivals);
    return harness_finish();
}
