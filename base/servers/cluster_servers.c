#include "base/servers/local_servers.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { READY_MS = 30000, SLOTS = 16384, NUMBER_SIZE = 12, NODE_ID_SIZE = 48 };

/* ---- what the servers say ---- */

/* Runs a command; true if the reply has the text. */
#define SAYS(text, ...) cluster_says((text), redis_server_do(__VA_ARGS__, NULL))

static bool cluster_says(const char *text, char *reply) {
    bool has = strstr(reply, text);
    free(reply);
    return has;
}

/* Each server has heard of all others. */
static bool cluster_has_met(void *arg) {
    const struct redis_cluster *cluster = arg;
    char known[40];
    snprintf(known, sizeof known, "cluster_known_nodes:%d\r", cluster->count);
    for (int i = 0; i < cluster->count; i++) {
        if (!SAYS(known, &cluster->server[i], "CLUSTER", "INFO"))
            return false;
    }
    return true;
}

static int cluster_replicas_known_to(const struct redis_server *server) {
    char *nodes = redis_server_do(server, "CLUSTER", "NODES", NULL);
    int known = 0;
    for (const char *at = nodes; (at = strstr(at, "slave ")); at++)
        known++;
    free(nodes);
    return known;
}

/* In the view of each server all slots are served and all replicas are known; each replica is in sync. */
static bool cluster_is_ready(void *arg) {
    const struct redis_cluster *cluster = arg;
    if (!cluster_has_met(arg))
        return false;
    for (int i = 0; i < cluster->count; i++) {
        const struct redis_server *server = &cluster->server[i];
        char *info = redis_server_do(server, "CLUSTER", "INFO", NULL);
        bool served = strstr(info, "cluster_state:ok") && strstr(info, "cluster_slots_ok:16384");
        free(info);
        if (!served || cluster_replicas_known_to(server) != cluster->count - cluster->masters ||
            (i >= cluster->masters && !SAYS("master_link_status:up", server, "INFO", "replication")))
            return false;
    }
    return true;
}

static const char *cluster_await_ready(struct redis_cluster *cluster) {
    return proc_poll(cluster_is_ready, cluster, READY_MS) ? NULL : "the cluster does not serve all slots";
}

/* ---- starting ---- */

/* Sets the port of its bus. Each server has an epoch of its own before they meet, as by `redis-cli --cluster
 * create`. Otherwise masters that meet with the same one take new ones, and a replica that does not know that
 * of its master gets no votes. */
static const char *cluster_start_server(struct redis_cluster *cluster, int i, char bus[NUMBER_SIZE]) {
    char dir[LOCAL_SERVER_DIR_SIZE + 24], epoch[NUMBER_SIZE];
    char words[] = "--cluster-enabled yes --cluster-node-timeout 1500 --cluster-require-full-coverage no "
                   "--cluster-allow-replica-migration no --repl-diskless-sync-delay 0";
    const char *options[REDIS_SERVER_ARGS_MAX] = {"--cluster-port", bus};
    int bus_port = local_server_free_port();
    snprintf(bus, NUMBER_SIZE, "%d", bus_port);
    snprintf(epoch, sizeof epoch, "%d", i + 1);
    snprintf(dir, sizeof dir, "%s/redis-%d", cluster->under, bus_port);
    const char *error = local_server_add_words(options, REDIS_SERVER_ARGS_MAX, words);
    if (!error)
        error = local_server_add_options(options, REDIS_SERVER_ARGS_MAX, cluster->options);
    if (!error)
        error = redis_server_start(&cluster->server[i], dir, cluster->clock, options);
    if (!error && !SAYS("OK", &cluster->server[i], "CLUSTER", "SET-CONFIG-EPOCH", epoch))
        error = "a server does not take its epoch";
    return error;
}

static const char *cluster_meet(const struct redis_cluster *cluster, int i, const char *bus) {
    char port[NUMBER_SIZE];
    snprintf(port, sizeof port, "%d", cluster->server[i].port);
    return SAYS("OK", &cluster->server[0], "CLUSTER", "MEET", "127.0.0.1", port, bus)
               ? NULL
               : "a server does not meet another";
}

static const char *cluster_give_slots(const struct redis_cluster *cluster, int master) {
    char first[NUMBER_SIZE], last[NUMBER_SIZE];
    snprintf(first, sizeof first, "%d", SLOTS * master / cluster->masters);
    snprintf(last, sizeof last, "%d", SLOTS * (master + 1) / cluster->masters - 1);
    return SAYS("OK", &cluster->server[master], "CLUSTER", "ADDSLOTSRANGE", first, last)
               ? NULL
               : "a master does not take its slots";
}

struct replication {
    const struct redis_server *replica;
    char master_id[NODE_ID_SIZE];
};

/* A server can replicate a master once it has heard of it by gossip. */
static bool cluster_replicates(void *arg) {
    const struct replication *pair = arg;
    return SAYS("OK", pair->replica, "CLUSTER", "REPLICATE", pair->master_id);
}

static const char *cluster_replicate(const struct redis_cluster *cluster, int i) {
    struct replication pair = {.replica = &cluster->server[i]};
    char *id = redis_server_do(&cluster->server[i % cluster->masters], "CLUSTER", "MYID", NULL);
    snprintf(pair.master_id, sizeof pair.master_id, "%s", id);
    free(id);
    return proc_poll(cluster_replicates, &pair, READY_MS) ? NULL : "a server does not become a replica";
}

const char *cluster_servers_start(struct redis_cluster *cluster, int masters, int replicas) {
    int count = masters * (1 + replicas);
    char bus[REDIS_CLUSTER_MAX][NUMBER_SIZE];
    const char *error = NULL;
    cluster->masters = masters;
    cluster->count = 0;
    if (count > REDIS_CLUSTER_MAX)
        return "the cluster is too large";
    for (; !error && cluster->count < count; cluster->count++)
        error = cluster_start_server(cluster, cluster->count, bus[cluster->count]);
    for (int i = 0; !error && i < masters; i++)
        error = cluster_give_slots(cluster, i);
    for (int i = 1; !error && i < count; i++)
        error = cluster_meet(cluster, i, bus[i]);
    if (!error && !proc_poll(cluster_has_met, cluster, READY_MS))
        error = "the servers do not meet";
    for (int i = masters; !error && i < count; i++)
        error = cluster_replicate(cluster, i);
    return error ? error : cluster_await_ready(cluster);
}

const char *cluster_servers_add(struct redis_cluster *cluster) {
    char bus[NUMBER_SIZE];
    int added = cluster->count;
    if (added == REDIS_CLUSTER_MAX)
        return "the cluster is full";
    const char *error = cluster_start_server(cluster, added, bus);
    cluster->count++;
    cluster->masters++;
    if (!error)
        error = cluster_meet(cluster, added, bus);
    return error ? error : cluster_await_ready(cluster);
}
