/* Redis under test: alone, in pairs, clusters and below Sentinels, and what tests do to it. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "test/harness.h"

enum { READY_MS = 30000, END_MS = 60000, MEND_MS = 60000, MOVE_TIMEOUT_MS = 5000, JOURNAL_PARTS = 8 };

static const char *number(int value) {
    return harness_format("%d", value);
}

/* ---- commands ---- */

static const char *command(const struct redis_server *redis, va_list args) {
    const char **argv = harness_list(args);
    int argc = 0;
    while (argv[argc])
        argc++;
    char *text = redis_server_command(redis->port, REDIS_SERVER_COMMAND_MS, argc, argv);
    harness_defer(free, text);
    return text;
}

const char *redis_command(const struct redis_server *redis, ...) {
    va_list args;
    va_start(args, redis);
    const char *text = command(redis, args);
    va_end(args);
    return text;
}

long long redis_integer(const struct redis_server *redis, ...) {
    va_list args;
    char *end;
    va_start(args, redis);
    const char *text = command(redis, args);
    va_end(args);
    long long value = strtoll(text, &end, 10);
    if (end == text || *end)
        FAIL("port %d answered %s, not an integer", redis->port, text);
    return value;
}

/* ---- the server ---- */

#define OPTIONS "--loglevel", "warning", "--appendonly", "yes", "--appendfsync", "no"

static struct redis_server_clock turned_clock;
static char server_name[64];

static const struct redis_server_clock *clock_in_use(void) {
    return turned_clock.turned ? &turned_clock : NULL;
}

struct turned_clock *redis_clock(void) {
    if (!turned_clock.turned)
        MUST(redis_server_clock_open(&turned_clock, harness_format("%s/turned-clock.so", harness_build()),
                                     harness_format("%s/clock", harness_dir())));
    return turned_clock.turned;
}

/* Valkey says the version of Redis that it stands for, and its own. */
static void note_name(const struct redis_server *redis) {
    char version[40];
    redis_server_info(redis, "valkey_version", version, sizeof version);
    bool valkey = *version;
    if (!valkey)
        redis_server_info(redis, "redis_version", version, sizeof version);
    if (*version)
        snprintf(server_name, sizeof server_name, "%s %s", valkey ? "Valkey" : "Redis", version);
}

const char *redis_name(void) {
    return server_name;
}

void redis_start(struct redis_server *redis, ...) {
    const char *options[REDIS_SERVER_ARGS_MAX] = {OPTIONS};
    va_list args;
    va_start(args, redis);
    MUST(local_server_add_options(options, REDIS_SERVER_ARGS_MAX, (const char *const *)harness_list(args)));
    va_end(args);
    const char *error = redis_server_start(redis, harness_path("redis"), clock_in_use(), options);
    harness_own(&redis->proc);
    MUST(error);
    if (!*server_name)
        note_name(redis);
}

void redis_start_replica(struct redis_server *redis, const struct redis_server *master) {
    CHECK_STR(redis_command(master, "CONFIG", "SET", "repl-diskless-sync-delay", "0", NULL), "OK");
    redis_start(redis, "--replicaof", "127.0.0.1", number(master->port), "--repl-diskless-sync-delay", "0",
                NULL); /* for when it is a master */
    MUST(redis_server_await_sync(redis));
}

struct copied {
    const struct redis_server *replica;
    long long offset;
};

static long long offset_of(const struct redis_server *redis) {
    char offset[24];
    redis_server_info(redis, "master_repl_offset", offset, sizeof offset);
    return *offset ? strtoll(offset, NULL, 10) : -1;
}

static bool is_copied(void *arg) {
    const struct copied *copied = arg;
    return offset_of(copied->replica) >= copied->offset;
}

void redis_wait_copied(const struct redis_server *master, const struct redis_server *replica) {
    struct copied copied = {replica, offset_of(master)};
    CHECK(harness_wait(is_copied, &copied, READY_MS));
}

void redis_stop(struct redis_server *redis) {
    MUST(proc_end(&redis->proc, SIGTERM, END_MS));
}

void redis_kill(struct redis_server *redis) {
    MUST(proc_end(&redis->proc, SIGKILL, END_MS));
}

/* As an operator must do after a crash. */
static void mend(const struct redis_server *redis) {
    int status;
    struct proc proc;
    const char *argv[] = {"deploy/mend-aof.sh", redis->dir, NULL};
    proc_spawn(&proc, argv, NULL, harness_format("%s.log", redis->dir));
    CHECK(proc_wait(&proc, MEND_MS, &status));
    CHECK_INT(status, 0);
}

void redis_restart(struct redis_server *redis) {
    mend(redis);
    MUST(redis_server_restart(redis));
}

void redis_wipe(struct redis_server *redis) {
    MUST(local_server_wipe(&redis->proc, redis->dir));
}

void redis_pause(struct redis_server *redis) {
    proc_kill(&redis->proc, SIGSTOP);
}

void redis_resume(struct redis_server *redis) {
    proc_kill(&redis->proc, SIGCONT);
}

/* ---- a cluster ---- */

void redis_cluster_start(struct redis_cluster *cluster, int masters, int replicas) {
    static const char *const options[] = {OPTIONS, NULL};
    *cluster = (struct redis_cluster){.clock = clock_in_use(), .options = options};
    snprintf(cluster->under, sizeof cluster->under, "%s", harness_dir());
    const char *error = cluster_servers_start(cluster, masters, replicas);
    for (int i = 0; i < cluster->count; i++)
        harness_own(&cluster->server[i].proc);
    MUST(error);
    if (!*server_name)
        note_name(&cluster->server[0]);
}

struct redis_server *redis_cluster_add(struct redis_cluster *cluster) {
    const char *error = cluster_servers_add(cluster);
    struct redis_server *added = &cluster->server[cluster->count - 1];
    harness_own(&added->proc);
    MUST(error);
    return added;
}

const char *redis_cluster_url(const struct redis_cluster *cluster) {
    return harness_format("redis-cluster://127.0.0.1:%d,127.0.0.1:%d", cluster->server[0].port,
                          cluster->server[cluster->count > 1].port);
}

struct redis_server *redis_cluster_of(struct redis_cluster *cluster, const char *key) {
    for (int i = 0; i < cluster->count; i++) {
        struct redis_server *server = &cluster->server[i];
        if (!proc_running(&server->proc))
            continue;
        const char *answer = redis_command(server, "EXISTS", key, NULL);
        if (strcmp(answer, "0") == 0 || strcmp(answer, "1") == 0)
            return server;
    }
    return NULL;
}

static bool is_master(const struct redis_server *server) {
    return strstr(redis_command(server, "ROLE", NULL), "[master");
}

void redis_cluster_flush(struct redis_cluster *cluster) {
    for (int i = 0; i < cluster->count; i++) {
        if (is_master(&cluster->server[i]))
            CHECK_STR(redis_command(&cluster->server[i], "FLUSHALL", NULL), "OK");
    }
}

/* ---- moving slots ---- */

static const char *slot_of(const struct redis_server *server, const char *key) {
    return redis_command(server, "CLUSTER", "KEYSLOT", key, NULL);
}

static void set_slot(const struct redis_server *server, const char *key, const char *what,
                     const struct redis_server *other) {
    const char *id = redis_command(other, "CLUSTER", "MYID", NULL);
    CHECK_STR(redis_command(server, "CLUSTER", "SETSLOT", slot_of(server, key), what, id, NULL), "OK");
}

void redis_cluster_begin_move(const char *key, const struct redis_server *from,
                              const struct redis_server *to) {
    set_slot(to, key, "IMPORTING", from);
    set_slot(from, key, "MIGRATING", to);
}

void redis_cluster_move_key(const char *name, const struct redis_server *from,
                            const struct redis_server *to) {
    const char *said = redis_command(from, "MIGRATE", "127.0.0.1", number(to->port), name, "0",
                                     number(MOVE_TIMEOUT_MS), NULL);
    if (strcmp(said, "NOKEY") != 0) /* deleted meanwhile */
        CHECK_STR(said, "OK");
}

int redis_cluster_move_keys(const char *key, const struct redis_server *from, const struct redis_server *to,
                            int most) {
    const char *slot = slot_of(from, key);
    int moved = 0;
    for (; moved < most; moved++) {
        const char *list = redis_command(from, "CLUSTER", "GETKEYSINSLOT", slot, "1", NULL);
        if (strcmp(list, "[]") == 0)
            break;
        redis_cluster_move_key(harness_format("%.*s", (int)strlen(list) - 2, list + 1), from, to);
    }
    return moved;
}

void redis_cluster_end_move(const struct redis_cluster *cluster, const char *key,
                            const struct redis_server *to) {
    set_slot(to, key, "NODE", to); /* first: it must not be lost by anybody's view */
    for (int i = 0; i < cluster->count; i++) {
        if (is_master(&cluster->server[i]))
            set_slot(&cluster->server[i], key, "NODE", to);
    }
}

void redis_cluster_move(const struct redis_cluster *cluster, const char *key, const struct redis_server *from,
                        const struct redis_server *to, uint64_t *random) {
    redis_cluster_begin_move(key, from, to);
    while (redis_cluster_move_keys(key, from, to, 1) > 0)
        harness_pause_ms((int)(harness_random(random) % 20));
    redis_cluster_end_move(cluster, key, to);
}

/* ---- Sentinels ---- */

static void start_servers(struct redis_sentinel *sentinel, int replicas) {
    *sentinel = (struct redis_sentinel){0};
    redis_start(&sentinel->server[0], NULL);
    for (sentinel->count = 1; sentinel->count <= replicas; sentinel->count++)
        redis_start_replica(&sentinel->server[sentinel->count], &sentinel->server[0]);
}

static void watch(struct redis_sentinel *sentinel) {
    const char *error = sentinel_servers_watch(sentinel, harness_dir());
    for (int i = 0; i < REDIS_SENTINELS; i++)
        harness_own(&sentinel->sentinel[i].proc);
    MUST(error);
}

void redis_sentinel_start_with(struct redis_sentinel *sentinel, int replicas) {
    start_servers(sentinel, replicas);
    watch(sentinel);
}

void redis_sentinel_start(struct redis_sentinel *sentinel) {
    redis_sentinel_start_with(sentinel, 1);
}

const char *redis_sentinel_url(const struct redis_sentinel *sentinel) {
    const char *url = "redis-sentinel://";
    for (int i = 0; i < REDIS_SENTINELS; i++)
        url = harness_format("%s%s127.0.0.1:%d", url, i ? "," : "", sentinel->sentinel[i].port);
    return harness_format("%s/shop", url);
}

struct redis_server *redis_sentinel_master(struct redis_sentinel *sentinel) {
    for (int i = 0; i < sentinel->count; i++) {
        struct redis_server *server = &sentinel->server[i];
        if (proc_running(&server->proc) && is_master(server))
            return server;
    }
    return NULL;
}

static bool names_second(void *arg) {
    const struct redis_sentinel *all = arg;
    const char *master =
        redis_command(&all->sentinel[0], "SENTINEL", "GET-MASTER-ADDR-BY-NAME", "shop", NULL);
    return strstr(master, harness_format(" %d]", all->server[1].port));
}

void redis_sentinel_start_stalled(struct redis_sentinel *sentinel, struct redis_server *stubborn) {
    start_servers(sentinel, 1);
    redis_start_replica(stubborn, &sentinel->server[0]);
    CHECK_STR(redis_command(stubborn, "CONFIG", "SET", "replica-priority", "0", NULL), "OK");
    CHECK_STR(redis_command(stubborn, "ACL", "SETUSER", "default", "-slaveof", NULL), "OK");
    watch(sentinel);
    CHECK_STR(redis_command(&sentinel->sentinel[0], "SENTINEL", "FAILOVER", "shop", NULL), "OK");
    CHECK(harness_wait(names_second, sentinel, READY_MS));
}

/* ---- a pair ---- */

static bool is_followed(void *arg) {
    CHECK_STR(redis_command(arg, "SET", "probe", "1", NULL), "OK");
    const char *slave = strstr(redis_command(arg, "INFO", "replication", NULL), "state=online,offset=");
    return slave && strtoll(slave + strlen("state=online,offset="), NULL, 10) > 0;
}

void replica_wait(const struct redis_server *master) {
    struct redis_server server = *master;
    CHECK(harness_wait(is_followed, &server, READY_MS));
}

void replica_cut(const struct redis_server *master, const struct redis_server *replica) {
    redis_wait_copied(master, replica);
    CHECK_STR(redis_command(master, "ACL", "SETUSER", "default", "-psync", "-sync", NULL), "OK");
    CHECK_INT(redis_integer(master, "CLIENT", "KILL", "TYPE", "replica", NULL), 1);
}

void pair_start(struct pair *pair) {
    redis_start(&pair->master, "--repl-diskless-sync-delay", "0", NULL);
    pair->link = proxy_start(pair->master.port);
    pair->front = proxy_start(pair->master.port);
    pair->is_cut = false;
    redis_start(&pair->replica, "--repl-diskless-sync-delay", "0", "--replicaof", "127.0.0.1",
                number(proxy_port(pair->link)), NULL);
    replica_wait(&pair->master);
}

const char *pair_url(const struct pair *pair) {
    return harness_format("redis://127.0.0.1:%d", proxy_port(pair->front));
}

void pair_cut(struct pair *pair) {
    redis_wait_copied(&pair->master, &pair->replica);
    proxy_set(pair->link, PROXY_DELAY, 1000000, NULL);
    pair->is_cut = true;
}

void pair_mend(struct pair *pair) {
    proxy_set(pair->link, PROXY_REFUSE, 0, NULL);
    proxy_set(pair->link, PROXY_PASS, 0, NULL);
    pair->is_cut = false;
}

void pair_fail_over(struct pair *pair) {
    proxy_point(pair->front, pair->replica.port);
    CHECK_STR(redis_command(&pair->replica, "REPLICAOF", "NO", "ONE", NULL), "OK");
    redis_kill(&pair->master);
}

/* ---- the journal ---- */

static long long journal_sum(const struct redis_server *redis, const char *command, const char *what) {
    long long count = 0;
    for (int part = 0; part < JOURNAL_PARTS; part++)
        count += redis_integer(redis, command, harness_format("seckill:{baskets:%d}:%s", part, what), NULL);
    return count;
}

long long journal_open(const struct redis_server *redis) {
    return journal_sum(redis, "ZCARD", "open");
}

long long journal_count(const struct redis_server *redis) {
    return journal_sum(redis, "HLEN", "journal");
}

void journal_set_epoch(const struct redis_server *redis, const char *epoch) {
    for (int part = 0; part < JOURNAL_PARTS; part++)
        redis_command(redis, "SET", harness_format("seckill:{baskets:%d}:epoch", part), epoch, NULL);
}

/* ---- items of an inventory ---- */

/* Hashes by itself: that a name stays in its part is what tests rely on. */
const char *stock_key(const char *item) {
    uint32_t hash = 2166136261U;
    for (const char *at = item; *at && *at != ':'; at++)
        hash = (hash ^ (unsigned char)*at) * 16777619U;
    return harness_format("seckill:{%u}:%s", hash % 64, item);
}

long long stock_orders(const struct redis_server *redis, const char *item) {
    static const char count[] = "local n = 0\n"
                                "for _, field in ipairs(redis.call('HKEYS', KEYS[1])) do\n"
                                "  if #field == 22 and not string.find(field, '^[@+]') then n = n + 1 end\n"
                                "end\n"
                                "return n\n";
    return redis_integer(redis, "EVAL", count, "1", stock_key(item), NULL);
}

long long stock_initial(const struct redis_server *redis, const char *item) {
    return strtoll(redis_command(redis, "HGET", stock_key(item), "terms", NULL), NULL, 10);
}

void stock_add_initial(const struct redis_server *redis, const char *item, int change) {
    const char *terms = redis_command(redis, "HGET", stock_key(item), "terms", NULL);
    const char *changed = harness_format("%lld%s", stock_initial(redis, item) + change, strchr(terms, ' '));
    CHECK_INT(redis_integer(redis, "HSET", stock_key(item), "terms", changed, NULL), 0);
}
