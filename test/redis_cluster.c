/* A private Redis Cluster. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "test/harness.h"

enum { READY_MS = 30000, SLOTS = 16384, MOVE_TIMEOUT_MS = 5000 };

static const char *number(int value) {
    return harness_format("%d", value);
}

static const char *id_of(const struct redis_server *server) {
    return redis_command(server, "CLUSTER", "MYID", NULL);
}

static int replicas_known_to(const struct redis_server *server) {
    const char *at = redis_command(server, "CLUSTER", "NODES", NULL);
    int known = 0;
    for (; (at = strstr(at, "slave ")); at++)
        known++;
    return known;
}

/* Each server's view: it knows all, which of them are replicas, all slots are served, and each replica is in
 * sync. */
static bool is_ready(void *arg) {
    const struct redis_cluster *cluster = arg;
    for (int i = 0; i < cluster->count; i++) {
        const char *info = redis_command(&cluster->server[i], "CLUSTER", "INFO", NULL);
        if (!strstr(info, "cluster_state:ok") || !strstr(info, "cluster_slots_ok:16384") ||
            !strstr(info, harness_format("cluster_known_nodes:%d\r", cluster->count)) ||
            replicas_known_to(&cluster->server[i]) != cluster->count - cluster->masters)
            return false;
        if (i >= cluster->masters &&
            !strstr(redis_command(&cluster->server[i], "INFO", "replication", NULL), "master_link_status:up"))
            return false;
    }
    return true;
}

static bool have_met(void *arg) {
    const struct redis_cluster *cluster = arg;
    for (int i = 0; i < cluster->count; i++) {
        if (!strstr(redis_command(&cluster->server[i], "CLUSTER", "INFO", NULL),
                    harness_format("cluster_known_nodes:%d\r", cluster->count)))
            return false;
    }
    return true;
}

/* A server that has heard of its master by gossip can replicate it. */
static bool replicates(void *arg) {
    const char *const *pair = arg;
    const struct redis_server replica = {.port = (int)strtol(pair[0], NULL, 10)};
    return strcmp(redis_command(&replica, "CLUSTER", "REPLICATE", pair[1], NULL), "OK") == 0;
}

/* Returns the port of its bus. */
static int start_server(struct redis_cluster *cluster, int i) {
    int bus = harness_free_port();
    CHECK(i < REDIS_CLUSTER_MAX);
    redis_start(&cluster->server[i], "--cluster-enabled", "yes", "--cluster-port", number(bus),
                "--cluster-node-timeout", "1500", "--cluster-require-full-coverage", "no",
                "--cluster-allow-replica-migration", "no", "--repl-diskless-sync-delay", "0", NULL);
    CHECK_STR(redis_command(&cluster->server[i], "CLUSTER", "SET-CONFIG-EPOCH", number(i + 1), NULL), "OK");
    return bus;
}

static void meet(const struct redis_cluster *cluster, int i, int bus) {
    CHECK_STR(redis_command(&cluster->server[0], "CLUSTER", "MEET", "127.0.0.1",
                            number(cluster->server[i].port), number(bus), NULL),
              "OK");
}

/* Each server has an epoch of its own before they meet, as by `redis-cli --cluster create`. Otherwise masters
 * that meet with the same one take new ones, and a replica that does not know that of its master gets no
 * votes. */
void redis_cluster_start(struct redis_cluster *cluster, int masters, int replicas) {
    cluster->masters = masters;
    cluster->count = masters * (1 + replicas);
    int bus[REDIS_CLUSTER_MAX];
    for (int i = 0; i < cluster->count; i++)
        bus[i] = start_server(cluster, i);
    for (int i = 0; i < masters; i++)
        CHECK_STR(redis_command(&cluster->server[i], "CLUSTER", "ADDSLOTSRANGE", number(SLOTS * i / masters),
                                number(SLOTS * (i + 1) / masters - 1), NULL),
                  "OK");
    for (int i = 1; i < cluster->count; i++)
        meet(cluster, i, bus[i]);
    CHECK(harness_wait(have_met, cluster, READY_MS));
    for (int i = masters; i < cluster->count; i++) {
        const char *pair[] = {number(cluster->server[i].port), id_of(&cluster->server[i % masters])};
        CHECK(harness_wait(replicates, pair, READY_MS));
    }
    CHECK(harness_wait(is_ready, cluster, READY_MS));
}

struct redis_server *redis_cluster_add(struct redis_cluster *cluster) {
    int added = cluster->count++;
    cluster->masters++;
    meet(cluster, added, start_server(cluster, added));
    CHECK(harness_wait(is_ready, cluster, READY_MS));
    return &cluster->server[added];
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

void redis_cluster_flush(struct redis_cluster *cluster) {
    for (int i = 0; i < cluster->count; i++) {
        if (strstr(redis_command(&cluster->server[i], "ROLE", NULL), "[master"))
            CHECK_STR(redis_command(&cluster->server[i], "FLUSHALL", NULL), "OK");
    }
}

/* ---- moving slots ---- */

static const char *slot_of(const struct redis_server *server, const char *key) {
    return redis_command(server, "CLUSTER", "KEYSLOT", key, NULL);
}

static void set_slot(const struct redis_server *server, const char *key, const char *what,
                     const struct redis_server *other) {
    CHECK_STR(redis_command(server, "CLUSTER", "SETSLOT", slot_of(server, key), what, id_of(other), NULL),
              "OK");
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
        if (strstr(redis_command(&cluster->server[i], "ROLE", NULL), "[master"))
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
