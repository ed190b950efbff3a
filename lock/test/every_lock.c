#include "lock/test/every_lock.h"

#include <stdio.h>

struct every_lock every_lock;

static struct redis_server redis, nodes[3];
static struct redis_cluster cluster;
static struct redis_sentinel sentinel;
static struct zookeeper_server zookeeper;
static struct etcd_server etcd;

static void forget_in_redis(const char *key) {
    redis_command(&redis, "DEL", harness_format("lock:{%s}", key), NULL);
}

static void forget_in_cluster(const char *key) {
    const char *name = harness_format("lock:{%s}", key);
    redis_command(redis_cluster_of(&cluster, name), "DEL", name, NULL);
}

static void forget_at_the_master(const char *key) {
    redis_command(redis_sentinel_master(&sentinel), "DEL", harness_format("lock:{%s}", key), NULL);
}

static void forget_in_nodes(const char *key) {
    for (int i = 0; i < 3; i++)
        redis_command(&nodes[i], "DEL", harness_format("lock:{%s}", key), NULL);
}

static void forget_in_zookeeper(const char *key) {
    const char *path = harness_format("/lock/%s", key);
    zookeeper_delete(&zookeeper, harness_format("%s/%s", path, zookeeper_list(&zookeeper, path)));
}

static void forget_in_etcd(const char *key) {
    etcd_command(&etcd, "del", "--prefix", harness_format("lock/%s", key), NULL);
}

static void hang_redis(bool hangs) {
    (hangs ? redis_pause : redis_resume)(&redis);
}

static void hang_cluster(bool hangs) {
    for (int i = 0; i < cluster.count; i++)
        (hangs ? redis_pause : redis_resume)(&cluster.server[i]);
}

/* They would replace a master that hangs alone. */
static void hang_with_sentinels(bool hangs) {
    for (int i = 0; i < REDIS_SENTINELS; i++)
        (hangs ? redis_pause : redis_resume)(&sentinel.sentinel[i]);
    for (int i = 0; i < 2; i++)
        (hangs ? redis_pause : redis_resume)(&sentinel.server[i]);
}

static void hang_nodes(bool hangs) {
    for (int i = 0; i < 3; i++)
        (hangs ? redis_pause : redis_resume)(&nodes[i]);
}

static void hang_etcd(bool hangs) {
    (hangs ? etcd_pause : etcd_resume)(&etcd);
}

static void hang_zookeeper(bool hangs) {
    (hangs ? zookeeper_pause : zookeeper_resume)(&zookeeper);
}

void every_lock_run(const struct every_lock_test tests[], size_t count) {
    redis_start(&redis, NULL);
    for (int i = 0; i < 3; i++)
        redis_start(&nodes[i], "--appendonly", "no", NULL); /* three that wait for one disk would be slow */
    zookeeper_start(&zookeeper);
    etcd_start(&etcd, NULL);
    redis_cluster_start(&cluster, 3, 0);
    redis_sentinel_start(&sentinel);
    const char *one = harness_format("redis://127.0.0.1:%d", redis.port);
    const struct every_lock locks[] = {
        {"local:", NULL, NULL, 1, 0, 0},
        {one, forget_in_redis, hang_redis, 1, 2, 2},
        {harness_format("%s?variant=watchdog", one), forget_in_redis, hang_redis, 1, 2, 2},
        {redis_cluster_url(&cluster), forget_in_cluster, hang_cluster, 1, 2, 2},
        {harness_format("%s?variant=watchdog", redis_cluster_url(&cluster)), forget_in_cluster, hang_cluster,
         1, 2, 2},
        {redis_sentinel_url(&sentinel), forget_at_the_master, hang_with_sentinels, 1, 2, 2},
        {harness_format("redlock://127.0.0.1:%d,127.0.0.1:%d,127.0.0.1:%d", nodes[0].port, nodes[1].port,
                        nodes[2].port),
         forget_in_nodes, hang_nodes, 1, 6, 6},
        {harness_format("etcd://127.0.0.1:%d", etcd.port), forget_in_etcd, hang_etcd, 3, 2, 2},
        {harness_format("etcd://127.0.0.1:%d?variant=fixed-key", etcd.port), forget_in_etcd, hang_etcd, 3, 2,
         2},
        /* The most: its server has removed the empty container. */
        {harness_format("zookeeper://127.0.0.1:%d", zookeeper.port), forget_in_zookeeper, hang_zookeeper, 5,
         3, 8},
    };
    for (size_t u = 0; u < sizeof locks / sizeof *locks; u++) {
        every_lock = locks[u];
        for (size_t i = 0; i < count; i++)
            harness_run(harness_format("%s %s", every_lock.url, tests[i].name), tests[i].test);
    }
}
