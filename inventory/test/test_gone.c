/* A seller dies together with the master. Those who live sell again, but not before a call of his would be
 * over if he lived after all; what they know of is put back whole without him, and what only he knew is lost.
 */
#include <stdlib.h>
#include <string.h>

#include "inventory/purchases/putback.h"
#include "inventory/test/told.h"
#include "inventory/transactions/transactions_internal.h"

/* LATE_MS is for a machine that is busy. */
enum { CALL_MS = 4000, REST_MS = CALL_MS + 2000, LATE_MS = 4000, HOLD_MS = 60000 };

static struct pair pair;
static struct told told, others;

static bool have_heartbeats(void *redis) {
    return redis_integer(redis, "ZCARD", "seckill:{sellers}:alive", NULL) == 2;
}

/* Two sellers at a pair whose replica gets nothing from now on. */
static void open_two(struct seller **seller, struct seller **gone) {
    redis_clock(); /* of servers that start after this */
    pair_start(&pair);
    struct shop *shop = shop_open();
    *seller = told_seller_within(shop, pair_url(&pair), CALL_MS, &told);
    *gone = told_seller_within(shop, pair_url(&pair), CALL_MS, &others);
    item_put_with(*seller, "seat", 3, 0, HOLD_MS);
    shop_wait(shop, have_heartbeats, &pair.master, "both have heartbeats");
    pair_cut(&pair);
}

static const struct history *last_history(const struct seller *seller) {
    const struct putback *putback = seller->inventory->purchases->putback;
    return putback->histories[putback->history_count - 1];
}

/* The master dies with the seller who is gone. Returns for how long the other one has not sold after it had
 * reached the new master, or a moment more. */
static int64_t lose(struct seller *seller, struct seller *gone) {
    seller_close(gone);
    pair_fail_over(&pair);
    seller_wait_down(seller);
    seller_hurry_up(seller);
    return clock_mono_ms(&seller->shop->clock) - last_history(seller)->reached_ms;
}

static void test_rest(void) {
    struct seller *seller, *gone;
    struct inventory_order order;
    open_two(&seller, &gone);
    struct buy *lost = buy(gone, "seat", "eve", "lost", 2), *kept = buy(seller, "seat", "ann", "kept", 1);
    CHECK_STATUS(lost->status, INVENTORY_OK);
    CHECK_STATUS(kept->status, INVENTORY_OK);
    int64_t rested_ms = lose(seller, gone);
    CHECK(rested_ms >= REST_MS);
    CHECK(rested_ms < REST_MS + LATE_MS);
    told_check(&told, 1, 0);
    CHECK_INT((int)told.metrics.unkept, 1);
    CHECK_STATUS(order_step(seller, kept->id, INVENTORY_CONFIRM, NULL), INVENTORY_OK);
    CHECK_STATUS(order_step(seller, lost->id, INVENTORY_READ, &order), INVENTORY_UNKNOWN_ORDER);
    CHECK_STATUS(buy(seller, "seat", "bob", "new", 2)->status, INVENTORY_OK);
    check_books(seller, &pair.replica, "seat", 0, 2, 1);
}

/* He had entered the item in the index of due times, and the replica has not got that. A hold of the other
 * one, which is put back, ends all the same. */
static void test_index(void) {
    struct seller *seller, *gone;
    open_two(&seller, &gone);
    CHECK_STATUS(buy(gone, "seat", "eve", "first", 1)->status, INVENTORY_OK);
    struct buy *kept = buy(seller, "seat", "ann", "kept", 1);
    CHECK_STATUS(kept->status, INVENTORY_OK);
    lose(seller, gone);
    told_check(&told, 1, 0);
    SHOP_UNTIL(seller->shop, holds_indexed(&pair.replica, "+inf") == 1, "the item is in the index");
    redis_clock()->ahead_ms += HOLD_MS + INVENTORY_HOLD_GRACE_MS;
    holds_sweep(seller, &pair.replica);
    check_books(seller, &pair.replica, "seat", 3, 0, 0);
}

/* He had put the item on sale, and the replica has not got that. An order of the other one cannot be written:
 * that is told and counted, and its buyer is told the truth. */
static void test_item(void) {
    struct seller *seller, *gone;
    struct inventory_order order;
    open_two(&seller, &gone);
    item_put_with(gone, "lamp", 3, 0, HOLD_MS);
    struct buy *lost = buy(seller, "lamp", "ann", "lost", 1), *kept = buy(seller, "seat", "ann", "kept", 1);
    CHECK_STATUS(lost->status, INVENTORY_OK);
    CHECK_STATUS(kept->status, INVENTORY_OK);
    lose(seller, gone);
    CHECK_INT(told.outcomes[INVENTORY_LOSS_UNKNOWN_ITEM], 1);
    CHECK_INT(told.outcomes[INVENTORY_LOSS_BACK], 1);
    CHECK_INT(told.outcomes[INVENTORY_LOSS_SHORT], 0);
    CHECK_INT((int)told.metrics.shortage, 1);
    CHECK_INT((int)told.metrics.put_back, 1);
    CHECK_STR(redis_command(&pair.replica, "KEYS", "seckill:{lamp}:*", NULL), "[]");
    CHECK_STATUS(order_step(seller, lost->id, INVENTORY_READ, &order), INVENTORY_UNKNOWN_ORDER);
    CHECK_STATUS(buy(seller, "lamp", "ann", "lost", 1)->status, INVENTORY_UNKNOWN_ITEM);
    check_books(seller, &pair.replica, "seat", 2, 1, 0);
}

static const struct {
    const char *name, *syncs;
    bool wiped;
    int unkept;
} restarts[] = {
    {"one Redis is restarted", "everysec", false, 1},
    {"one Redis is restarted that had synced each write", "always", false, 0},
    {"one Redis is restarted, and empty", "everysec", true, 1},
    /* What the disk has synced is not kept. */
    {"one Redis is restarted, and empty, that had synced each write", "always", true, 1},
};

/* One Redis that is restarted, and one of two sellers dies with it. What he acknowledged may be lost, unless
 * the disk had it; and also if the store has forgotten who lived. */
static void test_restarted(int i) {
    const char *syncs = restarts[i].syncs;
    struct redis_server redis;
    struct shop *shop = shop_open();
    redis_start(&redis, "--appendfsync", syncs, NULL);
    struct seller_options options = {.port = redis.port, .call_timeout_ms = CALL_MS};
    struct seller *seller = told_seller_open_with(shop, &options, &told),
                  *gone = told_seller_open_with(shop, &options, &others);
    shop_wait(shop, have_heartbeats, &redis, "both have heartbeats");
    if (strcmp(syncs, "always") == 0)
        SHOP_UNTIL(shop, seller->inventory->purchases->putback->receipts.histories[0].synced,
                   "it knows that writes are synced");
    seller_close(gone);
    redis_kill(&redis);
    seller_wait_down(seller);
    if (restarts[i].wiped)
        redis_wipe(&redis);
    redis_restart(&redis);
    seller_hurry_up(seller);
    CHECK_INT((int)told.metrics.unkept, restarts[i].unkept);
}

struct beaten {
    const struct seller *seller;
    int64_t since_ms;
};

static bool has_beaten_since(void *arg) {
    const struct beaten *beaten = arg;
    return beaten->seller->inventory->purchases->heartbeat_ms > beaten->since_ms;
}

static void beat_again(struct seller *seller) {
    struct beaten beaten = {seller, seller->inventory->purchases->heartbeat_ms};
    seller->shop->hurried_ms += 2000; /* a heartbeat is due */
    shop_wait(seller->shop, has_beaten_since, &beaten, "it has a newer one");
}

static const struct {
    const char *name;
    bool older, newcomer;
} snapshots[] = {
    {"one Redis goes on from an older snapshot", true, false},
    {"one Redis goes on from an older snapshot, and one starts", true,
     true}, /* and tells that others lived */
    {"one Redis goes on from its newest snapshot", false, false},
};

/* Without an append-only file it goes on from its last snapshot, and what was acknowledged since then, and is
 * not kept any more, is lost. All sellers live. */
static void test_snapshot(int i) {
    const bool older = snapshots[i].older;
    struct redis_server redis;
    redis_clock(); /* of servers that start after this */
    redis_start(&redis, "--appendonly", "no", NULL);
    struct proxy *way = proxy_start(redis.port);
    struct seller *seller =
        told_seller_open(shop_open(), harness_format("redis://127.0.0.1:%d", proxy_port(way)), &told);
    SHOP_UNTIL(seller->shop, has_beaten_since(&(struct beaten){seller, 0}), "it has a heartbeat");
    CHECK_STR(redis_command(&redis, "SAVE", NULL), "OK");
    redis_clock()->ahead_ms += 10000;
    beat_again(seller);
    if (!older)
        CHECK_STR(redis_command(&redis, "SAVE", NULL), "OK");
    proxy_set(way, PROXY_REFUSE, 0, NULL);
    redis_kill(&redis);
    seller_wait_down(seller);
    redis_restart(&redis);
    if (snapshots[i].newcomer)
        told_seller_on(seller->shop, &redis, &others);
    proxy_set(way, PROXY_PASS, 0, NULL);
    seller_hurry_up(seller);
    beat_again(seller);
    CHECK_INT((int)told.metrics.unkept, older);
}

/* One that ends in order while the store is away cannot tell it. It is taken for dead. */
static void test_ends_while_away(void) {
    struct seller *seller, *gone;
    open_two(&seller, &gone);
    proxy_set(pair.front, PROXY_REFUSE, 0, NULL);
    seller_wait_down(gone);
    seller_wait_down(seller);
    told_open(gone);
    seller_close(gone);
    pair_fail_over(&pair);
    proxy_set(pair.front, PROXY_PASS, 0, NULL);
    seller_hurry_up(seller);
    CHECK(clock_mono_ms(&seller->shop->clock) - last_history(seller)->reached_ms >= REST_MS);
    CHECK_INT((int)told.metrics.unkept, 1);
}

/* ---- one that starts ---- */

/* It cannot know who lived before, and waits for as long as any of them may need. */
static void start_at(const struct redis_server *master) {
    struct seller *seller = told_seller_open_with(
        shop_open(), &(struct seller_options){.port = master->port, .call_timeout_ms = CALL_MS}, &told);
    CHECK(clock_mono_ms(&seller->shop->clock) - last_history(seller)->reached_ms >= REST_MS);
    CHECK_INT((int)told.metrics.unkept, 0);
}

static void test_starts_at_promoted(void) {
    pair_start(&pair);
    pair_fail_over(&pair);
    start_at(&pair.replica);
}

/* The copy for the replica may still be under way. */
static bool saves(void *redis) {
    return strcmp(redis_command(redis, "SAVE", NULL), "OK") == 0;
}

static void test_starts_at_snapshot(void) {
    struct redis_server redis, replica;
    redis_start(&redis, "--appendonly", "no", NULL);
    redis_start_replica(&replica, &redis);
    CHECK(harness_wait(saves, &redis, 10000));
    redis_kill(&redis);
    redis_restart(&redis);
    start_at(&redis);
}

/* ---- with --replicas 1 ---- */

static long long copied_before;

/* A replica is promoted, and the seller who died had his last order on one replica. If there were two, it may
 * be the other one. */
static void test_one_promoted(int replicas) {
    struct redis_server second;
    struct seller_options options = {.call_timeout_ms = CALL_MS, .replicas = 1};
    pair_start(&pair);
    options.url = pair_url(&pair);
    struct seller *seller = told_seller_open_with(shop_open(), &options, &told),
                  *gone = told_seller_open_with(seller->shop, &options, &others);
    item_put_with(seller, "seat", 3, 0, HOLD_MS);
    shop_wait(seller->shop, have_heartbeats, &pair.replica, "both have heartbeats");
    if (replicas == 2) {
        redis_start_replica(&second, &pair.master);
        SHOP_UNTIL(seller->shop, seller->inventory->purchases->putback->histories[0]->replicas == 2,
                   "both replicas are known");
        pair_cut(&pair);
    }
    CHECK_STATUS(buy(gone, "seat", "eve", "k", 1)->status, INVENTORY_OK);
    seller_close(gone);
    pair_fail_over(&pair);
    if (replicas == 2)
        CHECK_STR(
            redis_command(&second, "REPLICAOF", "127.0.0.1", harness_format("%d", pair.replica.port), NULL),
            "OK");
    else
        redis_start_replica(&second, &pair.replica);
    seller_wait_down(seller);
    seller_hurry_up(seller);
    CHECK_INT((int)told.metrics.unkept, replicas - 1);
    check_books(seller, &pair.replica, "seat", 3 - (replicas == 1), replicas == 1, 0);
}

static bool is_copied(void *arg) {
    const struct seller *seller = arg;
    const struct history *history = seller->inventory->purchases->putback->histories[0];
    return history->copied_offset > copied_before;
}

/* The master goes on from a snapshot before it is replaced. It looks like one that was promoted. */
static void test_master_older(void) {
    struct redis_server redis, replica;
    redis_start(&redis, "--appendonly", "no", NULL);
    redis_start_replica(&replica, &redis);
    struct shop *shop = shop_open();
    struct seller_options options = {.port = redis.port, .call_timeout_ms = CALL_MS, .replicas = 1};
    struct seller *seller = told_seller_open_with(shop, &options, &told),
                  *gone = told_seller_open_with(shop, &options, &others);
    item_put_with(seller, "seat", 3, 0, HOLD_MS);
    shop_wait(shop, have_heartbeats, &redis, "both have heartbeats");
    CHECK(harness_wait(saves, &redis, 10000));
    CHECK_STATUS(buy(gone, "seat", "eve", "k", 1)->status, INVENTORY_OK);
    copied_before =
        strtoll(strstr(redis_command(&redis, "INFO", "replication", NULL), "master_repl_offset:") +
                    strlen("master_repl_offset:"),
                NULL, 10);
    shop_wait(shop, is_copied, seller, "the replica has it");
    seller_close(gone);
    redis_kill(&redis);
    seller_wait_down(seller);
    redis_restart(&redis);
    seller_hurry_up(seller);
    CHECK_INT((int)told.metrics.unkept, 1);
}

/* The master comes back empty before it is replaced, and its replica copies that. */
static void test_master_empty(void) {
    pair_start(&pair);
    struct seller *seller = told_seller_open_with(
        shop_open(),
        &(struct seller_options){.url = pair_url(&pair), .call_timeout_ms = CALL_MS, .replicas = 1}, &told);
    SHOP_UNTIL(seller->shop, has_beaten_since(&(struct beaten){seller, 0}), "it has a heartbeat");
    redis_kill(&pair.master);
    seller_wait_down(seller);
    redis_wipe(&pair.master);
    redis_restart(&pair.master);
    seller_hurry_up(seller);
    CHECK_INT((int)told.metrics.unkept, 1);
}

int main(int argc, char **argv) {
    harness_begin(argc, argv);
    harness_run("the others rest, and sell", test_rest);
    harness_run("the index of due times", test_index);
    harness_run("an item that is gone with its maker", test_item);
    for (int i = 0; i < (int)(sizeof restarts / sizeof *restarts); i++)
        run_case(restarts[i].name, test_restarted, i);
    for (int i = 0; i < (int)(sizeof snapshots / sizeof *snapshots); i++)
        run_case(snapshots[i].name, test_snapshot, i);
    harness_run("one ends while the store is away", test_ends_while_away);
    harness_run("one starts at a master that was promoted", test_starts_at_promoted);
    harness_run("one starts at a master that goes on from a snapshot", test_starts_at_snapshot);
    run_case("--replicas 1, and one was promoted", test_one_promoted, 1);
    run_case("--replicas 1, and one of two was promoted", test_one_promoted, 2);
    harness_run("--replicas 1, and the master goes on from a snapshot", test_master_older);
    harness_run("--replicas 1, and the master comes back empty", test_master_empty);
    return harness_finish();
}
