#include "lock/test/every_lock.h"

#include <string.h>

#include "lock/test/etcd_tools.h"

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

/* Of the nodes OWNER-NUMBER the holder's has the least number. */
static void forget_in_zookeeper(const char *key) {
    const char *path = harness_format("/lock/%s", key), *holder = NULL;
    char *list = harness_format("%s", zookeeper_list(&zookeeper, path));
    for (char *node; (node = strsep(&list, " "));) {
        if (!holder || strcmp(strchr(node, '-'), strchr(holder, '-')) < 0)
            holder = node;
    }
    zookeeper_delete(&zookeeper, harness_format("%s/%s", path, holder));
}

static void forget_in_etcd(const char *key) {
    etcd_tools_revoke(&etcd, etcd_tools_lease(&etcd, key, 0));
}

static int count_in_redis(const char *key) {
    return (int)(redis_integer(&redis, "EXISTS", harness_format("lock:{%s}", key), NULL) +
                 redis_integer(&redis, "LLEN", harness_format("lock:{%s}:line", key), NULL));
}

static int count_in_nodes(const char *key) {
    int count = 0;
    for (int i = 0; i < 3; i++)
        count += (int)redis_integer(&nodes[i], "EXISTS", harness_format("lock:{%s}", key), NULL);
    return count >= 2 ? 1 : -(count > 0);
}

static int count_in_zookeeper(const char *key) {
    return tools_count_nodes(&zookeeper, harness_format("/lock/%s", key));
}

static int count_in_etcd(const char *key) {
    return etcd_tools_count(&etcd, harness_format("lock/%s ", key));
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

/* ---- the network ---- */

static struct proxy *proxies[3];
static int proxy_count;

static void put_proxy(int target_port) {
    proxies[proxy_count++] = proxy_start(target_port);
}

void every_lock_disturb(enum proxy_mode mode, int n, const char *after) {
    for (int i = 0; i < proxy_count; i++)
        proxy_set(proxies[i], mode, n, after);
}

int every_lock_cuts(void) {
    int cuts = 0;
    for (int i = 0; i < proxy_count; i++)
        cuts += proxy_faults(proxies[i]);
    return cuts;
}

const char *every_lock_url_with(const char *url, const char *option) {
    return harness_format("%s%c%s", url, strchr(url, '?') ? '&' : '?', option);
}

/* ---- all of them ---- */

/* `first`: the first lock of each kind of store needs no other. */
static void start_stores(bool first) {
    redis_start(&redis, NULL);
    for (int i = 0; i < 3; i++)
        redis_start(&nodes[i], "--appendonly", "no", NULL); /* three that wait for one disk would be slow */
    zookeeper_start(&zookeeper);
    etcd_start(&etcd, NULL);
    if (!first) {
        redis_cluster_start(&cluster, 3, 0);
        redis_sentinel_start(&sentinel);
    }
}

static const char *url_of(const char *scheme, int port) {
    return harness_format("%s://127.0.0.1:%d", scheme, port);
}

static const char *redlock_of(int a, int b, int c) {
    return harness_format("redlock://127.0.0.1:%d,127.0.0.1:%d,127.0.0.1:%d", a, b, c);
}

/* Puts proxies before the servers of the lock under test. */
static void start_proxies(void) {
    proxy_count = 0;
    if (every_lock.forget == forget_in_redis) {
        put_proxy(redis.port);
        every_lock.proxied = url_of("redis", proxy_port(proxies[0]));
    } else if (every_lock.forget == forget_in_nodes) {
        for (int i = 0; i < 3; i++)
            put_proxy(nodes[i].port);
        every_lock.proxied =
            redlock_of(proxy_port(proxies[0]), proxy_port(proxies[1]), proxy_port(proxies[2]));
    } else if (every_lock.forget == forget_in_etcd) {
        put_proxy(etcd.port);
        every_lock.proxied = url_of("etcd", proxy_port(proxies[0]));
    } else if (every_lock.forget == forget_in_zookeeper) {
        put_proxy(zookeeper.port);
        every_lock.proxied = url_of("zookeeper", proxy_port(proxies[0]));
    }
}

void every_lock_run(const struct every_lock_test tests[], size_t count, bool also_local) {
    bool all_once = true;
    for (size_t i = 0; i < count; i++)
        all_once = all_once && tests[i].once;
    start_stores(all_once);
    const char *one = url_of("redis", redis.port), *three = all_once ? "" : redis_cluster_url(&cluster);
    const char *sentinels = all_once ? "" : redis_sentinel_url(&sentinel);
    const char *one_etcd = url_of("etcd", etcd.port);
    const struct every_lock locks[] = {
        {"local:", true, 1, .forget = NULL},
        {one, true, 1, 2, 2, forget_in_redis, hang_redis, .count = count_in_redis, .marker = "EVALSHA"},
        {every_lock_url_with(one, "variant=watchdog"), false, 1, 2, 2, forget_in_redis, .hang = hang_redis},
        {three, false, 1, 2, 2, forget_in_cluster, .hang = hang_cluster},
        {every_lock_url_with(three, "variant=watchdog"), false, 1, 2, 2, forget_in_cluster,
         .hang = hang_cluster},
        {sentinels, false, 1, 2, 2, forget_at_the_master, .hang = hang_with_sentinels},
        {redlock_of(nodes[0].port, nodes[1].port, nodes[2].port), true, 1, 6, 6, forget_in_nodes, hang_nodes,
         .count = count_in_nodes, .marker = "EVAL"},
        {one_etcd, true, 3, 2, 2, forget_in_etcd, hang_etcd, .count = count_in_etcd, .marker = "lock/a ",
         .multiplexes = true},
        {every_lock_url_with(one_etcd, "variant=fixed-key"), false, 3, 2, 2, forget_in_etcd,
         .hang = hang_etcd},
        /* The most: its server has removed the empty container. */
        {url_of("zookeeper", zookeeper.port), true, 5, 3, 8, forget_in_zookeeper, hang_zookeeper,
         .count = count_in_zookeeper, .marker = "/lock/a"},
    };
    for (size_t u = 0; u < sizeof locks / sizeof *locks; u++) {
        every_lock = locks[u];
        if (every_lock.first)
            start_proxies();
        for (size_t i = 0; i < count; i++) {
            if ((every_lock.first || !tests[i].once) && (every_lock.hang || also_local))
                harness_run(harness_format("%s %s", every_lock.url, tests[i].name), tests[i].test);
        }
    }
}
