#include "loadtest/lab/stage/etcd_server.h"

#include <string.h>

#include "lock/libetcd/etcd.h"

/* ---- what it says over HTTP ---- */

static bool is_ready(const struct server *server) {
    char answer[1024];
    return server_ask(server, "GET /health HTTP/1.0\r\n\r\n", answer, sizeof answer) &&
           strstr(answer, "\"true\"") != NULL;
}

static void add_version(const struct server *server) {
    char answer[1024], version[24] = "";
    const char *at = NULL;
    if (server_ask(server, "GET /version HTTP/1.0\r\n\r\n", answer, sizeof answer))
        at = strstr(answer, "\"etcdserver\":\"");
    if (at != NULL)
        snprintf(version, sizeof version, "%.*s", (int)strcspn(at + 14, "\""), at + 14);
    stage_add_version(server->stage, "etcd", version);
}

/* A member that leads says so in its metrics. */
static bool leads(const struct server *server) {
    static char answer[1 << 18];
    return server_ask(server, "GET /metrics HTTP/1.0\r\n\r\n", answer, sizeof answer) &&
           strstr(answer, "\netcd_server_is_leader 1") != NULL;
}

int etcd_server_leader(struct server *const members[], int count) {
    struct stage *stage = members[0]->stage;
    int64_t deadline_ns = stage_in_ms(STAGE_PATIENCE_MS);
    while (!stage_failed(stage)) {
        for (int i = 0; i < count; i++) {
            if (process_runs(&members[i]->process) && leads(members[i]))
                return i;
        }
        if (!stage_patience(stage, deadline_ns))
            stage_fail(stage, "etcd has no leader");
    }
    return 0;
}

/* ---- the server ---- */

/* A lease may live for 1.5 election timeouts at least; so they are short. A member that skips most of its
 * first election timeout, etcd's default, often deposes a leader that has not found it yet. Nothing is
 * fsynced: what a process wrote outlives its SIGKILL in the kernel, and no play takes the power away. */
static void prepare(struct server *server, const char *cluster, int peer_port) {
    server->is_ready = is_ready;
    server_add_args(server, "etcd", "--name", server->name, "--data-dir", server->directory, "--logger",
                    "zap", "--log-outputs", "stderr", "--heartbeat-interval", "30", "--election-timeout",
                    "300", "--initial-election-tick-advance=false", "--unsafe-no-fsync", "--initial-cluster",
                    cluster, NULL);
    server_add_arg(server, "--listen-client-urls=http://127.0.0.1:%d", server->port);
    server_add_arg(server, "--advertise-client-urls=http://127.0.0.1:%d", server->port);
    server_add_arg(server, "--listen-peer-urls=http://127.0.0.1:%d", peer_port);
    server_add_arg(server, "--initial-advertise-peer-urls=http://127.0.0.1:%d", peer_port);
}

/* Two new members that ask each other, before either can answer, whether they really are new, wait for two
 * seconds. So one starts after the other serves its peers. */
static void await_peer_port(const struct server *server) {
    int64_t deadline_ns = stage_in_ms(STAGE_PATIENCE_MS);
    char line[1024];
    bool serves = false;
    while (!serves && !stage_failed(server->stage)) {
        FILE *log = fopen(server->log, "re");
        while (log != NULL && fgets(line, sizeof line, log) != NULL)
            serves = serves || strstr(line, "serving peer traffic") != NULL;
        if (log != NULL)
            fclose(log);
        if (!serves && !stage_patience(server->stage, deadline_ns))
            stage_fail(server->stage, "%s does not start", server->name);
    }
}

void etcd_server_start(struct stage *stage, const char *name, int count, struct server *members[]) {
    char cluster[256] = "";
    int peer_ports[ETCD_SERVERS_MAX];
    for (int i = 0; i < count; i++) {
        char member[SERVER_NAME_SIZE];
        size_t length = strlen(cluster);
        snprintf(member, sizeof member, count > 1 ? "%.20s-%d" : "%.20s", name, i + 1);
        members[i] = server_new(stage, member);
        peer_ports[i] = process_free_port();
        snprintf(cluster + length, sizeof cluster - length, "%s%s=http://127.0.0.1:%d", i > 0 ? "," : "",
                 member, peer_ports[i]);
    }
    for (int i = 0; i < count; i++) {
        prepare(members[i], cluster, peer_ports[i]);
        server_spawn(members[i]);
        if (count > 1)
            await_peer_port(members[i]);
    }
    for (int i = 0; i < count; i++)
        server_await(members[i]);
    if (!stage_failed(stage))
        add_version(members[0]);
}

void etcd_server_url(char url[ETCD_SERVER_URL_SIZE], struct server *const members[], int count) {
    int length = snprintf(url, ETCD_SERVER_URL_SIZE, "etcd://");
    for (int i = 0; i < count; i++)
        length += snprintf(url + length, ETCD_SERVER_URL_SIZE - (size_t)length, "%s127.0.0.1:%d",
                           i > 0 ? "," : "", members[i]->port);
}

/* ---- leases ---- */

static bool revoke_newest(struct etcd *etcd, const char *prefix) {
    const struct etcd_range range = {.key = etcd_text(prefix),
                                     .prefix = true,
                                     .limit = 1,
                                     .order = ETCD_DESCENDING,
                                     .sort_by = ETCD_CREATE_REVISION};
    struct etcd_reply *reply;
    if (etcd_range(etcd, &range, NULL, &reply) != ETCD_OK)
        return false;
    bool revoked = reply->kv_count > 0 && etcd_lease_revoke(etcd, reply->kvs[0].lease, NULL) == ETCD_OK;
    etcd_reply_free(reply);
    return revoked;
}

void etcd_server_revoke_newest(const struct server *server, const char *prefix) {
    char endpoint[32], error[ETCD_ERROR_SIZE];
    struct etcd *etcd;
    if (stage_failed(server->stage))
        return;
    snprintf(endpoint, sizeof endpoint, "127.0.0.1:%d", server->port);
    const struct etcd_config config = {.endpoints = endpoint};
    if (etcd_open(&config, &etcd, error, sizeof error) != ETCD_OK) {
        stage_fail(server->stage, "%s: %s", server->name, error);
        return;
    }
    if (!revoke_newest(etcd, prefix))
        stage_fail(server->stage, "%s: no lease below %s could be ended", server->name, prefix);
    etcd_close(etcd);
}
