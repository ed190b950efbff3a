/* Baskets over several masters of a Redis Cluster: what they answer, a journal whose slots move, and a master
 * with a part of it that is gone. */
#include <string.h>

#include "inventory/test/transactions.h"
#include "inventory/transactions.h"
#include "inventory/transactions/transactions_internal.h"

enum { MASTERS = 3 };

static struct redis_cluster cluster;

/* 0: the fixture's time-out. */
static struct seller *open_seller(int call_timeout_ms) {
    redis_cluster_flush(&cluster);
    struct seller *seller =
        seller_open_with(shop_open(), &(struct seller_options){.url = redis_cluster_url(&cluster),
                                                               .call_timeout_ms = call_timeout_ms,
                                                               .resolve_ms = call_timeout_ms});
    seller->locked = true;
    seller_wait_whole(seller);
    return seller;
}

static struct redis_server *of_key(const char *key) {
    struct redis_server *server = redis_cluster_of(&cluster, key);
    CHECK(server);
    return server;
}

static const char *tag_of(const struct txn *txn) {
    return harness_format("{baskets:%u}", key_part(txn->transaction.id));
}

static void test_transactions(void) {
    struct seller *seller = open_seller(0);
    seller->fence = 5;
    const char *const items[] = {"phone", "lamp", "chair"};
    for (int i = 0; i < 3; i++)
        item_sell(seller, items[i], INVENTORY_BATCH, 10);
    struct txn *basket = txn_new(seller, "k1", "phone:1 lamp:2 chair:3");
    CHECK_STATUS(txn_do(basket, TXN_CHECK), INVENTORY_WANTS_LOCK);
    CHECK_STATUS(txn_do(basket, TXN_MAKE), INVENTORY_OK);
    CHECK_STATUS(txn_do(txn_new(seller, "k1", "phone:1 lamp:2 chair:3"), TXN_MAKE), INVENTORY_REPLAYED);
    CHECK_STATUS(txn_do(txn_new(seller, "k2", "phone:1 lamp:20"), TXN_MAKE), INVENTORY_SOLD_OUT);
    struct txn *held = txn_new(seller, "k3", "phone:1 held:1");
    item_put_with(seller, "held", 10, 0, 60000);
    CHECK_STATUS(txn_do(held, TXN_MAKE), INVENTORY_OK);
    CHECK_STATUS(txn_do(held, TXN_CONFIRM), INVENTORY_OK);
    CHECK_STATUS(txn_make(seller, "t", "lamp:1 phone:1"), INVENTORY_OK);
    way = AT_ONCE;
    enum inventory_status at_once = txn_make(seller, "k4", "phone:1 lamp:1"),
                          of_one = txn_make(seller, "k4", "phone:1"); /* the journal has its own slots */
    way = IN_STEPS;
    CHECK_STATUS(at_once, INVENTORY_CROSS_SLOT);
    CHECK_STATUS(of_one, INVENTORY_CROSS_SLOT);
    item_check_audit(seller, "phone", 9, 0, 2);
    item_check_audit(seller, "lamp", 7, 0, 2);
    item_check_audit(seller, "chair", 7, 0, 3);
    item_check_audit(seller, "held", 9, 0, 1);
}

static void on_heartbeat(void *ctx, enum inventory_status status, const struct inventory_lock_epoch *epoch) {
    int *answer = ctx;
    *answer = status == INVENTORY_OK && epoch->in_force ? 2 : 1;
}

/* As instance "a", whose lock is always the same. True: the epoch is in force. */
static bool heartbeat(struct seller *seller, uint64_t epoch) {
    struct inventory_heartbeat heartbeat = {.instance = "a", .epoch = epoch, .lock = "x:", .quiet_ms = 1000};
    int answer = 0;
    inventory_lock_epoch_heartbeat(seller->inventory, &heartbeat, on_heartbeat, &answer);
    SHOP_UNTIL(seller->shop, answer > 0, "a heartbeat is answered");
    return answer == 2;
}

/* As an instance does when it starts: from then on all keys of the journal exist. */
static void put_in_force(struct seller *seller, uint64_t epoch) {
    heartbeat(seller, 0);
    SHOP_UNTIL(seller->shop, heartbeat(seller, epoch), "the epoch is in force");
    seller->epoch = epoch;
    seller->fence = 5;
}

/* The journal is on all servers. Where a slot of it moves, baskets go on, whatever of its keys is where. */
static void test_journal_moves(void) {
    bool seen[MASTERS] = {false};
    struct seller *seller = open_seller(0);
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
    item_check_audit(seller, "phone", 97, 0, 3);
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

/* A master dies for good that has a part of the journal. What is on the others is sold: by an instance that
 * had its locks before, and, in a new epoch, by one that starts after. When it is back it is told of the
 * epoch.
 */
static void test_master_gone(void) {
    struct seller *before = open_seller(500);
    struct shop *shop = before->shop;
    struct redis_server *dies = of_key("{baskets:0}");
    for (int part = 1; dies == of_key("{baskets}"); part++) /* which has the record of the lock */
        dies = of_key(harness_format("{baskets:%d}", part));
    const char *items[] = {item_elsewhere(&cluster, dies), item_elsewhere(&cluster, dies)};
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
    SHOP_UNTIL(shop, switched > 0, "the lock is switched");
    put_in_force(after, 2);
    CHECK_STATUS(txn_do(basket_on(after, lines, dies, false), TXN_MAKE), INVENTORY_OK);
    redis_restart(dies);
    seller_wait_whole(after);
    const char *epoch = harness_format("seckill:%s:epoch", tag_of(dead[1]));
    SHOP_UNTIL(shop, heartbeat(after, 2) && strcmp(redis_command(dies, "GET", epoch, NULL), "2") == 0,
               "it is told of the epoch");
    seller_wait_whole(before);
    CHECK_STATUS(txn_do(dead[1], TXN_MAKE), INVENTORY_STALE);
    CHECK_STATUS(txn_do(basket_on(after, lines, dies, true), TXN_MAKE), INVENTORY_OK);
    for (int i = 0; i < 2; i++)
        item_check_audit(after, items[i], 6, 0, 4);
    redis_kill(of_key("{baskets}")); /* nobody can tell any more who has grants */
    CHECK(!heartbeat(after, 2));
}

int main(int argc, char **argv) {
    harness_begin(argc, argv);
    if (*harness_dir())
        redis_cluster_start(&cluster, MASTERS, 0);
    harness_run("baskets over several servers", test_transactions);
    harness_run("a journal that moves", test_journal_moves);
    harness_run("a master that is gone", test_master_gone); /* the last: one stays so */
    return harness_finish();
}
