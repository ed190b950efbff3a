/* A store that is a Redis Cluster: every kind of call, slots that move, and audits meanwhile. */
#include <stdio.h>
#include <string.h>

#include "base/redis/slots.h"
#include "inventory/test/fixture.h"
#include "inventory/transactions.h"
#include "inventory/transactions/transactions_internal.h"

enum { MASTERS = 3 };

static struct redis_cluster cluster;

/* 0: the fixture's time-out. */
static struct seller *open_seller_with(int call_timeout_ms, bool without_events) {
    redis_cluster_flush(&cluster);
    for (int i = 0; i < MASTERS; i++)
        redis_command(&cluster.server[i], "CONFIG", "RESETSTAT", NULL);
    struct seller *seller =
        seller_open_with(shop_open(), &(struct seller_options){.url = redis_cluster_url(&cluster),
                                                               .call_timeout_ms = call_timeout_ms,
                                                               .resolve_ms = call_timeout_ms,
                                                               .without_events = without_events});
    seller->locked = true;
    seller_wait_whole(seller);
    return seller;
}

static struct seller *open_seller(int call_timeout_ms) {
    return open_seller_with(call_timeout_ms, false);
}

static struct redis_server *of(const char *item) {
    struct redis_server *server = redis_cluster_of(&cluster, stock_key(item));
    CHECK(server);
    return server;
}

/* Items on every server, each sold in its own way, with holds. */
static void test_everywhere(void) {
    bool seen[MASTERS] = {false};
    for (int i = 0; i < 60; i++)
        seen[of(harness_format("item%d", i)) - cluster.server] = true;
    struct seller *seller = open_seller(0);
    for (int i = 0; i < 60; i++) {
        const char *item = harness_format("item%d", i);
        item_put_as(seller, item, strategy, 10, 0, i % 2 ? 60000 : 0);
        const struct buy *first = buy(seller, item, "ann", "k", 2);
        CHECK_STATUS(first->status, INVENTORY_OK);
        CHECK_STATUS(buy(seller, item, "ann", "k", 2)->status, INVENTORY_REPLAYED);
        CHECK_STATUS(buy(seller, item, "bob", "l", 9)->status, INVENTORY_SOLD_OUT);
        if (i % 2)
            CHECK_STATUS(order_step(seller, first->order.id, INVENTORY_CONFIRM, NULL), INVENTORY_OK);
        CHECK_STATUS(item_restock(seller, item, "r", 1, NULL), INVENTORY_OK);
        item_check_audit(seller, item, 9, 0, 2);
    }
    for (int i = 0; i < MASTERS; i++) {
        CHECK(seen[i]);
        CHECK(!strstr(redis_command(&cluster.server[i], "INFO", "errorstats", NULL), "MOVED"));
    }
}

/* ---- slots that move ---- */

static struct redis_server *not_of(const char *item) {
    return &cluster.server[of(item) == &cluster.server[0]];
}

/* The keys have moved, and the slot has not: ASK. Then it has, and the seller has not heard: MOVED. */
static void test_moves(void) {
    struct seller *seller = open_seller(0);
    struct redis_server *from = of("phone"), *to = not_of("phone");
    item_put_as(seller, "phone", strategy, 100, 100, 60000);
    const struct buy *first = buy(seller, "phone", "ann", "k0", 1);
    CHECK_STATUS(first->status, INVENTORY_OK);
    CHECK_STATUS(item_restock(seller, "phone", "r0", 1, NULL), INVENTORY_OK);
    redis_cluster_begin_move(stock_key("phone"), from, to);
    CHECK(redis_cluster_move_keys(stock_key("phone"), from, to, 100) > 3);
    if (strategy != INVENTORY_OPTIMISTIC) /* it must have all on one connection */
        CHECK_STATUS(buy(seller, "phone", "ann", "k1", 1)->status, INVENTORY_OK);
    struct inventory_item read;
    CHECK_STATUS(item_reader(seller, "phone", &read), INVENTORY_OK);
    CHECK_STATUS(order_step(seller, first->order.id, INVENTORY_CONFIRM, NULL), INVENTORY_OK);
    redis_cluster_end_move(&cluster, stock_key("phone"), to);
    CHECK_STATUS(buy(seller, "phone", "ann", "k2", 1)->status, INVENTORY_OK);
    CHECK_STATUS(buy(seller, "phone", "ann", "k2", 1)->status, INVENTORY_REPLAYED);
    CHECK_INT(redis_integer(to, "HGET", stock_key("phone"), "sold", NULL), 1);
    item_check_audit(seller, "phone", strategy == INVENTORY_OPTIMISTIC ? 99 : 98,
                     strategy == INVENTORY_OPTIMISTIC ? 1 : 2, 1);
}

/* Another item of its part. */
static const char *item_beside(const char *item) {
    for (int i = 0;; i++) {
        const char *other = harness_format("other%d", i);
        if (item_part(other) == item_part(item))
            return other;
    }
}

/* Its keys have all moved, and all know. */
static void finish_move(const struct redis_server *from, const struct redis_server *to) {
    redis_cluster_move_keys(stock_key("phone"), from, to, 100);
    redis_cluster_end_move(&cluster, stock_key("phone"), to);
}

/* Some of its keys are here, and some there. Without holds a sale needs one key, and goes on. With holds it
 * is not sold until they are together, and then it is. */
static void test_split(void) {
    struct seller *seller = open_seller_with(1000, true);
    struct shop *shop = seller->shop;
    struct redis_server *from = of("phone"), *to = not_of("phone");
    const char *plain = item_beside("phone");
    item_put_with(seller, "phone", 100, 0, 60000);
    item_sell(seller, plain, INVENTORY_BATCH, 100);
    CHECK_STATUS(buy(seller, "phone", "ann", "k0", 1)->status, INVENTORY_OK);
    redis_cluster_begin_move(stock_key("phone"), from, to);
    CHECK_STATUS(buy(seller, "phone", "ann", "early", 1)->status, INVENTORY_OK); /* no key is missing */
    struct sale_keys keys;
    sale_keys_make(&keys, "phone");
    CHECK_INT(redis_integer(from, "EXISTS", keys.item, keys.holds, keys.due, keys.shortage, keys.token,
                            keys.events, NULL),
              6);
    redis_cluster_move_key(keys.item, from, to);
    CHECK_STATUS(buy(seller, "phone", "ann", "k1", 1)->status, INVENTORY_UNAVAILABLE);
    CHECK_HAS(inventory_last_error(seller->inventory), "TRYAGAIN");
    CHECK_STATUS(buy(seller, plain, "ann", "k1", 1)->status, INVENTORY_OK);
    redis_cluster_move_key(stock_key(plain), from, to);
    CHECK_STATUS(buy(seller, plain, "ann", "k2", 1)->status, INVENTORY_OK);
    struct buy *waits = buy_begin(seller, "phone", "ann", "k2", 1);
    shop_idle(shop, 100);
    CHECK_INT(waits->answers, 0);
    finish_move(from, to);
    shop_settle(shop);
    CHECK_STATUS(waits->status, INVENTORY_OK);
    CHECK_STATUS(buy(seller, "phone", "ann", "k1", 1)->status, INVENTORY_OK);
    item_check_audit(seller, "phone", 96, 4, 0);
}

/* Of two items of a part one has moved, and the move goes no further: a call of both is carried out by nobody
 * (TRYAGAIN). Each is sold by a call of its own. */
static void test_split_items(void) {
    struct seller *seller = open_seller_with(500, true);
    struct redis_server *from = of("phone"), *to = not_of("phone");
    const char *other = item_beside("phone");
    item_sell(seller, "phone", INVENTORY_BATCH, 100);
    item_sell(seller, other, INVENTORY_BATCH, 100);
    uint64_t calls = seller->inventory->shared.metrics->batches;
    struct buy *first[] = {buy_begin(seller, "phone", "ann", "k0", 1),
                           buy_begin(seller, other, "ann", "k0", 1)};
    shop_settle(seller->shop);
    CHECK_INT(seller->inventory->shared.metrics->batches - calls, 1); /* together */
    redis_cluster_begin_move(stock_key("phone"), from, to);
    redis_cluster_move_key(stock_key("phone"), from, to);
    struct buy *next[] = {buy_begin(seller, "phone", "ann", "k1", 1),
                          buy_begin(seller, other, "ann", "k1", 1)};
    shop_settle(seller->shop);
    for (int i = 0; i < 2; i++) {
        CHECK_STATUS(first[i]->status, INVENTORY_OK);
        CHECK_STATUS(next[i]->status, INVENTORY_OK);
    }
    finish_move(from, to);
    item_check_audit(seller, "phone", 98, 0, 2);
    item_check_audit(seller, other, 98, 0, 2);
}

/* Only the notes of what a failover lost have moved. An order that was noted, and is bought again, is sold
 * when all have, and its note goes then; until then nothing is. */
static void test_split_notes(void) {
    struct seller *seller = open_seller(1000);
    struct redis_server *from = of("phone"), *to = not_of("phone");
    const char *const item = stock_key("phone"), *const notes = stock_key("phone:shortage");
    item_sell(seller, "phone", INVENTORY_BATCH, 10);
    const struct buy *first = buy(seller, "phone", "ann", "k", 1);
    CHECK_STATUS(first->status, INVENTORY_OK);
    const char *digest = harness_format("%s", strchr(first->order.id, ':') + 1);
    const char *record = harness_format("%s", redis_command(from, "HGET", item, digest, NULL));
    CHECK_INT(redis_integer(from, "HSET", notes, digest, record, NULL), 1);
    CHECK_INT(redis_integer(from, "HDEL", item, digest, NULL), 1);
    CHECK_STR(redis_command(from, "HMSET", item, "available", "10", "sold", "0", "shortage", "1", NULL),
              "OK");
    redis_cluster_begin_move(stock_key("phone"), from, to);
    redis_cluster_move_key(notes, from, to);
    CHECK_STATUS(buy(seller, "phone", "ann", "k", 1)->status, INVENTORY_UNAVAILABLE);
    CHECK_INT(redis_integer(from, "HEXISTS", item, digest, NULL), 0);
    finish_move(from, to);
    CHECK_STATUS(buy(seller, "phone", "ann", "k", 1)->status, INVENTORY_OK);
    CHECK_STR(redis_command(to, "HGET", item, "shortage", NULL), "0");
    CHECK_INT(redis_integer(to, "HEXISTS", notes, digest, NULL), 0);
    item_check_audit(seller, "phone", 9, 0, 1);
}

/* The slot goes round and round under a crowd. A purchase that is told to come again does; none is lost, none
 * is made twice. */
static void test_moves_under_a_crowd(void) {
    enum { ROUNDS = 6, EACH = 150, UNITS = 2 * ROUNDS * EACH };
    struct seller *seller = open_seller(0);
    struct shop *shop = seller->shop;
    item_put_as(seller, "phone", strategy, UNITS, UNITS, 0);
    int refused = 0;
    for (int round = 0; round < ROUNDS; round++) {
        struct redis_server *from = of("phone"), *to = not_of("phone");
        buys_forget(shop);
        for (int i = 0; i < EACH; i++) {
            buy_begin(seller, "phone", "ann", harness_format("k%d-%d", round, i), 1);
            if (i == EACH / 4)
                redis_cluster_begin_move(stock_key("phone"), from, to);
            else if (i % 10 == 0 && i > EACH / 4)
                redis_cluster_move_keys(stock_key("phone"), from, to, 1);
            else if (i == EACH - 1)
                redis_cluster_end_move(&cluster, stock_key("phone"), to);
            shop_turn(shop);
        }
        shop_settle(shop);
        CHECK_INT(buys_with(shop, INVENTORY_OK) + buys_with(shop, INVENTORY_UNAVAILABLE), EACH);
        refused += buys_with(shop, INVENTORY_UNAVAILABLE);
        for (int i = 0; i < EACH; i++) /* and each of them again */
            buy_begin(seller, "phone", "ann", harness_format("k%d-%d", round, i), 1);
        shop_settle(shop);
        CHECK_INT(buys_with(shop, INVENTORY_REPLAYED) + buys_with(shop, INVENTORY_UNAVAILABLE) +
                      buys_with(shop, INVENTORY_OK),
                  2 * EACH);
    }
    printf("     %d of %d purchases were told to come again\n", refused, ROUNDS * EACH);
    struct inventory_audit audit = item_audited(seller, "phone");
    CHECK(audit.conserved);
    CHECK_INT(audit.oversold, 0);
    CHECK_INT(audit.orders[INVENTORY_STATE_CONFIRMED], ROUNDS * EACH);
}

/* A slot that nobody serves, in a cluster whose other slots are served. */
static void test_nobody(void) {
    struct seller *seller = open_seller(500);
    struct shop *shop = seller->shop;
    struct redis_server *owner = of("phone");
    item_sell(seller, "phone", INVENTORY_BATCH, 10);
    item_sell(seller, "lamp", INVENTORY_BATCH, 10);
    CHECK(strcmp(redis_command(owner, "CLUSTER", "KEYSLOT", stock_key("phone"), NULL),
                 redis_command(owner, "CLUSTER", "KEYSLOT", stock_key("lamp"), NULL)) != 0);
    const char *slot = redis_command(owner, "CLUSTER", "KEYSLOT", stock_key("phone"), NULL);
    for (int i = 0; i < MASTERS; i++)
        redis_command(&cluster.server[i], "CLUSTER", "DELSLOTS", slot, NULL);
    CHECK_STATUS(buy(seller, "phone", "ann", "k", 1)->status, INVENTORY_UNAVAILABLE);
    CHECK_HAS(inventory_last_error(seller->inventory), "CLUSTERDOWN");
    CHECK_STATUS(buy(seller, "lamp", "ann", "k", 1)->status, INVENTORY_OK);
    CHECK_STR(redis_command(owner, "CLUSTER", "ADDSLOTS", slot, NULL), "OK");
    struct inventory_health health;
    int tries = 0;
    do {
        CHECK(++tries < 1000);
        shop_idle(shop, 10);
        store_health(seller, &health);
        CHECK(health.ready); /* the other items are sold */
    } while (health.reason[0]);
    CHECK_STATUS(buy(seller, "phone", "ann", "k", 1)->status, INVENTORY_OK);
}

/* ---- audits of all items ---- */

static struct redis_server *server_at(const struct seller *seller, int i) {
    int port = redis_address_now(router_server(seller->inventory->shared.store, i))->port, at = 0;
    while (cluster.server[at].port != port)
        at++;
    return &cluster.server[at];
}

struct counted {
    bool done;
    int64_t items;
};

static void on_counted(void *ctx, enum inventory_status status, const struct inventory_audit_sum *sum) {
    *(struct counted *)ctx = (struct counted){true, status == INVENTORY_OK ? sum->items : -1};
}

/* The audit's inventory sells nothing: so it meets no MOVED. */
static struct seller *open_auditor(struct shop *shop, const struct redis_cluster *of) {
    struct seller *auditor = seller_open_with(shop, &(struct seller_options){.url = redis_cluster_url(of)});
    seller_wait_whole(auditor);
    return auditor;
}

/* An item moves from a server that is to be scanned to one that was. */
static void test_audit_of_moves(void) {
    struct seller *other = open_seller(20000), *seller = open_auditor(other->shop, &cluster);
    struct redis_server *first = server_at(seller, 0), *second = server_at(seller, 1),
                        *third = server_at(seller, 2);
    const char *item = item_at(&cluster, third), *key = stock_key(item),
               *slot = harness_format("%d", redis_slot(key, strlen(key)));
    item_sell(other, item, INVENTORY_BATCH, 10);
    struct counted counted = {.done = false};
    inventory_audit_all(seller->inventory, on_counted, &counted);
    SHOP_UNTIL(seller->shop, router_has_map(seller->inventory->shared.store), "the map was read");
    redis_pause(second); /* which is not asked yet */
    SHOP_UNTIL(seller->shop,
               strstr(redis_command(first, "INFO", "commandstats", NULL), "cmdstat_scan:") != NULL,
               "the first one was scanned");
    const char *id = redis_command(first, "CLUSTER", "MYID", NULL);
    redis_cluster_begin_move(key, third, first);
    redis_cluster_move_keys(key, third, first, 100);
    CHECK_STR(redis_command(first, "CLUSTER", "SETSLOT", slot, "NODE", id, NULL), "OK");
    CHECK_STR(redis_command(third, "CLUSTER", "SETSLOT", slot, "NODE", id, NULL), "OK");
    CHECK(seller_sells(other, item));
    redis_resume(second);
    redis_cluster_end_move(&cluster, key, first); /* this one may be asked for the map */
    SHOP_UNTIL(seller->shop, counted.done, "all is audited");
    CHECK_INT(counted.items, 1);
}

/* An item has moved, before its audit, to a server that the auditor has never heard of. */
static void test_audit_of_added(void) {
    struct redis_cluster grows;
    redis_cluster_start(&grows, 1, 0);
    struct shop *shop = shop_open();
    struct seller *seller = open_auditor(shop, &grows), *other = open_auditor(shop, &grows);
    struct counted counted = {.done = false};
    item_sell(other, "phone", INVENTORY_BATCH, 10);
    struct redis_server *from = &grows.server[0], *to = redis_cluster_add(&grows);
    redis_cluster_begin_move(stock_key("phone"), from, to);
    redis_cluster_move_keys(stock_key("phone"), from, to, 100);
    redis_cluster_end_move(&grows, stock_key("phone"), to);
    CHECK(seller_sells(other, "phone"));
    inventory_audit_all(seller->inventory, on_counted, &counted);
    SHOP_UNTIL(shop, counted.done, "all is audited");
    CHECK_INT(counted.items, 1);
}

static void set_telling(const char *rule) {
    for (int i = 0; i < MASTERS; i++)
        CHECK_STR(redis_command(&cluster.server[i], "ACL", "SETUSER", "default", rule, NULL), "OK");
}

static void let_tell(void *arg) {
    (void)arg;
    set_telling("+cluster");
}

/* No server tells who has the slots: the audit waits, and ends. */
static void test_audit_without_map(void) {
    struct seller *seller = open_seller(500);
    struct counted counted = {.done = false};
    harness_defer(let_tell, NULL);
    set_telling("-cluster");
    inventory_audit_all(seller->inventory, on_counted, &counted);
    shop_idle(seller->shop, 1500);
    CHECK(!counted.done);
    seller->shop->hurried_ms += 20000;
    SHOP_UNTIL(seller->shop, counted.done, "the audit has ended");
    CHECK_INT(counted.items, -1);
    set_telling("+cluster");
}

int main(int argc, char **argv) {
    harness_begin(argc, argv);
    if (*harness_dir()) {
        redis_clock();
        redis_cluster_start(&cluster, MASTERS, 0);
    }
    run_each("on every server", test_everywhere, INVENTORY_LOCKED);
    run_each_and_fenced("a slot that moves", test_moves, INVENTORY_OPTIMISTIC);
    harness_run("an item whose keys are split", test_split);
    harness_run("items whose slot is split", test_split_items);
    harness_run("an item whose notes alone have moved", test_split_notes);
    run_each_and_fenced("slots that move under a crowd", test_moves_under_a_crowd, INVENTORY_LUA);
    harness_run("a slot that nobody has", test_nobody);
    harness_run("an item that moves while it is audited", test_audit_of_moves);
    harness_run("an item on a server that was added", test_audit_of_added);
    harness_run("an audit that nobody tells the map", test_audit_without_map);
    return harness_finish();
}
