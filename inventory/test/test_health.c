/* What inventory_health_read() says of a store, and what is sold meanwhile. */
#include <glob.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "inventory/test/fake_cluster.h"
#include "inventory/test/fixture.h"
#include "inventory/transactions/transactions_internal.h"

enum { MASTERS = 3 };

static struct redis_cluster cluster;

static void set(const struct redis_server *store, const char *name, const char *value) {
    CHECK_STR(redis_command(store, "CONFIG", "SET", name, value, NULL), "OK");
}

static bool is_well(void *seller) {
    struct inventory_health health;
    store_health(seller, &health);
    return health.ready && !health.reason[0];
}

static void wait_well(struct seller *seller) {
    shop_wait(seller->shop, is_well, seller, "the store is well");
}

/* ---- one server ---- */

static void check_health(struct seller *seller, bool ready, const char *reason, const char *appendonly,
                         const char *appendfsync, const char *eviction) {
    struct inventory_health health;
    store_health(seller, &health);
    CHECK_STR(health.appendonly, appendonly);
    CHECK_STR(health.appendfsync, appendfsync);
    CHECK_STR(health.eviction, eviction);
    CHECK_INT(health.ready, ready);
    CHECK_HAS(health.reason, reason);
    CHECK_INT(health.reason[0] == '\0', ready);
    CHECK(strtol(health.version, NULL, 10) >= 6);
}

static void test_one(void) {
    struct redis_server store, replica;
    redis_start(&store, NULL);
    struct shop *shop = shop_open();
    struct seller *seller = seller_open(shop, &store);
    check_health(seller, true, "", "yes", "no", "noeviction");
    set(&store, "appendfsync", "everysec");
    check_health(seller, true, "", "yes", "everysec", "noeviction");
    set(&store, "appendonly", "no");
    check_health(seller, true, "", "no", "everysec", "noeviction");
    set(&store, "maxmemory", "1gb");
    check_health(seller, true, "", "no", "everysec", "noeviction");
    set(&store, "maxmemory-policy", "allkeys-lru");
    check_health(seller, false, "evict", "no", "everysec", "allkeys-lru");
    set(&store, "maxmemory", "0"); /* without a limit nothing is evicted */
    check_health(seller, true, "", "no", "everysec", "allkeys-lru");
    set(&store, "min-replicas-to-write", "1");
    check_health(seller, false, "the store has no good replica, and min-replicas-to-write needs one", "no",
                 "everysec", "allkeys-lru");
    set(&store, "min-replicas-to-write", "0");
    redis_start_replica(&replica, &store);
    struct seller *other = seller_open(shop, &replica);
    check_health(other, false, "replica", "yes", "no", "noeviction");
    check_health(seller, true, "", "no", "everysec", "allkeys-lru");
}

static bool has_good_replica(void *store) {
    return strstr(redis_command(store, "INFO", "replication", NULL), "min_slaves_good_slaves:1") != NULL;
}

/* The child that sent the replica its copy may live on for a moment, so the snapshot is asked for again. */
static bool fails_to_save(void *store) {
    redis_command(store, "BGSAVE", NULL);
    return strstr(redis_command(store, "INFO", "persistence", NULL), "rdb_last_bgsave_status:err") != NULL;
}

/* Writes are refused, and the store is said to be ready all the same: docs/sell.md says so. */
static void test_not_seen(void) {
    struct redis_server store, replica;
    redis_start(&store, "--save", "3600 1", "--dbfilename", "snapshot", NULL);
    redis_start_replica(&replica, &store);
    struct seller *seller = seller_open(shop_open(), &store);
    item_sell(seller, "phone", INVENTORY_BATCH, 10);
    set(&store, "min-replicas-to-write", "2");
    CHECK(harness_wait(has_good_replica, &store, 20000));
    CHECK_STATUS(buy(seller, "phone", "ann", "k", 1)->status, INVENTORY_UNAVAILABLE);
    CHECK_HAS(inventory_last_error(seller->inventory), "NOREPLICAS");
    check_health(seller, true, "", "yes", "no", "noeviction");
    set(&store, "min-replicas-to-write", "0");
    unlink(harness_format("%s/snapshot", store.dir));
    CHECK_INT(mkdir(harness_format("%s/snapshot", store.dir), 0700), 0);
    CHECK(harness_wait(fails_to_save, &store, 20000));
    CHECK_STATUS(buy(seller, "phone", "ann", "k", 1)->status, INVENTORY_UNAVAILABLE);
    CHECK_HAS(inventory_last_error(seller->inventory), "MISCONF");
    check_health(seller, true, "", "yes", "no", "noeviction");
}

/* ---- a disk that is full ---- */

/* No file of the server may grow any more: its next write of some bytes fails, as on a disk that is full. */
static void fill_disk(const struct redis_server *redis) {
    glob_t found = {.gl_pathc = 0};
    struct stat file;
    CHECK_INT(glob(harness_format("%s/appendonlydir/*.incr.aof", redis->dir), 0, NULL, &found), 0);
    CHECK_INT(stat(found.gl_pathv[0], &file), 0);
    globfree(&found);
    struct rlimit limit = {.rlim_cur = (rlim_t)file.st_size, .rlim_max = RLIM_INFINITY};
    CHECK_INT(prlimit(redis->proc.pid, RLIMIT_FSIZE, &limit, NULL), 0);
}

static void empty_disk(const struct redis_server *redis) {
    const struct rlimit none = {.rlim_cur = RLIM_INFINITY, .rlim_max = RLIM_INFINITY};
    CHECK_INT(prlimit(redis->proc.pid, RLIMIT_FSIZE, &none, NULL), 0);
}

struct watched {
    struct seller *seller;
    const char *reason;
    bool ready;
};

static bool has_reason(void *arg) {
    const struct watched *watched = arg;
    struct inventory_health health;
    store_health(watched->seller, &health);
    return strcmp(health.reason, watched->reason) == 0 && health.ready == watched->ready;
}

/* A server that cannot write its file takes no order, and says why. When it can again it sells, and what it
 * took with its last write is in the file. */
static void test_disk_full(void) {
    struct redis_server store;
    redis_start(&store, NULL);
    struct seller *seller = seller_open(shop_open(), &store);
    item_sell(seller, "phone", INVENTORY_BATCH, 10);
    wait_well(seller);
    fill_disk(&store);
    int sold = 0;
    while (buy(seller, "phone", "ann", harness_format("k%d", sold), 1)->status == INVENTORY_OK)
        sold++;
    CHECK_HAS(inventory_last_error(seller->inventory), "MISCONF");
    struct watched full = {seller, "the store cannot write its append-only file", false};
    shop_wait(seller->shop, has_reason, &full, "it says so");
    empty_disk(&store);
    wait_well(seller);
    CHECK_STATUS(buy(seller, "phone", "ann", "late", 1)->status, INVENTORY_OK);
    redis_kill(&store);
    redis_restart(&store);
    seller_wait_up(seller);
    check_books(seller, &store, "phone", 10 - sold - 1, 0, sold + 1);
}

/* ---- a server that is too old ---- */

static const char *old_server(struct fake_cluster *fake, int server, int argc, const char **argv) {
    (void)fake;
    (void)server;
    if (argc == 1 && strcmp(argv[0], "INFO") == 0)
        return "$33\r\nredis_version:6.0.16\r\nrole:master\r\n";
    return argc > 1 && strcmp(argv[0], "CONFIG") == 0 ? "*2\r\n$11\r\nappendfsync\r\n$6\r\nalways\r\n"
                                                      : ":1\r\n";
}

static void test_old(void) {
    static struct fake_cluster fake;
    struct inventory_health health;
    fake_cluster_start(&fake, old_server);
    struct seller *seller = seller_open_up(shop_open(), &(struct seller_options){.port = fake.port[0]});
    store_health(seller, &health);
    CHECK(!health.ready);
    CHECK_STR(health.reason, "the store is older than Redis 6.2");
}

/* ---- a cluster ---- */

static struct redis_server *of(const char *item) {
    struct redis_server *server = redis_cluster_of(&cluster, stock_key(item));
    CHECK(server);
    return server;
}

/* A seller at the cluster, which sells phones and, from another master, `*other`. */
static struct seller *open_cluster(const char **other) {
    redis_cluster_flush(&cluster);
    struct seller *seller =
        seller_open_with(shop_open(), &(struct seller_options){.url = redis_cluster_url(&cluster)});
    seller_wait_whole(seller);
    *other = "lamp";
    for (int i = 0; of(*other) == of("phone"); i++)
        *other = harness_format("lamp%d", i);
    item_sell(seller, "phone", INVENTORY_BATCH, 10);
    item_sell(seller, *other, INVENTORY_BATCH, 10);
    return seller;
}

static void make_well(void *arg) {
    (void)arg;
    for (int i = 0; i < MASTERS; i++) {
        redis_resume(&cluster.server[i]);
        set(&cluster.server[i], "maxmemory", "0");
        set(&cluster.server[i], "maxmemory-policy", "noeviction");
        empty_disk(&cluster.server[i]);
    }
}

/* The store is ready while one of its masters is, and tells what is wrong with another. */
static void test_master_full(void) {
    const char *other;
    struct seller *seller = open_cluster(&other);
    struct redis_server *full = of("phone");
    harness_defer(make_well, NULL);
    set(full, "maxmemory", "1");
    const char *reason = harness_format("127.0.0.1:%d is out of memory (maxmemory)", full->port);
    CHECK(has_reason(&(struct watched){seller, reason, true}));
    CHECK(!seller_sells(seller, "phone"));
    CHECK(seller_sells(seller, other));
    for (int i = 0; i < MASTERS; i++)
        set(&cluster.server[i], "maxmemory", "1");
    struct inventory_health health;
    store_health(seller, &health);
    CHECK(!health.ready);
    CHECK_HAS(health.reason, "is out of memory (maxmemory)");
    make_well(NULL);
    wait_well(seller);
}

/* So it is with one whose disk is full. */
static void test_master_disk_full(void) {
    const char *other;
    struct seller *seller = open_cluster(&other);
    struct redis_server *full = of("phone");
    harness_defer(make_well, NULL);
    fill_disk(full);
    while (seller_sells(seller, "phone"))
        ;
    const char *reason = harness_format("127.0.0.1:%d cannot write its append-only file", full->port);
    shop_wait(seller->shop, has_reason, &(struct watched){seller, reason, true}, "it is named");
    CHECK(seller_sells(seller, other));
    empty_disk(full);
    wait_well(seller);
    CHECK(seller_sells(seller, "phone"));
}

/* One that may evict orders makes the store unfit, whatever the others say. */
static void test_master_evicts(void) {
    const char *other;
    struct seller *seller = open_cluster(&other);
    harness_defer(make_well, NULL);
    for (int i = 0; i < MASTERS; i++) {
        set(&cluster.server[i], "maxmemory", "1gb");
        set(&cluster.server[i], "maxmemory-policy", "volatile-lru");
        struct inventory_health health;
        store_health(seller, &health);
        CHECK(!health.ready);
        CHECK_STR(health.reason, "the store may evict orders: its maxmemory-policy must be noeviction");
        CHECK_STR(health.eviction, "mixed");
        set(&cluster.server[i], "maxmemory-policy", "noeviction");
        CHECK(is_well(seller));
    }
}

static bool is_settled(void *arg) {
    (void)arg;
    for (int i = 0; i < MASTERS; i++) {
        const char *info = redis_command(&cluster.server[i], "CLUSTER", "INFO", NULL);
        if (!strstr(info, "cluster_slots_ok:16384"))
            return false;
    }
    return true;
}

/* A master stands still: who asks is told soon that the others sell. If none answers, the first that does is
 * waited for. What comes later is nobody's any more, also when the inventory is closed. */
static void test_master_hangs(void) {
    const char *other;
    struct seller *seller = open_cluster(&other);
    struct redis_server *hangs = &cluster.server[1];
    const char *reason = harness_format("127.0.0.1:%d does not answer", hangs->port);
    harness_defer(make_well, NULL);
    redis_pause(hangs);
    CHECK(has_reason(&(struct watched){seller, reason, true}));
    CHECK(router_is_whole(seller->inventory->shared.store)); /* the connection has not broken */
    redis_resume(hangs);
    wait_well(seller);
    for (int i = 0; i < MASTERS; i++)
        redis_pause(&cluster.server[i]);
    struct answer *answer = store_health_begin(seller);
    shop_idle(seller->shop, 400);
    int early = answer->count;
    redis_resume(hangs);
    shop_settle(seller->shop);
    CHECK_INT(early, 0);
    CHECK_HAS(answer->health.reason, " does not answer");
    CHECK(answer->health.ready);
    shop_close(seller->shop);
    make_well(NULL);
    CHECK(harness_wait(is_settled, NULL, 20000));
}

int main(int argc, char **argv) {
    harness_begin(argc, argv);
    signal(SIGXFSZ, SIG_IGN); /* of the servers, too: a file that may not grow is an error to them */
    if (*harness_dir())
        redis_cluster_start(&cluster, MASTERS, 0);
    harness_run("one server", test_one);
    harness_run("what is not seen", test_not_seen);
    harness_run("a disk that is full", test_disk_full);
    harness_run("a server that is too old", test_old);
    harness_run("a master that is full", test_master_full);
    harness_run("a master whose disk is full", test_master_disk_full);
    harness_run("a master that may evict orders", test_master_evicts);
    harness_run("a master that hangs", test_master_hangs);
    return harness_finish();
}
