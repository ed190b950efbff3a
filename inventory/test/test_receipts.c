/* A replica is promoted that has not got the last orders: they are put back, each once, before anything is
 * sold, and what does not fit any more is told. */
#include <stdio.h>
#include <string.h>

#include "inventory/purchases/putback.h"
#include "inventory/test/told.h"
#include "inventory/transactions/transactions_internal.h"

enum { NEVER_MS = 600000 };

static struct pair pair;
static struct told told, others;
static struct proxy *way; /* of the other seller */

/* At the pair, whose replica follows. */
static struct seller *open_at_pair(void) {
    redis_clock(); /* of servers that start after this */
    pair_start(&pair);
    return told_seller_open(shop_open(), pair_url(&pair), &told);
}

static void check_state(struct seller *seller, const char *id, enum inventory_state state) {
    struct inventory_order order;
    CHECK_STATUS(order_step(seller, id, INVENTORY_READ, &order), INVENTORY_OK);
    CHECK_STR(inventory_state_name(order.state), inventory_state_name(state));
}

/* Orders of two sellers, one of whom is idle since; holds, and what became of them. */
static void test_put_back(void) {
    struct seller *seller = open_at_pair();
    struct seller *other = told_seller_open(seller->shop, pair_url(&pair), &others);
    item_sell(seller, "phone", INVENTORY_BATCH, 10);
    item_put_with(seller, "seat", 20, 5, 600000);
    item_put_with(seller, "short", 20, 5, 60000);
    CHECK_STATUS(buy(seller, "phone", "ann", "before", 1)->status, INVENTORY_OK);
    struct buy *confirmed = buy(seller, "seat", "bob", "c", 1),
               *cancelled = buy(seller, "seat", "bob", "x", 2);
    CHECK_STATUS(cancelled->status, INVENTORY_OK);
    pair_cut(&pair);
    CHECK_STATUS(buy(other, "phone", "eve", "other", 3)->status, INVENTORY_OK);
    CHECK_STATUS(buy(other, "seat", "eve", "other", 1)->status, INVENTORY_OK);
    CHECK_STATUS(buy(seller, "phone", "ann", "after", 2)->status, INVENTORY_OK);
    struct buy *held = buy(seller, "seat", "ann", "h", 1), *both = buy(seller, "seat", "ann", "hc", 1);
    struct buy *given_up = buy(seller, "seat", "ann", "hx", 2),
               *expires = buy(seller, "short", "ann", "e", 1);
    CHECK_STATUS(expires->status, INVENTORY_OK);
    CHECK_STATUS(order_step(seller, confirmed->id, INVENTORY_CONFIRM, NULL), INVENTORY_OK);
    CHECK_STATUS(order_step(seller, cancelled->id, INVENTORY_CANCEL, NULL), INVENTORY_OK);
    CHECK_STATUS(order_step(seller, both->id, INVENTORY_CONFIRM, NULL), INVENTORY_OK);
    CHECK_STATUS(order_step(seller, given_up->id, INVENTORY_CANCEL, NULL), INVENTORY_OK);
    pair_fail_over(&pair);
    CHECK_STR(redis_command(&pair.replica, "HGET", stock_key("phone"), "sold", NULL), "1");
    seller_wait_down(seller);
    CHECK_STATUS(buy(seller, "phone", "bob", "too soon", 1)->status, INVENTORY_UNAVAILABLE);
    seller_wait_up(seller);
    seller_wait_up(other);
    told_check(&others, 2, 0);
    /* `phone` after; `seat` h, the ends of hc, hx, c and x; `short` e. */
    told_check(&told, 7, 0);
    CHECK_STATUS(buy(seller, "phone", "ann", "after", 2)->status, INVENTORY_REPLAYED);
    CHECK_STATUS(buy(other, "phone", "eve", "other", 3)->status, INVENTORY_REPLAYED);
    CHECK_STATUS(buy(other, "phone", "bob", "new", 4)->status, INVENTORY_OK);
    CHECK_STATUS(buy(other, "phone", "bob", "too much", 1)->status, INVENTORY_SOLD_OUT);
    check_state(seller, held->id, INVENTORY_STATE_HELD);
    check_state(seller, confirmed->id, INVENTORY_STATE_CONFIRMED);
    check_state(seller, cancelled->id, INVENTORY_STATE_CANCELLED);
    check_state(seller, both->id, INVENTORY_STATE_CONFIRMED);
    check_state(seller, given_up->id, INVENTORY_STATE_CANCELLED);
    check_books(seller, &pair.replica, "phone", 0, 0, 10);
    check_books(seller, &pair.replica, "seat", 16, 2, 2);
    CHECK_INT(holds_indexed(&pair.replica, "+inf"), 2);
    redis_clock()->ahead_ms += 60000 + INVENTORY_HOLD_GRACE_MS;
    while (redis_integer(&pair.replica, "HGET", stock_key("short"), "held", NULL) > 0) {
        inventory_sweep(seller->inventory);
        shop_idle(seller->shop, 50);
    }
    check_state(seller, expires->id, INVENTORY_STATE_EXPIRED);
    check_books(seller, &pair.replica, "short", 20, 0, 0);
}

/* The connection is lost while the receipts are shown. */
static void test_interrupted(void) {
    struct seller *seller = open_at_pair();
    item_sell(seller, "phone", INVENTORY_BATCH, 1000);
    pair_cut(&pair);
    for (int i = 0; i < 500; i++)
        buy_begin(seller, "phone", "ann", harness_format("k%d", i), 1);
    shop_settle(seller->shop);
    CHECK_INT(buys_with(seller->shop, INVENTORY_OK), 500);
    proxy_set(pair.front, PROXY_CUT, 1000, "EVALSHA");
    told_fail_over(&pair, seller, NULL);
    CHECK_INT(proxy_faults(pair.front), 1);
    CHECK(told.metrics.put_back <= 500 && told.metrics.put_back > 200);
    check_books(seller, &pair.replica, "phone", 500, 0, 500);
}

/* Nothing was lost: nothing is put back. And a connection that is lost without a failover is made anew at
 * once. */
static void test_nothing_lost(void) {
    struct seller *seller = open_at_pair();
    item_sell(seller, "phone", INVENTORY_BATCH, 10);
    CHECK_STATUS(buy(seller, "phone", "ann", "k", 1)->status, INVENTORY_OK);
    redis_wait_copied(&pair.master, &pair.replica);
    CHECK(redis_integer(&pair.master, "CLIENT", "KILL", "TYPE", "normal", NULL) > 0);
    seller_wait_again(seller);
    CHECK(seller->inventory->purchases->putback->history_count == 1);
    replica_wait(&pair.master);
    told_fail_over(&pair, seller, NULL);
    CHECK(seller->inventory->purchases->putback->history_count == 2);
    told_check(&told, 0, 0);
    check_books(seller, &pair.replica, "phone", 9, 0, 1);
}

struct watch {
    struct seller *seller;
    const struct redis_server *server;
};

static bool knows_history(void *arg) {
    const struct watch *watch = arg;
    const char *id = redis_history(router_server(watch->seller->inventory->shared.store, 0))->id;
    return strstr(redis_command(watch->server, "INFO", "replication", NULL),
                  harness_format("master_replid:%s", id));
}

/* With its first replica a master's history gets a new id: nothing is lost, and no call fails. */
static void test_first_replica(void) {
    struct redis_server master, replica;
    redis_start(&master, NULL);
    struct shop *shop = shop_open();
    struct seller *seller = told_seller_on(shop, &master, &told);
    struct watch watch = {seller, &master};
    CHECK(knows_history(&watch));
    item_sell(seller, "phone", INVENTORY_BATCH, 10);
    redis_start_replica(&replica, &master);
    replica_wait(&master);
    CHECK(!knows_history(&watch));
    shop_wait(shop, knows_history, &watch, "the new id");
    CHECK_INT(seller->inventory->purchases->putback->history_count, 1); /* there was no other connection */
    CHECK_STATUS(buy(seller, "phone", "ann", "k", 1)->status, INVENTORY_OK);
    check_books(seller, &master, "phone", 9, 0, 1);
}

/* Breaks the connections to the server, and leads the next ones to the other. */
static void lead_to(const struct redis_server *from, const struct redis_server *to) {
    proxy_point(pair.front, to->port);
    proxy_point(way, to->port);
    CHECK(redis_integer(from, "CLIENT", "KILL", "TYPE", "normal", NULL) > 0);
}

/* The old master is there again, and named as the master once more, between two connections to its successor.
 * There one seller waits for what the other may have sold meanwhile. */
static void test_there_and_back(void) {
    struct seller *seller = open_at_pair();
    way = proxy_start(pair.master.port);
    struct seller *other =
        told_seller_open(seller->shop, harness_format("redis://127.0.0.1:%d", proxy_port(way)), &others);
    item_sell(seller, "phone", INVENTORY_BATCH, 10);
    CHECK_STATUS(buy(seller, "phone", "ann", "first", 1)->status, INVENTORY_OK);
    redis_wait_copied(&pair.master, &pair.replica);
    proxy_point(way, pair.replica.port);
    told_fail_over(&pair, seller, other);
    CHECK_STATUS(buy(seller, "phone", "ann", "there", 1)->status, INVENTORY_OK);
    redis_restart(&pair.master);
    lead_to(&pair.replica, &pair.master);
    seller_wait_again(seller);
    seller_wait_up(other);
    CHECK_STATUS(buy(seller, "phone", "ann", "back", 1)->status, INVENTORY_OK);
    CHECK_STATUS(buy(other, "phone", "eve", "other", 7)->status, INVENTORY_OK);
    told_check(&told, 1, 0); /* what the old master had missed */
    proxy_set(way, PROXY_REFUSE, 0, NULL);
    lead_to(&pair.master, &pair.replica);
    seller_wait_down(seller);
    told_check_quarantine(seller);
    proxy_set(way, PROXY_PASS, 0, NULL);
    seller_wait_up(seller);
    seller_wait_up(other);
    told_check(&told, 2, 0);
    told_check(&others, 1, 0);
    CHECK_STATUS(buy(seller, "phone", "ann", "back", 1)->status, INVENTORY_REPLAYED);
    check_books(seller, &pair.replica, "phone", 0, 0, 10);
}

/* Each answer waited for a replica, but another one is promoted, which lags: what it lacks is put back. */
static void test_other_replica(void) {
    struct redis_server near;
    pair_start(&pair);
    redis_start_replica(&near, &pair.master);
    pair_cut(&pair);
    struct seller_options options = {.url = pair_url(&pair), .call_timeout_ms = 1000, .replicas = 1};
    struct seller *seller = told_seller_open_with(shop_open(), &options, &told);
    item_sell(seller, "phone", INVENTORY_BATCH, 10);
    CHECK_STATUS(buy(seller, "phone", "ann", "k", 1)->status, INVENTORY_OK);
    CHECK_STR(redis_command(&near, "HGET", stock_key("phone"), "sold", NULL), "1");
    told_open(seller);
    shop_idle(seller->shop,
              300); /* many questions: one of two replicas has it, which is not enough to forget it */
    CHECK(told_open(seller) > 0);
    pair_fail_over(&pair);
    CHECK_STR(redis_command(&near, "REPLICAOF", "127.0.0.1", harness_format("%d", pair.replica.port), NULL),
              "OK");
    seller_wait_again(seller);
    told_check(&told, 2, 0); /* the item, too */
    CHECK_STATUS(buy(seller, "phone", "ann", "k", 1)->status, INVENTORY_REPLAYED);
    check_books(seller, &near, "phone", 9, 0, 1);
}

/* More was lost than is kept: that is told. */
static void test_unkept(void) {
    enum { KEPT = 2000, MORE = 100 };
    char key[24];
    struct seller *seller = open_at_pair();
    item_sell(seller, "phone", INVENTORY_BATCH, 1000000);
    pair_cut(&pair);
    seller->inventory->purchases->putback->receipts.max = KEPT;
    for (int i = 0; i < KEPT + MORE; i++) {
        snprintf(key, sizeof key, "k%d", i);
        buy_begin(seller, "phone", "ann", key, 1);
    }
    shop_settle(seller->shop);
    CHECK_INT(buys_with(seller->shop, INVENTORY_OK), KEPT + MORE);
    shop_idle(seller->shop, 100);
    told_fail_over(&pair, seller, NULL);
    CHECK((int)told.metrics.put_back <= KEPT); /* without what was shown again, since its reply was lost */
    CHECK_INT((int)told.metrics.unkept, 1);
    check_books(seller, &pair.replica, "phone", 1000000 - KEPT, 0, KEPT);
}

/* ---- where an order is ---- */

/* An order that is made now is kept with this one. */
static void check_history(struct seller *seller, int number) {
    struct buy *sold = buy(seller, "phone", "ann", "k", 1);
    CHECK_STATUS(sold->status, INVENTORY_OK);
    const struct receipt *receipt = receipts_find(&seller->inventory->purchases->putback->receipts,
                                                  RECEIPT_ORDER, "phone", strchr(sold->id, ':') + 1);
    CHECK(receipt);
    CHECK_INT(receipt->history, number);
}

/* With `optimistic` the reply comes over another connection than the store's. When the store has gone on to
 * another server by then, the order is in the history of the old one. */
static void test_history_of_optimistic(void) {
    struct redis_server redis;
    struct seller *seller = told_seller_at(&redis, &told);
    item_sell(seller, "phone", INVENTORY_OPTIMISTIC, 3);
    CHECK_STATUS(buy(seller, "phone", "ann", "before", 1)->status, INVENTORY_OK);
    seller->inventory->purchases->putback->histories[0]->number =
        7; /* what the store has is as if of another one */
    check_history(seller, 7);
}

/* The reply was lost, and the order is found where the store is now. */
static void test_history_of_lost(void) {
    struct redis_server redis;
    redis_start(&redis, NULL);
    way = proxy_start(redis.port);
    struct seller *seller =
        told_seller_open(shop_open(), harness_format("redis://127.0.0.1:%d", proxy_port(way)), &told);
    item_sell(seller, "phone", INVENTORY_OPTIMISTIC, 3);
    CHECK_STATUS(buy(seller, "phone", "ann", "before", 1)->status, INVENTORY_OK);
    seller->inventory->purchases->putback->histories[0]->number = 7;
    proxy_set(way, PROXY_CUT, 0, "EXEC");
    check_history(seller, 1);
    CHECK_INT(proxy_faults(way), 1);
}

int main(int argc, char **argv) {
    harness_begin(argc, argv);
    harness_run("put back", test_put_back);
    harness_run("interrupted", test_interrupted);
    harness_run("nothing lost", test_nothing_lost);
    harness_run("there and back", test_there_and_back);
    harness_run("the first replica", test_first_replica);
    harness_run("another replica is promoted", test_other_replica);
    harness_run("more than is kept", test_unkept);
    harness_run("the history of an order by optimistic", test_history_of_optimistic);
    harness_run("the history of an order by optimistic whose reply is lost", test_history_of_lost);
    return harness_finish();
}
