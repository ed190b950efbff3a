/* Masters of a cluster that are gone for good: what was sold there is lost, and that is told; and one that
 * was emptied first. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "inventory/layers.h"
#include "inventory/test/fixture.h"

enum { MASTERS = 3 };

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

static bool knows_of_death(void *arg) {
    return router_is_gone(((struct seller *)arg)->inventory->shared.store, stock_key("phone"));
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

/* A seller at three masters, which reads a map each half a second. */
static struct seller *open_three(struct redis_cluster *three) {
    redis_cluster_start(three, MASTERS, 0);
    struct seller *seller = seller_open_with(
        shop_open(),
        &(struct seller_options){.url = redis_cluster_url(three), .call_timeout_ms = 500, .resolve_ms = 500});
    seller_wait_up(seller);
    shop_wait(seller->shop, seller_is_whole, seller, "all masters are there");
    return seller;
}

/* The master that sells phones is dead, and the seller knows it. */
static void wait_known_dead(struct seller *seller, struct redis_cluster *three) {
    shop_wait(seller->shop, knows_of_death, seller, "its connection is lost");
    shop_wait(seller->shop, has_map_since, &(struct maps){three, maps_told(three) + 1},
              "a map names it still");
}

/* A master that sold phones is gone for good, and was forgotten. */
static struct forgotten *forget_master(void) {
    struct forgotten *forgotten = harness_alloc(sizeof *forgotten);
    struct redis_cluster *three = &forgotten->three;
    struct seller *seller = forgotten->seller = open_three(three);
    struct redis_server *dies = redis_cluster_of(three, stock_key("phone"));
    const char *other = "lamp", *id = redis_command(dies, "CLUSTER", "MYID", NULL);
    for (int i = 0; (forgotten->lives = redis_cluster_of(three, stock_key(other))) == dies; i++)
        other = harness_format("lamp%d", i);
    forgotten->other = other;
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

static void wait_until_sold(struct seller *seller, const char *item) {
    int64_t deadline_ms = harness_now_ms() + 30000;
    while (!seller_sells(seller, item)) {
        CHECK(harness_now_ms() < deadline_ms);
        shop_idle(seller->shop, 5);
    }
}

/* Nobody has its slots, and what was sold there can be shown to nobody. Another master that is restarted
 * sells all the same, and it is told that something may be lost. */
static void test_master_forgotten(void) {
    struct forgotten *forgotten = forget_master();
    struct seller *seller = forgotten->seller;
    redis_kill(forgotten->lives);
    CHECK(!seller_sells(seller, forgotten->other));
    redis_restart(forgotten->lives);
    wait_until_sold(seller, forgotten->other);
    CHECK(inventory_metrics_read(seller->inventory)->unkept > 0);
}

static bool has_unkept(void *arg) {
    struct seller *seller = arg;
    seller->shop->hurried_ms += 100;
    return inventory_metrics_read(seller->inventory)->unkept > 0;
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
    CHECK_INT(inventory_metrics_read(seller->inventory)->unkept, 1);
}

/* A master comes back at another address, with all that it had. Nothing is lost, but an instance cannot know
 * that, and tells it like a loss. */
static void test_another_address(void) {
    struct redis_cluster three;
    struct redis_server moved;
    struct seller *seller = open_three(&three);
    item_sell(seller, "phone", INVENTORY_BATCH, 10);
    CHECK_STATUS(buy(seller, "phone", "ann", "before", 1)->status, INVENTORY_OK);
    struct redis_server *was = redis_cluster_of(&three, stock_key("phone"));
    redis_stop(was);
    wait_known_dead(seller, &three);
    redis_start(&moved, "--dir", was->dir, "--cluster-enabled", "yes", "--cluster-port",
                harness_format("%d", harness_free_port()), "--cluster-node-timeout", "1500", NULL);
    shop_wait(seller->shop, has_unkept, seller, "it is told");
    wait_until_sold(seller, "phone");
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
    shop_wait(seller->shop, seller_is_whole, seller, "all masters are there");
    item_sell(seller, "phone", INVENTORY_BATCH, 10);
    CHECK(seller_sells(seller, "phone"));
    redis_cluster_begin_move(stock_key("phone"), added, first);
    redis_cluster_move_keys(stock_key("phone"), added, first, 100);
    redis_cluster_end_move(&grows, stock_key("phone"), first);
    redis_stop(added);
    shop_wait(seller->shop, has_one_server, seller, "its connection is closed");
    CHECK(seller_sells(seller, "phone"));
    CHECK_INT(inventory_metrics_read(seller->inventory)->unkept, 0);
}

int main(int argc, char **argv) {
    harness_begin(argc, argv);
    harness_run("a master that was forgotten", test_master_forgotten);
    harness_run("slots of a master that is gone are given away", test_slots_given_away);
    harness_run("a master that comes back at another address", test_another_address);
    harness_run("a master that gave its slots away", test_emptied);
    return harness_finish();
}
