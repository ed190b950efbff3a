/* An answer is given once so many replicas have what it tells of. The replica's link is a proxy, so that it
 * can be cut. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "inventory/test/fixture.h"
#include "inventory/test/newer_wait.h"
#include "inventory/transactions/transactions_internal.h"
#include "test/harness.h"

/* A replica whose link was cut comes back within a second or so. */
enum { CALL_MS = 400, LONG_CALL_MS = 20000, RESOLVE_MS = 1500 };

static struct pair pair;
static struct seller *seller;    /* who waits for the replica */
static struct seller *other;     /* who does not */
static int door;                 /* where the first one connects to; 0: to the master */
static struct newer_wait *relay; /* that is there */

/* By a test that failed. */
static void mend_if_cut(void) {
    if (pair.is_cut)
        pair_mend(&pair);
}

static void sellers_open_with(int replicas, int call_ms) {
    struct shop *shop = shop_open();
    int port = door ? door : pair.master.port;
    mend_if_cut();
    CHECK_STR(redis_command(&pair.master, "FLUSHALL", NULL), "OK");
    other = seller_open(shop, &pair.master);
    seller = seller_open_with(
        shop, &(struct seller_options){
                  .port = port, .replicas = replicas, .call_timeout_ms = call_ms, .resolve_ms = RESOLVE_MS});
    seller->locked = other->locked = true;
    seller_wait_up(seller);
}

static void sellers_open(int call_ms) {
    sellers_open_with(1, call_ms);
}

/* With one order, after which the server knows the scripts. */
static void phone_sell(enum inventory_strategy sold_by) {
    item_sell(seller, "phone", sold_by, 10);
    CHECK_STATUS(buy(seller, "phone", "eve", "first", 1)->status, INVENTORY_OK);
}

/* Of ann. */
static const char *order_at(const struct redis_server *redis, const char *key) {
    char digest[INVENTORY_DIGEST_SIZE];
    inventory_key_digest("ann", key, strlen(key), digest);
    return redis_command(redis, "HGET", stock_key("phone"), digest, NULL);
}

static bool is_ordered(void *arg) {
    (void)arg;
    return strcmp(order_at(&pair.master, "k"), "(nil)") != 0;
}

/* Its key is `ctx`. */
static void check_is_on_replica(struct buy *buy) {
    if (buy->status == INVENTORY_OK && strcmp(order_at(&pair.replica, buy->ctx), "(nil)") == 0)
        buy->seller->shop->fault = "the replica does not have it";
}

static void test_safe_when_answered(void) {
    static char key[] = "k";
    sellers_open(CALL_MS);
    item_sell(seller, "phone", strategy, 10);
    CHECK_STR(redis_command(&pair.replica, "HGET", stock_key("phone"), "available", NULL), "10");
    proxy_set(pair.link, PROXY_DELAY, 20, NULL);
    struct buy *bought = buy_begin(seller, "phone", "ann", key, 1);
    bought->then = check_is_on_replica;
    bought->ctx = key;
    shop_settle(seller->shop);
    CHECK_STATUS(bought->status, INVENTORY_OK);
    check_books(seller, &pair.replica, "phone", 9, 0, 1);
    proxy_set(pair.link, PROXY_PASS, 0, NULL);
}

static void close_door(void *arg) {
    (void)arg;
    door = 0;
}

/* A reply that comes while others wait for the replica is not handed out with them. So that many come, what
 * is waited for is heard of late. */
static void test_one_after_the_other(void) {
    enum { COUNT = 20 };
    static char keys[COUNT][8];
    door = proxy_port(pair.front);
    harness_defer(close_door, NULL);
    sellers_open(CALL_MS);
    item_sell(seller, "phone", strategy, COUNT);
    proxy_set(pair.link, PROXY_DELAY, 20, NULL);
    proxy_set(pair.front, PROXY_DELAY, 15, "WAIT");
    for (int i = 0; i < COUNT; i++) {
        snprintf(keys[i], sizeof keys[i], "k%d", i);
        struct buy *bought = buy_begin(seller, "phone", "ann", keys[i], 1);
        bought->then = check_is_on_replica;
        bought->ctx = keys[i];
        shop_idle(seller->shop, 4);
    }
    shop_settle(seller->shop);
    CHECK_INT(buys_with(seller->shop, INVENTORY_OK), COUNT);
    proxy_set(pair.front, PROXY_PASS, 0, NULL);
    proxy_set(pair.link, PROXY_PASS, 0, NULL);
}

/* Nobody is told OK while the replica does not have the order, and the retry is told when it has. */
static void test_cut_off(void) {
    sellers_open(CALL_MS);
    phone_sell(strategy);
    pair_cut(&pair);
    CHECK_STATUS(buy(seller, "phone", "ann", "k", 1)->status, INVENTORY_UNKNOWN);
    CHECK_HAS(order_at(&pair.master, "k"), "c 1 ann");
    CHECK_STR(order_at(&pair.replica, "k"), "(nil)");
    CHECK(!inventory_is_up(seller->inventory));
    CHECK_HAS(inventory_last_error(seller->inventory), "fewer than 1 replicas");
    CHECK_STATUS(buy(seller, "phone", "ann", "k2", 1)->status, INVENTORY_UNAVAILABLE);
    CHECK_STR(order_at(&pair.master, "k2"), "(nil)");
    pair_mend(&pair);
    seller_wait_up(seller);
    CHECK_STATUS(buy(seller, "phone", "ann", "k", 1)->status, INVENTORY_REPLAYED);
    check_books(seller, &pair.replica, "phone", 8, 0, 2);
}

/* The link is back before the buyer is told that it is unknown. */
static void test_cut_off_for_a_while(void) {
    sellers_open(CALL_MS);
    phone_sell(strategy);
    pair_cut(&pair);
    struct buy *bought = buy_begin(seller, "phone", "ann", "k", 1);
    seller_wait_down(seller);
    pair_mend(&pair);
    shop_settle(seller->shop);
    CHECK_STATUS(bought->status, INVENTORY_OK);
    check_books(seller, &pair.replica, "phone", 8, 0, 2);
}

/* What another instance sold, which does not wait for replicas, is not shown before it is safe. */
static void test_reads_are_safe(void) {
    sellers_open(CALL_MS);
    phone_sell(strategy);
    pair_cut(&pair);
    struct buy *bought = buy(other, "phone", "ann", "k", 1);
    CHECK_STATUS(bought->status, INVENTORY_OK);
    struct answer *read = order_step_begin(seller, bought->id, INVENTORY_READ);
    struct buy *again = buy_begin(seller, "phone", "ann", "k", 1);
    shop_settle(seller->shop);
    CHECK(read->status != INVENTORY_OK);
    CHECK(again->status != INVENTORY_OK && again->status != INVENTORY_REPLAYED);
    pair_mend(&pair);
    seller_wait_up(seller);
    CHECK_STATUS(order_step(seller, bought->id, INVENTORY_READ, NULL), INVENTORY_OK);
}

/* The seller sleeps after it has sent a purchase. Meanwhile the master is a replica of its replica for a
 * moment, whose history knows nothing of the order, and a master again. That a replica has all of the new
 * history says nothing about the order, whose reply the seller reads when it wakes. */
static void test_another_history(void) {
    sellers_open(LONG_CALL_MS);
    phone_sell(INVENTORY_BATCH);
    pair_cut(&pair);
    redis_pause(&pair.master);
    struct buy *bought = buy_begin(seller, "phone", "ann", "k", 1);
    shop_idle(seller->shop, 50);
    redis_resume(&pair.master);
    CHECK(harness_wait(is_ordered, NULL, 20000));
    CHECK_STR(redis_command(&pair.replica, "REPLICAOF", "NO", "ONE", NULL), "OK");
    const char *port = harness_format("%d", pair.replica.port);
    CHECK_STR(redis_command(&pair.master, "REPLICAOF", "127.0.0.1", port, NULL), "OK");
    replica_wait(&pair.replica);
    CHECK_STR(redis_command(&pair.master, "REPLICAOF", "NO", "ONE", NULL), "OK");
    CHECK(!is_ordered(NULL));
    struct redis_server new_replica;
    redis_start_replica(&new_replica, &pair.master);
    replica_wait(&pair.master);
    shop_settle(seller->shop);
    CHECK_STATUS(bought->status, INVENTORY_UNKNOWN);
}

static void test_too_few(void) {
    struct redis_server redis;
    redis_start(&redis, NULL);
    seller = seller_open_with(
        shop_open(),
        &(struct seller_options){.port = redis.port, .replicas = 1, .call_timeout_ms = 3 * CALL_MS});
    while (!strstr(inventory_last_error(seller->inventory), "fewer than 1 replicas"))
        shop_turn(seller->shop);
    CHECK_STATUS(buy(seller, "phone", "ann", "k", 1)->status, INVENTORY_UNAVAILABLE);
    struct redis_server replica;
    redis_start_replica(&replica, &redis);
    replica_wait(&redis);
    seller_wait_up(seller);
    item_sell(seller, "phone", INVENTORY_BATCH, 1);
    CHECK_STATUS(buy(seller, "phone", "ann", "k", 1)->status, INVENTORY_OK);
}

/* The strategies that read first may not have sold yet: what they read is held back too. */
static void test_cut_off_and_again(void) {
    sellers_open(CALL_MS);
    phone_sell(strategy);
    pair_cut(&pair);
    enum inventory_status status = buy(seller, "phone", "ann", "k", 1)->status;
    CHECK(status == INVENTORY_UNKNOWN || (status == INVENTORY_UNAVAILABLE && strategy >= INVENTORY_DECR));
    bool sold = is_ordered(NULL);
    CHECK(!sold || status == INVENTORY_UNKNOWN);
    pair_mend(&pair);
    seller_wait_up(seller);
    while ((status = buy(seller, "phone", "ann", "k", 1)->status) == INVENTORY_UNAVAILABLE &&
           strategy == INVENTORY_OPTIMISTIC)
        shop_idle(seller->shop, 10); /* its connections come back one by one */
    CHECK_STATUS(status, sold ? INVENTORY_REPLAYED : INVENTORY_OK);
    if (strategy != INVENTORY_DECR) /* its debit without an order is lost: that is what it shows */
        check_books(seller, &pair.replica, "phone", 8, 0, 2);
}

/* A crowd's replies are held in their order, and all are handed out; the replica goes and comes meanwhile. */
static void test_crowd(void) {
    enum { CROWD = 2000 };
    char keys[CROWD][16];
    sellers_open(LONG_CALL_MS);
    item_sell(seller, "phone", strategy, CROWD / 2);
    for (int i = 0; i < CROWD; i++) {
        snprintf(keys[i], sizeof keys[i], "k%d", i);
        buy_begin(seller, "phone", "ann", keys[i], 1);
        if (i % 50 == 0)
            shop_turn(seller->shop);
        if (i == CROWD / 4)
            pair_mend(&pair);
    }
    shop_settle(seller->shop);
    CHECK_INT(buys_with(seller->shop, INVENTORY_OK), CROWD / 2);
    CHECK_INT(buys_with(seller->shop, INVENTORY_SOLD_OUT), CROWD / 2);
    check_books(seller, &pair.replica, "phone", 0, 0, CROWD / 2);
}

/* ---- two replicas ---- */

static struct redis_server second;

static bool are_two(void *arg) {
    const char *info = redis_command(&pair.master, "INFO", "replication", NULL);
    (void)arg;
    return strstr(info, "slave0:") && strstr(info, "slave1:") && !strstr(info, "state=wait_bgsave") &&
           !strstr(info, "state=send_bulk");
}

static void second_start(void) {
    mend_if_cut();
    redis_start_replica(&second, &pair.master);
    CHECK(harness_wait(are_two, NULL, 20000));
}

static void check_server(int replicas, int proven) {
    struct inventory_health health;
    store_health(seller, &health);
    CHECK(health.ready);
    CHECK_INT(health.servers[0].replicas, replicas);
    CHECK_INT(health.servers[0].proven, proven);
}

static void check_are_on_both(struct buy *buy) {
    check_is_on_replica(buy);
    if (buy->status == INVENTORY_OK && strcmp(order_at(&second, buy->ctx), "(nil)") == 0)
        buy->seller->shop->fault = "the second replica does not have it";
}

static bool lacks_one(void *arg) {
    struct inventory_health health;
    store_health(arg, &health);
    return !health.ready && strstr(health.reason, "has 1 of the 2 replicas that --replicas 2 needs");
}

/* Both are needed, and one is cut off, and gone then. */
static void test_both_are_needed(void) {
    static char key[] = "k0";
    second_start();
    sellers_open_with(2, CALL_MS);
    phone_sell(INVENTORY_BATCH);
    check_server(2, 2);
    proxy_set(pair.link, PROXY_DELAY, 20, NULL);
    struct buy *bought = buy_begin(seller, "phone", "ann", key, 1);
    bought->then = check_are_on_both;
    bought->ctx = key;
    shop_settle(seller->shop);
    CHECK_STATUS(bought->status, INVENTORY_OK);
    proxy_set(pair.link, PROXY_PASS, 0, NULL);
    pair_cut(&pair);
    CHECK_STATUS(buy(seller, "phone", "ann", "k", 1)->status, INVENTORY_UNKNOWN);
    redis_wait_copied(&pair.master, &second);
    CHECK_HAS(order_at(&second, "k"), "c 1 ann");
    CHECK(!inventory_is_up(seller->inventory));
    CHECK_HAS(inventory_last_error(seller->inventory), "fewer than 2 replicas");
    CHECK_STATUS(buy(seller, "phone", "ann", "k2", 1)->status, INVENTORY_UNAVAILABLE);
    proxy_set(pair.link, PROXY_REFUSE, 0, NULL);
    shop_wait(seller->shop, lacks_one, seller, "it is told that one is not there");
    pair_mend(&pair);
    seller_wait_up(seller);
    CHECK_STATUS(buy(seller, "phone", "ann", "k", 1)->status, INVENTORY_REPLAYED);
    check_books(seller, &pair.replica, "phone", 7, 0, 3);
}

/* One is needed: what the other one, which is cut off, has not said is not taken for proven. */
static void test_one_of_two(void) {
    second_start();
    sellers_open(CALL_MS);
    phone_sell(INVENTORY_BATCH);
    pair_cut(&pair);
    CHECK_STATUS(buy(seller, "phone", "ann", "k", 1)->status, INVENTORY_OK);
    check_server(2, 1);
    pair_mend(&pair);
    replica_wait(&pair.master);
}

/* ---- WAIT counts otherwise since Redis 7.2 ---- */

static void relay_begin(void) {
    relay = newer_wait_start(pair.master.port);
    door = newer_wait_port(relay);
    harness_defer(close_door, NULL);
}

static void (*behind_relay)(void);

static void test_newer(void) {
    relay_begin();
    behind_relay();
}

static void run_newer(const char *what, void (*test)(void)) {
    behind_relay = test;
    run_each(what, test_newer, INVENTORY_BATCH);
}

/* No WAIT waits for nothing: then the replicas' offsets would have to be polled. */
static void test_newer_safe(void) {
    struct inventory_health health;
    relay_begin();
    test_safe_when_answered();
    store_health(seller, &health);
    CHECK_INT(health.servers[0].proven, 1);
    CHECK_INT(newer_wait_blind(relay), 0);
}

/* The write before WAIT is refused, so that WAIT waits for nothing. */
static void test_newer_refused(void) {
    relay_begin();
    newer_wait_refuse(relay, "{barrier");
    test_safe_when_answered();
    CHECK(newer_wait_blind(relay) > 0);
    test_cut_off();
}

/* What waits for replicas leaves nothing in the store, and a store that is full does not refuse it. */
static void test_full(void) {
    sellers_open(CALL_MS);
    phone_sell(strategy);
    struct buy *bought = buy(seller, "phone", "ann", "k", 1);
    CHECK_STR(redis_command(&pair.master, "KEYS", "*barrier*", NULL), "[]");
    CHECK_STR(redis_command(&pair.replica, "KEYS", "*barrier*", NULL), "[]");
    CHECK_HAS(redis_command(&pair.replica, "INFO", "commandstats", NULL), "cmdstat_del:");
    redis_command(&pair.master, "CONFIG", "SET", "maxmemory", "1", NULL);
    enum inventory_status full = buy(seller, "phone", "bob", "k2", 1)->status;
    enum inventory_status read = order_step(seller, bought->id, INVENTORY_READ, NULL);
    redis_command(&pair.master, "CONFIG", "SET", "maxmemory", "0", NULL);
    CHECK_STATUS(full, INVENTORY_UNAVAILABLE);
    CHECK_STATUS(read, INVENTORY_OK);
    CHECK(inventory_is_up(seller->inventory));
}

/* ---- a cluster ---- */

enum { MASTERS = 2 };

static long long marks_at(const struct redis_server *replica) {
    static const char name[] = "cmdstat_del:calls=";
    const char *at = strstr(redis_command(replica, "INFO", "commandstats", NULL), name);
    return at ? strtoll(at + sizeof name - 1, NULL, 10) : 0;
}

/* Each master's replicas are waited for, also where a slot is on its way and where it has come to. */
static void test_cluster(void) {
    struct redis_cluster cluster;
    redis_cluster_start(&cluster, MASTERS, 1);
    seller = seller_open_with(shop_open(), &(struct seller_options){.url = redis_cluster_url(&cluster),
                                                                    .replicas = 1,
                                                                    .call_timeout_ms = 1000,
                                                                    .resolve_ms = RESOLVE_MS});
    struct redis_server *from = redis_cluster_of(&cluster, stock_key("phone"));
    struct redis_server *to = &cluster.server[from == &cluster.server[0]];
    seller_wait_whole(seller);
    item_sell(seller, "phone", INVENTORY_BATCH, 10);
    CHECK_STATUS(buy(seller, "phone", "ann", "k1", 1)->status, INVENTORY_OK);
    redis_cluster_begin_move(stock_key("phone"), from, to);
    redis_cluster_move_keys(stock_key("phone"), from, to, 100);
    CHECK_STATUS(buy(seller, "phone", "ann", "k2", 1)->status, INVENTORY_OK);
    redis_cluster_end_move(&cluster, stock_key("phone"), to);
    CHECK_STATUS(buy(seller, "phone", "ann", "k3", 1)->status, INVENTORY_OK);
    for (int i = 0; i < MASTERS; i++)
        CHECK(marks_at(&cluster.server[MASTERS + i]) > 0);
    redis_pause(&cluster.server[MASTERS + (to - cluster.server)]);
    CHECK_STATUS(buy(seller, "phone", "ann", "k4", 1)->status, INVENTORY_UNKNOWN);
    redis_resume(&cluster.server[MASTERS + (to - cluster.server)]);
    while (buy(seller, "phone", "ann", "k4", 1)->status != INVENTORY_REPLAYED)
        shop_turn(seller->shop);
}

int main(int argc, char **argv) {
    harness_begin(argc, argv);
    if (*harness_dir()) {
        pair_start(&pair);
        /* An idle server ends a WAIT up to a tenth of a second late, which is all that CALL_MS leaves. */
        redis_command(&pair.master, "CONFIG", "SET", "hz", "100", NULL);
    }
    run_each("safe when answered", test_safe_when_answered, INVENTORY_LOCKED);
    run_each("one after the other", test_one_after_the_other, INVENTORY_BATCH);
    run_each("cut off", test_cut_off, INVENTORY_BATCH);
    run_each("cut off, and asked again", test_cut_off_and_again, INVENTORY_LOCKED);
    run_each("cut off for a while", test_cut_off_for_a_while, INVENTORY_BATCH);
    run_each("reads are safe", test_reads_are_safe, INVENTORY_OPTIMISTIC);
    run_each("a crowd", test_crowd, INVENTORY_OPTIMISTIC);
    harness_run("both of two are needed", test_both_are_needed);
    harness_run("one of two is needed", test_one_of_two);
    run_each("newer WAIT: safe when answered", test_newer_safe, INVENTORY_BATCH);
    run_newer("newer WAIT: cut off", test_cut_off);
    run_newer("newer WAIT: reads are safe", test_reads_are_safe);
    run_newer("newer WAIT: both of two are needed", test_both_are_needed);
    run_each("newer WAIT: nothing can be written before it", test_newer_refused, INVENTORY_BATCH);
    run_each("a store that is full", test_full, INVENTORY_BATCH);
    harness_run("a cluster", test_cluster);
    harness_run("too few replicas", test_too_few);
    harness_run("another history", test_another_history); /* the last: the link is cut */
    return harness_finish();
}
