/* Masters of a cluster that are replaced, or gone for good: what was sold there is lost then, and that is
 * told; and one that was emptied first. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "inventory/test/fixture.h"
#include "inventory/transactions/transactions_internal.h"

enum { MASTERS = 3 };

/* A seller at three masters. */
static struct seller *open_cluster(struct redis_cluster *cluster, int replicas, int call_timeout_ms) {
    redis_cluster_start(cluster, MASTERS, replicas);
    struct seller *seller =
        seller_open_with(shop_open(), &(struct seller_options){.url = redis_cluster_url(cluster),
                                                               .call_timeout_ms = call_timeout_ms,
                                                               .resolve_ms = call_timeout_ms});
    seller_wait_whole(seller);
    return seller;
}

/* ---- replaced ---- */

/* A master is killed: its items are sold again when its replica is master, and those of others all the time.
 */
static void test_failover(void) {
    struct redis_cluster pairs;
    struct seller *seller = open_cluster(&pairs, 1, 1000);
    struct redis_server *dies = redis_cluster_of(&pairs, stock_key("phone"));
    const char *other = item_elsewhere(&pairs, dies);
    item_sell(seller, "phone", INVENTORY_BATCH, 100000);
    item_sell(seller, other, INVENTORY_BATCH, 100000);
    CHECK(seller_sells(seller, "phone") && seller_sells(seller, other));
    redis_wait_copied(dies, dies + MASTERS);
    redis_kill(dies);
    CHECK(!seller_sells(seller, "phone"));
    SHOP_UNTIL(seller->shop, !seller_sells(seller, other) || seller_sells(seller, "phone"), "it is replaced");
    CHECK(seller_sells(seller, other));
    long long sold =
        redis_integer(redis_cluster_of(&pairs, stock_key("phone")), "HGET", stock_key("phone"), "sold", NULL);
    item_check_audit(seller, "phone", 100000 - sold, 0, sold);
    redis_restart(dies); /* as a replica of its replica */
    for (int i = 0; i < 200; i++) {
        CHECK(seller_sells(seller, "phone"));
        shop_turn(seller->shop);
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

static bool is_readable(struct seller *seller) {
    struct inventory_item read;
    return item_reader(seller, "phone", &read) == INVENTORY_OK;
}

/* A master is replaced that lives on, and then its successor, which stands still: no connection of
 * `optimistic` stays with them, and none is used before it is there. */
static void test_optimistic_failover(void) {
    struct redis_cluster pairs;
    struct seller *seller = open_cluster(&pairs, 1, 1000);
    struct redis_server *first = redis_cluster_of(&pairs, stock_key("phone")), *second = first + MASTERS;
    item_sell(seller, "phone", INVENTORY_OPTIMISTIC, 1000);
    buy_forty(seller, "a");
    fail_over(seller->shop, first, second);
    SHOP_UNTIL(seller->shop, is_readable(seller), "it has a successor");
    buy_forty(seller, "b");
    redis_wait_copied(second, first);
    redis_pause(second);
    SHOP_UNTIL(seller->shop, !is_readable(seller), "it does not answer");
    CHECK_STR(redis_command(first, "CLUSTER", "FAILOVER", "TAKEOVER", NULL), "OK");
    SHOP_UNTIL(seller->shop, is_readable(seller), "it has a successor");
    buy_forty(seller, "c");
    redis_resume(second);
    item_check_audit(seller, "phone", 880, 0, 120);
}

/* ---- gone ---- */

struct forgotten {
    struct redis_cluster three;
    struct seller *seller;
    struct redis_server *lives;
    const char *other;      /* its item */
    char first[8], last[8]; /* slots of the one that is forgotten */
};

static void read_slots(struct forgotten *forgotten, const struct redis_server *server) {
    const char *line = strstr(redis_command(server, "CLUSTER", "NODES", NULL), "myself");
    int end = 0;
    CHECK(line != NULL);
    CHECK_INT(
        sscanf(line, "%*s %*s %*s %*s %*s %*s %7[0-9]-%7[0-9]%n", forgotten->first, forgotten->last, &end),
        2);
}

static long long maps_told(struct redis_cluster *by) {
    long long told = 0;
    for (int i = 0; i < by->count; i++) {
        const char *calls = proc_running(&by->server[i].proc)
                                ? strstr(redis_command(&by->server[i], "INFO", "commandstats", NULL),
                                         "cmdstat_cluster|slots:calls=")
                                : NULL;
        told += calls ? strtoll(strchr(calls, '=') + 1, NULL, 10) : 0;
    }
    return told;
}

struct maps {
    struct redis_cluster *by;
    long long most;
};

static bool has_map_since(void *arg) {
    const struct maps *maps = arg;
    return maps_told(maps->by) > maps->most;
}

/* The master that sells phones is dead, and the seller knows it. */
static void wait_known_dead(struct seller *seller, struct redis_cluster *three) {
    SHOP_UNTIL(seller->shop, router_is_gone(seller->inventory->shared.store, stock_key("phone")),
               "its connection is lost");
    shop_wait(seller->shop, has_map_since, &(struct maps){three, maps_told(three) + 1},
              "a map names it still");
}

/* A master that sold phones is gone for good, and was forgotten. */
static struct forgotten *forget_master(void) {
    struct forgotten *forgotten = harness_alloc(sizeof *forgotten);
    struct redis_cluster *three = &forgotten->three;
    struct seller *seller = forgotten->seller = open_cluster(three, 0, 500);
    struct redis_server *dies = redis_cluster_of(three, stock_key("phone"));
    const char *other = forgotten->other = item_elsewhere(three, dies),
               *id = redis_command(dies, "CLUSTER", "MYID", NULL);
    forgotten->lives = redis_cluster_of(three, stock_key(other));
    item_sell(seller, "phone", INVENTORY_BATCH, 10);
    item_sell(seller, other, INVENTORY_BATCH, 10);
    CHECK(seller_sells(seller, "phone") && seller_sells(seller, other));
    read_slots(forgotten, dies);
    redis_kill(dies);
    wait_known_dead(seller, three);
    for (int i = 0; i < MASTERS; i++)
        if (&three->server[i] != dies)
            CHECK_STR(redis_command(&three->server[i], "CLUSTER", "FORGET", id, NULL), "OK");
    return forgotten;
}

/* Nobody has its slots, and what was sold there can be shown to nobody. Another master that is restarted
 * sells all the same, and it is told that something may be lost. */
static void test_master_forgotten(void) {
    struct forgotten *forgotten = forget_master();
    struct seller *seller = forgotten->seller;
    redis_kill(forgotten->lives);
    CHECK(!seller_sells(seller, forgotten->other));
    redis_restart(forgotten->lives);
    SHOP_UNTIL(seller->shop, seller_sells(seller, forgotten->other), "it is sold");
    CHECK(seller->inventory->shared.metrics->unkept > 0);
}

static bool has_unkept(void *arg) {
    struct seller *seller = arg;
    seller->shop->hurried_ms += 100;
    return seller->inventory->shared.metrics->unkept > 0;
}

/* Another one gets its slots: what was sold there is lost, and it is told. */
static void test_slots_given_away(void) {
    struct forgotten *forgotten = forget_master();
    struct seller *seller = forgotten->seller;
    CHECK_STR(
        redis_command(forgotten->lives, "CLUSTER", "ADDSLOTSRANGE", forgotten->first, forgotten->last, NULL),
        "OK");
    shop_wait(seller->shop, has_unkept, seller, "it is told");
    CHECK(seller_sells(seller, forgotten->other));
    CHECK_STATUS(buy(seller, "phone", "ann", "again", 1)->status, INVENTORY_UNKNOWN_ITEM);
    CHECK_INT(seller->inventory->shared.metrics->unkept, 1);
}

/* A master comes back at another address, with all that it had. Nothing is lost, but an instance cannot know
 * that, and tells it like a loss. */
static void test_another_address(void) {
    struct redis_cluster three;
    struct redis_server moved;
    struct seller *seller = open_cluster(&three, 0, 500);
    item_sell(seller, "phone", INVENTORY_BATCH, 10);
    CHECK_STATUS(buy(seller, "phone", "ann", "before", 1)->status, INVENTORY_OK);
    struct redis_server *was = redis_cluster_of(&three, stock_key("phone"));
    redis_stop(was);
    wait_known_dead(seller, &three);
    redis_start(&moved, "--dir", was->dir, "--cluster-enabled", "yes", "--cluster-port",
                harness_format("%d", harness_free_port()), "--cluster-node-timeout", "1500", NULL);
    shop_wait(seller->shop, has_unkept, seller, "it is told");
    SHOP_UNTIL(seller->shop, seller_sells(seller, "phone"), "it is sold");
    CHECK_STATUS(buy(seller, "phone", "ann", "before", 1)->status, INVENTORY_REPLAYED);
}

static bool has_one_server(void *arg) {
    struct seller *seller = arg;
    seller->shop->hurried_ms += 100;
    return router_servers(seller->inventory->shared.store) == 1;
}

/* A master gives its slots away, of which this instance does not hear, and ends: nothing is lost. */
static void test_emptied(void) {
    struct redis_cluster grows;
    redis_cluster_start(&grows, 1, 0);
    struct redis_server *first = &grows.server[0], *added = redis_cluster_add(&grows);
    redis_cluster_begin_move(stock_key("phone"), first, added);
    redis_cluster_end_move(&grows, stock_key("phone"), added);
    struct seller *seller = seller_open_with(
        shop_open(), &(struct seller_options){.url = redis_cluster_url(&grows), .call_timeout_ms = 500});
    seller_wait_whole(seller);
    item_sell(seller, "phone", INVENTORY_BATCH, 10);
    CHECK(seller_sells(seller, "phone"));
    redis_cluster_begin_move(stock_key("phone"), added, first);
    redis_cluster_move_keys(stock_key("phone"), added, first, 100);
    redis_cluster_end_move(&grows, stock_key("phone"), first);
    redis_stop(added);
    shop_wait(seller->shop, has_one_server, seller, "its connection is closed");
    CHECK(seller_sells(seller, "phone"));
    CHECK_INT(seller->inventory->shared.metrics->unkept, 0);
}

int main(int argc, char **argv) {
    harness_begin(argc, argv);
    harness_run("a master is killed", test_failover);
    harness_run("optimistic: masters that are replaced", test_optimistic_failover);
    harness_run("a master that was forgotten", test_master_forgotten);
    harness_run("slots of a master that is gone are given away", test_slots_given_away);
    harness_run("a master that comes back at another address", test_another_address);
    harness_run("a master that gave its slots away", test_emptied);
    return harness_finish();
}
