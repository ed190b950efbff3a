/* A store that is a Redis Cluster: every kind of call, slots that move, masters that die. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/redis/slots.h"
#include "inventory/layers.h"
#include "inventory/lock_epoch.h"
#include "inventory/test/fixture.h"
#include "inventory/test/transactions.h"
#include "inventory/transactions.h"

enum { MASTERS = 3 };

static struct redis_cluster cluster;

static struct seller *open_with(int call_timeout_ms, bool events) {
    redis_cluster_flush(&cluster);
    for (int i = 0; i < MASTERS; i++)
        redis_command(&cluster.server[i], "CONFIG", "RESETSTAT", NULL);
    struct shop *shop = shop_open();
    struct seller *seller =
        seller_open_with(shop, &(struct seller_options){.url = redis_cluster_url(&cluster),
                                                        .call_timeout_ms = call_timeout_ms,
                                                        .resolve_ms = call_timeout_ms,
                                                        .without_events = !events});
    seller->locked = true;
    while (!router_is_whole(seller->inventory->shared.store))
        shop_turn(shop);
    return seller;
}

static struct seller *open_with_timeout(int call_timeout_ms) {
    return open_with(call_timeout_ms, true);
}

static struct seller *open_seller(void) {
    return open_with_timeout(0);
}

static struct redis_server *of_key(const char *key) {
    struct redis_server *server = redis_cluster_of(&cluster, key);
    CHECK(server);
    return server;
}

static struct redis_server *of(const char *item) {
    return of_key(stock_key(item));
}

static void check_stock(struct seller *seller, const char *item, int64_t available, int64_t held,
                        int64_t sold) {
    struct inventory_audit audit;
    CHECK_STATUS(item_audit(seller, item, &audit), INVENTORY_OK);
    CHECK(audit.conserved);
    CHECK_INT(audit.item.available, available);
    CHECK_INT(audit.item.held, held);
    CHECK_INT(audit.item.sold, sold);
    CHECK_INT(audit.oversold, 0);
}

/* Items on every server, each sold in its own way, with holds. */
static void test_everywhere(void) {
    bool seen[MASTERS] = {false};
    for (int i = 0; i < 60; i++)
        seen[of(harness_format("item%d", i)) - cluster.server] = true;
    struct seller *seller = open_seller();
    for (int i = 0; i < 60; i++) {
        const char *item = harness_format("item%d", i);
        struct inventory_item held = terms(item, strategy, 10);
        held.hold_ms = i % 2 ? 60000 : 0;
        CHECK_STATUS(item_put(seller, &held), INVENTORY_OK);
        const struct buy *first = buy(seller, item, "ann", "k", 2);
        CHECK_STATUS(first->status, INVENTORY_OK);
        CHECK_STATUS(buy(seller, item, "ann", "k", 2)->status, INVENTORY_REPLAYED);
        CHECK_STATUS(buy(seller, item, "bob", "l", 9)->status, INVENTORY_SOLD_OUT);
        if (i % 2)
            CHECK_STATUS(order_step(seller, first->order.id, INVENTORY_CONFIRM, NULL), INVENTORY_OK);
        CHECK_STATUS(item_restock(seller, item, "r", 1, NULL), INVENTORY_OK);
        check_stock(seller, item, 9, 0, 2);
    }
    for (int i = 0; i < MASTERS; i++) {
        CHECK(seen[i]);
        CHECK(!strstr(redis_command(&cluster.server[i], "INFO", "errorstats", NULL), "MOVED"));
    }
}

/* Every call goes to the right server at once, by the library's own slots. */
static void test_slots(void) {
    uint64_t random = harness_seed();
    for (int i = 0; i < 200; i++) {
        unsigned long long number = harness_random(&random);
        const char *key =
            i % 2 ? harness_format("seckill:{%llx}:item", number) : harness_format("%llx{}{x", number);
        CHECK_INT(redis_slot(key, strlen(key)),
                  redis_integer(&cluster.server[0], "CLUSTER", "KEYSLOT", key, NULL));
    }
}

/* ---- slots that move ---- */

static const char *tag_of(const struct txn *txn) {
    return harness_format("{baskets:%u}", key_part(txn->transaction.id));
}

static struct redis_server *not_of(const char *item) {
    return &cluster.server[of(item) == &cluster.server[0]];
}

/* The keys have moved, and the slot has not: ASK. Then it has, and the seller has not heard: MOVED. */
static void test_moves(void) {
    struct seller *seller = open_seller();
    struct redis_server *from = of("phone"), *to = not_of("phone");
    struct inventory_item item = terms("phone", strategy, 100);
    item.limit = 100;
    item.hold_ms = 60000;
    CHECK_STATUS(item_put(seller, &item), INVENTORY_OK);
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
    check_stock(seller, "phone", strategy == INVENTORY_OPTIMISTIC ? 99 : 98,
                strategy == INVENTORY_OPTIMISTIC ? 1 : 2, 1);
}

/* Some of its keys are here, and some there. Without holds a sale needs one key, and goes on. With holds it
 * is not sold until they are together, and then it is. */
static void test_split(void) {
    struct seller *seller = open_with(1000, false);
    struct shop *shop = seller->shop;
    struct redis_server *from = of("phone"), *to = not_of("phone");
    const char *plain = "plain0";
    for (int i = 1; item_part(plain) != item_part("phone"); i++)
        plain = harness_format("plain%d", i);
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
    redis_cluster_move_keys(stock_key("phone"), from, to, 100);
    redis_cluster_end_move(&cluster, stock_key("phone"), to);
    shop_settle(shop);
    CHECK_STATUS(waits->status, INVENTORY_OK);
    CHECK_STATUS(buy(seller, "phone", "ann", "k1", 1)->status, INVENTORY_OK);
    check_stock(seller, "phone", 96, 4, 0);
}

/* Of two items of a part one has moved, and the move goes no further: a call of both is carried out by nobody
 * (TRYAGAIN). Each is sold by a call of its own. */
static void test_split_items(void) {
    struct seller *seller = open_with(500, false);
    struct redis_server *from = of("phone"), *to = not_of("phone");
    const char *other = "other0";
    for (int i = 1; item_part(other) != item_part("phone"); i++)
        other = harness_format("other%d", i);
    item_sell(seller, "phone", INVENTORY_BATCH, 100);
    item_sell(seller, other, INVENTORY_BATCH, 100);
    uint64_t calls = inventory_metrics_read(seller->inventory)->batches;
    struct buy *first[] = {buy_begin(seller, "phone", "ann", "k0", 1),
                           buy_begin(seller, other, "ann", "k0", 1)};
    shop_settle(seller->shop);
    CHECK_INT(inventory_metrics_read(seller->inventory)->batches - calls, 1); /* together */
    redis_cluster_begin_move(stock_key("phone"), from, to);
    redis_cluster_move_key(stock_key("phone"), from, to);
    struct buy *next[] = {buy_begin(seller, "phone", "ann", "k1", 1),
                          buy_begin(seller, other, "ann", "k1", 1)};
    shop_settle(seller->shop);
    for (int i = 0; i < 2; i++) {
        CHECK_STATUS(first[i]->status, INVENTORY_OK);
        CHECK_STATUS(next[i]->status, INVENTORY_OK);
    }
    redis_cluster_move_keys(stock_key("phone"), from, to, 100);
    redis_cluster_end_move(&cluster, stock_key("phone"), to);
    check_stock(seller, "phone", 98, 0, 2);
    check_stock(seller, other, 98, 0, 2);
}

/* Only the notes of what a failover lost have moved. An order that was noted, and is bought again, is sold
 * when all have, and its note goes then; until then nothing is. */
static void test_split_notes(void) {
    struct seller *seller = open_with_timeout(1000);
    struct redis_server *from = of("phone"), *to = not_of("phone");
    const char *const item = stock_key("phone"), *const orders = stock_key("phone"),
                      *const notes = stock_key("phone:shortage");
    item_sell(seller, "phone", INVENTORY_BATCH, 10);
    const struct buy *first = buy(seller, "phone", "ann", "k", 1);
    CHECK_STATUS(first->status, INVENTORY_OK);
    const char *digest = harness_format("%s", strchr(first->order.id, ':') + 1);
    const char *record = harness_format("%s", redis_command(from, "HGET", orders, digest, NULL));
    CHECK_INT(redis_integer(from, "HSET", notes, digest, record, NULL), 1);
    CHECK_INT(redis_integer(from, "HDEL", orders, digest, NULL), 1);
    CHECK_STR(redis_command(from, "HMSET", item, "available", "10", "sold", "0", "shortage", "1", NULL),
              "OK");
    redis_cluster_begin_move(stock_key("phone"), from, to);
    redis_cluster_move_key(notes, from, to);
    CHECK_STATUS(buy(seller, "phone", "ann", "k", 1)->status, INVENTORY_UNAVAILABLE);
    CHECK_INT(redis_integer(from, "HEXISTS", orders, digest, NULL), 0);
    redis_cluster_move_keys(stock_key("phone"), from, to, 100);
    redis_cluster_end_move(&cluster, stock_key("phone"), to);
    CHECK_STATUS(buy(seller, "phone", "ann", "k", 1)->status, INVENTORY_OK);
    CHECK_STR(redis_command(to, "HGET", item, "shortage", NULL), "0");
    CHECK_INT(redis_integer(to, "HEXISTS", notes, digest, NULL), 0);
    check_stock(seller, "phone", 9, 0, 1);
}

/* The slot goes round and round under a crowd. A purchase that is told to come again does; none is lost, none
 * is made twice. */
static void test_moves_under_a_crowd(void) {
    enum { ROUNDS = 6, EACH = 150 };
    struct seller *seller = open_seller();
    struct shop *shop = seller->shop;
    struct inventory_item item = terms("phone", strategy, (int64_t)2 * ROUNDS * EACH);
    item.limit = item.initial;
    CHECK_STATUS(item_put(seller, &item), INVENTORY_OK);
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
    struct inventory_audit audit;
    CHECK_STATUS(item_audit(seller, "phone", &audit), INVENTORY_OK);
    CHECK(audit.conserved);
    CHECK_INT(audit.oversold, 0);
    CHECK_INT(audit.orders[INVENTORY_STATE_CONFIRMED], ROUNDS * EACH);
}

/* ---- servers that are gone ---- */

/* A slot that nobody serves, in a cluster whose other slots are served. */
static void test_nobody(void) {
    struct seller *seller = open_with_timeout(500);
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

/* A master is killed: its items are sold again when its replica is master, and those of others all the time.
 */
static void test_failover(void) {
    struct redis_cluster pairs;
    redis_cluster_start(&pairs, MASTERS, 1);
    struct shop *shop = shop_open();
    struct seller *seller = seller_open_with(
        shop, &(struct seller_options){.url = redis_cluster_url(&pairs), .call_timeout_ms = 1000});
    seller->locked = true;
    while (!router_is_whole(seller->inventory->shared.store))
        shop_turn(shop);
    struct redis_server *dies = redis_cluster_of(&pairs, stock_key("phone"));
    const char *other = "lamp";
    for (int i = 0; redis_cluster_of(&pairs, stock_key(other)) == dies; i++)
        other = harness_format("lamp%d", i);
    item_sell(seller, "phone", INVENTORY_BATCH, 100000);
    item_sell(seller, other, INVENTORY_BATCH, 100000);
    CHECK(seller_sells(seller, "phone") && seller_sells(seller, other));
    redis_wait_copied(dies, dies + MASTERS);
    redis_kill(dies);
    int64_t deadline_ms = harness_now_ms() + 30000;
    CHECK(!seller_sells(seller, "phone"));
    while (!seller_sells(seller, "phone")) {
        CHECK(seller_sells(seller, other));
        CHECK(harness_now_ms() < deadline_ms);
        shop_idle(shop, 5);
    }
    long long sold =
        redis_integer(redis_cluster_of(&pairs, stock_key("phone")), "HGET", stock_key("phone"), "sold", NULL);
    check_stock(seller, "phone", 100000 - sold, 0, sold);
    redis_restart(dies); /* as a replica of its replica */
    for (int i = 0; i < 200; i++) {
        CHECK(seller_sells(seller, "phone"));
        shop_turn(shop);
    }
}

/* Forty buyers at once, by `optimistic`: over all of its connections. */
static void buy_forty(struct seller *seller, const char *name) {
    buys_forget(seller->shop);
    for (int i = 0; i < 40; i++)
        buy_begin(seller, "phone", harness_format("u%d", i), harness_format("%s%d", name, i), 1);
    shop_settle(seller->shop);
    CHECK_INT(buys_with(seller->shop, INVENTORY_OK), 40);
}

/* The servers give a failover up after five seconds, if they are slow. */
static void fail_over(struct shop *shop, const struct redis_server *master,
                      const struct redis_server *replica) {
    int64_t begun_ms = harness_now_ms(), again_ms = begun_ms;
    while (!strstr(redis_command(master, "ROLE", NULL), "[slave")) {
        CHECK(harness_now_ms() < begun_ms + 30000);
        if (harness_now_ms() >= again_ms) {
            CHECK_STR(redis_command(replica, "CLUSTER", "FAILOVER", NULL), "OK");
            again_ms = harness_now_ms() + 6000;
        }
        shop_idle(shop, 5);
    }
}

static void wait_readable(struct seller *seller, const char *item) {
    struct inventory_item read;
    int64_t deadline_ms = harness_now_ms() + 30000;
    while (item_reader(seller, item, &read) != INVENTORY_OK) {
        CHECK(harness_now_ms() < deadline_ms);
        shop_idle(seller->shop, 5);
    }
}

/* A master is replaced that lives on, and then its successor, which stands still: no connection of
 * `optimistic` stays with them, and none is used before it is there. */
static void test_optimistic_failover(void) {
    struct redis_cluster pairs;
    redis_cluster_start(&pairs, MASTERS, 1);
    struct seller *seller = seller_open_with(
        shop_open(), &(struct seller_options){.url = redis_cluster_url(&pairs), .call_timeout_ms = 1000});
    while (!router_is_whole(seller->inventory->shared.store))
        shop_turn(seller->shop);
    struct redis_server *first = redis_cluster_of(&pairs, stock_key("phone")), *second = first + MASTERS;
    item_sell(seller, "phone", INVENTORY_OPTIMISTIC, 1000);
    buy_forty(seller, "a");
    fail_over(seller->shop, first, second);
    wait_readable(seller, "phone");
    buy_forty(seller, "b");
    redis_wait_copied(second, first);
    redis_pause(second);
    struct inventory_item read;
    while (item_reader(seller, "phone", &read) == INVENTORY_OK) {
    }
    wait_readable(seller, "phone");
    buy_forty(seller, "c");
    redis_resume(second);
    check_stock(seller, "phone", 880, 0, 120);
}

/* ---- what is more than one item ---- */

static void test_transactions(void) {
    struct seller *seller = open_seller();
    seller->fence = 5;
    const char *const items[] = {"phone", "lamp", "chair"};
    for (int i = 0; i < 3; i++)
        item_sell(seller, items[i], INVENTORY_BATCH, 10);
    struct txn *basket = txn_new(seller, "k1", "phone:1 lamp:2 chair:3");
    CHECK_STATUS(txn_do(basket, TXN_CHECK), INVENTORY_WANTS_LOCK);
    CHECK_STATUS(txn_do(basket, TXN_MAKE), INVENTORY_OK);
    CHECK_STATUS(txn_do(txn_new(seller, "k1", "phone:1 lamp:2 chair:3"), TXN_MAKE), INVENTORY_REPLAYED);
    CHECK_STATUS(txn_do(txn_new(seller, "k2", "phone:1 lamp:20"), TXN_MAKE), INVENTORY_SOLD_OUT);
    way = AT_ONCE;
    enum inventory_status at_once = txn_make(seller, "k3", "phone:1 lamp:1");
    way = IN_STEPS;
    CHECK_STATUS(at_once, INVENTORY_CROSS_SLOT);
    check_stock(seller, "phone", 9, 0, 1);
    check_stock(seller, "lamp", 8, 0, 2);
    check_stock(seller, "chair", 7, 0, 3);
}

static void on_heartbeat(void *ctx, enum inventory_status status, const struct inventory_lock_epoch *epoch) {
    int *answer = ctx;
    *answer = status == INVENTORY_OK && epoch->in_force ? 2 : 1;
}

static bool heartbeat_answered(void *arg) {
    return *(int *)arg > 0;
}

/* As instance "a", whose lock is always the same. True: the epoch is in force. */
static bool heartbeat(struct seller *seller, uint64_t epoch) {
    struct inventory_heartbeat heartbeat = {.instance = "a", .epoch = epoch, .lock = "x:", .quiet_ms = 1000};
    int answer = 0;
    inventory_lock_epoch_heartbeat(seller->inventory, &heartbeat, on_heartbeat, &answer);
    shop_wait(seller->shop, heartbeat_answered, &answer, "a heartbeat is answered");
    return answer == 2;
}

/* As an instance does when it starts: from then on all keys of the journal exist. */
static void put_in_force(struct seller *seller, uint64_t epoch) {
    int64_t deadline_ms = harness_now_ms() + 30000;
    heartbeat(seller, 0);
    while (!heartbeat(seller, epoch))
        CHECK(harness_now_ms() < deadline_ms);
    seller->epoch = epoch;
    seller->fence = 5;
}

/* The journal is on all servers. Where a slot of it moves, baskets go on, whatever of its keys is where. */
static void test_journal_moves(void) {
    bool seen[MASTERS] = {false};
    struct seller *seller = open_seller();
    for (unsigned part = 0; part < KEY_PARTS; part++)
        seen[of_key(harness_format("{baskets:%u}", part)) - cluster.server] = true;
    for (int i = 0; i < MASTERS; i++)
        CHECK(seen[i]);
    item_sell(seller, "phone", INVENTORY_BATCH, 100);
    item_sell(seller, "lamp", INVENTORY_BATCH, 100);
    put_in_force(seller, 1);
    struct txn *basket[3]; /* of one part */
    for (int i = 0, key = 0; i < 3; i++) {
        do
            basket[i] = txn_new(seller, harness_format("k%d", key++), "phone:1 lamp:1");
        while (key_part(basket[i]->transaction.id) != key_part(basket[0]->transaction.id));
    }
    const char *braced = tag_of(basket[0]);
    struct redis_server *from = of_key(braced), *to = &cluster.server[from == &cluster.server[0]];
    redis_cluster_begin_move(braced, from, to);
    CHECK_STATUS(txn_do(basket[0], TXN_MAKE), INVENTORY_OK);
    CHECK_INT(redis_cluster_move_keys(braced, from, to, 100), 3);
    CHECK_STATUS(txn_do(basket[1], TXN_MAKE), INVENTORY_OK);
    redis_cluster_end_move(&cluster, braced, to);
    CHECK_STATUS(txn_do(basket[2], TXN_MAKE), INVENTORY_OK);
    for (int i = 0; i < 3; i++)
        CHECK_STATUS(txn_do(basket[i], TXN_FIND), INVENTORY_OK);
    CHECK_INT(txns_recover(seller), 0);
    check_stock(seller, "phone", 97, 0, 3);
}

/* Nobody has the slots of a server that is gone. */
static bool is_on(const char *key, const struct redis_server *server) {
    const struct redis_server *owner = redis_cluster_of(&cluster, key);
    return owner == server || !owner;
}

/* A basket of the two items whose part of the journal is on that server, or on another one. */
static struct txn *basket_on(struct seller *seller, const char *lines, const struct redis_server *server,
                             bool there) {
    static int serial;
    struct txn *txn;
    do
        txn = txn_new(seller, harness_format("on%d", serial++), lines);
    while (is_on(tag_of(txn), server) != there);
    return txn;
}

static const char *item_not_on(const struct redis_server *server) {
    static int serial;
    const char *item;
    do
        item = harness_format("living%d", serial++);
    while (is_on(stock_key(item), server));
    return item;
}

/* A master dies for good that has a part of the journal. What is on the others is sold: by an instance that
 * had its locks before, and, in a new epoch, by one that starts after. When it is back it is told of the
 * epoch.
 */
static void test_master_gone(void) {
    struct seller *before = open_with_timeout(500);
    struct shop *shop = before->shop;
    struct redis_server *dies = of_key("{baskets:0}");
    for (int part = 1; dies == of_key("{baskets}"); part++) /* which has the record of the lock */
        dies = of_key(harness_format("{baskets:%d}", part));
    const char *items[] = {item_not_on(dies), item_not_on(dies)};
    const char *lines = harness_format("%s:1 %s:1", items[0], items[1]);
    for (int i = 0; i < 2; i++)
        item_sell(before, items[i], INVENTORY_BATCH, 10);
    put_in_force(before, 1);
    struct txn *living[] = {basket_on(before, lines, dies, false), basket_on(before, lines, dies, false)};
    struct txn *dead[] = {basket_on(before, lines, dies, true), basket_on(before, lines, dies, true)};
    CHECK_STATUS(txn_do(living[0], TXN_MAKE), INVENTORY_OK);
    redis_kill(dies);
    CHECK(heartbeat(before, 1));
    CHECK_STATUS(txn_do(living[1], TXN_MAKE), INVENTORY_OK);
    CHECK_STATUS(txn_do(dead[0], TXN_MAKE), INVENTORY_UNAVAILABLE);
    struct seller *after = seller_open_with(
        shop, &(struct seller_options){.url = redis_cluster_url(&cluster), .call_timeout_ms = 500});
    after->locked = true;
    seller_wait_up(after);
    int switched = 0;
    inventory_lock_epoch_switch(after->inventory, "x:", on_heartbeat, &switched);
    shop_wait(shop, heartbeat_answered, &switched, "the lock is switched");
    put_in_force(after, 2);
    CHECK_STATUS(txn_do(basket_on(after, lines, dies, false), TXN_MAKE), INVENTORY_OK);
    redis_restart(dies);
    shop_wait(shop, seller_is_whole, after, "the master is back");
    const char *epoch = harness_format("seckill:%s:epoch", tag_of(dead[1]));
    int64_t deadline_ms = harness_now_ms() + 30000;
    while (strcmp(redis_command(dies, "GET", epoch, NULL), "2") != 0) {
        heartbeat(after, 2);
        CHECK(harness_now_ms() < deadline_ms);
    }
    shop_wait(shop, seller_is_whole, before, "the master is back");
    CHECK_STATUS(txn_do(dead[1], TXN_MAKE), INVENTORY_STALE);
    CHECK_STATUS(txn_do(basket_on(after, lines, dies, true), TXN_MAKE), INVENTORY_OK);
    for (int i = 0; i < 2; i++)
        check_stock(after, items[i], 6, 0, 4);
    redis_kill(of_key("{baskets}")); /* nobody can tell any more who has grants */
    CHECK(!heartbeat(after, 2));
}

static struct redis_server *server_at(const struct seller *seller, int i) {
    int port = redis_address_now(router_server(seller->inventory->shared.store, i))->port, at = 0;
    while (cluster.server[at].port != port)
        at++;
    return &cluster.server[at];
}

static bool was_scanned(void *arg) {
    return strstr(redis_command(arg, "INFO", "commandstats", NULL), "cmdstat_scan:") != NULL;
}

struct counted {
    bool done;
    int64_t items;
};

static void on_counted(void *ctx, enum inventory_status status, const struct inventory_audit_sum *sum) {
    *(struct counted *)ctx = (struct counted){true, status == INVENTORY_OK ? sum->items : -1};
}

static bool is_counted(void *arg) {
    return ((struct counted *)arg)->done;
}

/* The audit's inventory sells nothing: so it meets no MOVED. */
static struct seller *open_auditor(struct shop *shop, const struct redis_cluster *of) {
    struct seller *auditor = seller_open_with(shop, &(struct seller_options){.url = redis_cluster_url(of)});
    shop_wait(shop, seller_is_whole, auditor, "all masters are there");
    return auditor;
}

static bool has_map(void *arg) {
    return router_has_map(((struct seller *)arg)->inventory->shared.store);
}

/* An item moves from a server that is to be scanned to one that was. */
static void test_audit_of_moves(void) {
    struct seller *other = open_with_timeout(20000), *seller = open_auditor(other->shop, &cluster);
    struct redis_server *first = server_at(seller, 0), *second = server_at(seller, 1),
                        *third = server_at(seller, 2);
    const char *item = item_not_on(first), *slot;
    while (of(item) != third)
        item = item_not_on(first);
    item_sell(other, item, INVENTORY_BATCH, 10);
    slot = harness_format("%d", redis_slot(stock_key(item), strlen(stock_key(item))));
    struct counted counted = {.done = false};
    inventory_audit_all(seller->inventory, on_counted, &counted);
    shop_wait(seller->shop, has_map, seller, "the map was read");
    redis_pause(second); /* which is not asked yet */
    shop_wait(seller->shop, was_scanned, first, "the first one was scanned");
    const char *id = redis_command(first, "CLUSTER", "MYID", NULL), *key = stock_key(item);
    redis_cluster_begin_move(key, third, first);
    redis_cluster_move_keys(key, third, first, 100);
    CHECK_STR(redis_command(first, "CLUSTER", "SETSLOT", slot, "NODE", id, NULL), "OK");
    CHECK_STR(redis_command(third, "CLUSTER", "SETSLOT", slot, "NODE", id, NULL), "OK");
    CHECK(seller_sells(other, item));
    redis_resume(second);
    redis_cluster_end_move(&cluster, key, first); /* this one may be asked for the map */
    shop_wait(seller->shop, is_counted, &counted, "all is audited");
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
    shop_wait(shop, is_counted, &counted, "all is audited");
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
    struct seller *seller = open_with_timeout(500);
    struct counted counted = {.done = false};
    harness_defer(let_tell, NULL);
    set_telling("-cluster");
    inventory_audit_all(seller->inventory, on_counted, &counted);
    shop_idle(seller->shop, 1500);
    CHECK(!counted.done);
    seller->shop->hurried_ms += 20000;
    shop_wait(seller->shop, is_counted, &counted, "the audit has ended");
    CHECK_INT(counted.items, -1);
    set_telling("+cluster");
}

int main(int argc, char **argv) {
    harness_begin(argc, argv);
    if (*harness_dir()) {
        redis_clock();
        redis_cluster_start(&cluster, MASTERS, 0);
    }
    harness_run("slots of keys", test_slots);
    run_each("on every server", test_everywhere, INVENTORY_LOCKED);
    run_each("a slot that moves", test_moves, INVENTORY_OPTIMISTIC);
    run_fenced("a slot that moves", test_moves);
    harness_run("an item whose keys are split", test_split);
    harness_run("items whose slot is split", test_split_items);
    harness_run("an item whose notes alone have moved", test_split_notes);
    run_each("slots that move under a crowd", test_moves_under_a_crowd, INVENTORY_LUA);
    run_fenced("slots that move under a crowd", test_moves_under_a_crowd);
    harness_run("a slot that nobody has", test_nobody);
    harness_run("a master is killed", test_failover);
    harness_run("optimistic: masters that are replaced", test_optimistic_failover);
    harness_run("baskets over several servers", test_transactions);
    harness_run("a journal that moves", test_journal_moves);
    harness_run("an item that moves while it is audited", test_audit_of_moves);
    harness_run("an item on a server that was added", test_audit_of_added);
    harness_run("an audit that nobody tells the map", test_audit_without_map);

    harness_run("a master that is gone", test_master_gone); /* the last: one stays so */
    return harness_finish();
}
