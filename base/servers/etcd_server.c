#include "base/servers/local_servers.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CALL_MS = 1000, ANSWER_SIZE = 8192, URL_SIZE = 64 };
enum { ARGS_MAX = 128, MEMBER_SIZE = 128, WORDS_SIZE = 2048 };

/* ---- what it says over HTTP ---- */

/* False: no answer, or not 200. */
static bool etcd_call(const struct etcd_server *etcd, const char *request, char answer[ANSWER_SIZE]) {
    return local_server_ask(etcd->host, etcd->port, request, answer, ANSWER_SIZE, CALL_MS) &&
           strncmp(answer + strcspn(answer, " "), " 200 ", 5) == 0;
}

/* Healthy is: it knows a leader, and a read got the consent of a majority. */
static bool etcd_is_healthy(void *arg) {
    char answer[ANSWER_SIZE];
    return etcd_call(arg, "GET /health HTTP/1.0\r\n\r\n", answer) && strstr(answer, "\"true\"");
}

static bool log_has(const struct etcd_server *etcd, const char *text) {
    char *log = proc_read_log(etcd->proc.record, 1L << 30);
    bool has = strstr(log, text);
    free(log);
    return has;
}

static bool etcd_listens_securely(void *etcd) {
    return log_has(etcd, "serving client traffic securely");
}

static bool etcd_serves_peers(void *etcd) {
    return log_has(etcd, "serving peer traffic");
}

static const char *etcd_await(struct etcd_server *etcd) {
    return local_server_await(&etcd->proc, etcd->tls ? etcd_listens_securely : etcd_is_healthy, etcd,
                              ETCD_SERVER_START_MS);
}

static const char *etcd_await_all(struct etcd_server members[], int count) {
    const char *error = NULL;
    for (int i = 0; !error && i < count; i++)
        error = etcd_await(&members[i]);
    return error;
}

/* ---- starting ---- */

const char *etcd_server_prepare(struct etcd_server *etcd, const char *dir) {
    bool apart = etcd->net.number != 0;
    etcd->proc = (struct proc){0};
    etcd->peer_port = local_server_free_port();
    snprintf(etcd->host, sizeof etcd->host, "%s", apart ? etcd->net.address : "127.0.0.1");
    snprintf(etcd->peer_host, sizeof etcd->peer_host, "%s", apart ? etcd->net.peer_address : "127.0.0.1");
    const char *error = local_server_place(&etcd->port, etcd->dir, dir);
    if (!etcd->name[0])
        snprintf(etcd->name, sizeof etcd->name, "m%d", etcd->port);
    return error;
}

static void etcd_peer_url(const struct etcd_server *etcd, char url[URL_SIZE]) {
    snprintf(url, URL_SIZE, "http://%s:%d", etcd->peer_host, etcd->peer_port);
}

/* "NAME=URL,NAME=URL", as --initial-cluster wants it. */
static void etcd_cluster(const struct etcd_server members[], int count, char *cluster, size_t size) {
    size_t length = 0;
    for (int i = 0; i < count && length < size; i++) {
        char url[URL_SIZE];
        etcd_peer_url(&members[i], url);
        length +=
            (size_t)snprintf(cluster + length, size - length, "%s%s=%s", i ? "," : "", members[i].name, url);
    }
}

/* `state`: whether the cluster is "new" or "existing". A member that skips most of its first election
 * timeout, etcd's default, often deposes a leader that has not found it yet. With the reconfiguration check a
 * new member is not added before the others are together for 5 s. */
static const char *etcd_spawn(struct etcd_server *etcd, const struct etcd_server members[], int count,
                              const char *state) {
    char cluster[ETCD_SERVERS_MAX * MEMBER_SIZE] = "", words[WORDS_SIZE];
    char client[URL_SIZE], peer[URL_SIZE], door[80];
    const char *argv[ARGS_MAX] = {"nsenter", door, "etcd", "--name", etcd->name, "--data-dir", etcd->dir};
    etcd_cluster(members, count, cluster, sizeof cluster);
    etcd_peer_url(etcd, peer);
    snprintf(client, sizeof client, "%s://%s:%d", etcd->tls ? "https" : "http", etcd->host, etcd->port);
    snprintf(door, sizeof door, "--net=%s", etcd->net.door);
    snprintf(words, sizeof words,
             "--logger zap --log-outputs stderr --listen-client-urls %s --advertise-client-urls %s "
             "--listen-peer-urls %s --initial-advertise-peer-urls %s "
             "--initial-cluster %s --initial-cluster-state %s "
             "--heartbeat-interval 30 --election-timeout 300 --initial-election-tick-advance=false "
             "--strict-reconfig-check=false --unsafe-no-fsync",
             client, client, peer, peer, cluster, state);
    const char *error = local_server_add_words(argv, ARGS_MAX, words);
    if (!error && etcd->options)
        error = local_server_add_options(argv, ARGS_MAX, etcd->options);
    return error ? error
                 : local_server_spawn(&etcd->proc, etcd->net.number ? argv : argv + 2, NULL, etcd->dir);
}

/* A new member first asks the others whether it really is new. Of two that ask each other before they can
 * answer, each waits for two seconds: so one starts after the other. */
const char *etcd_servers_start(struct etcd_server members[], int count) {
    const char *error = NULL;
    for (int i = 0; !error && i < count; i++) {
        error = etcd_spawn(&members[i], members, count, "new");
        if (!error && count > 1)
            error =
                local_server_await(&members[i].proc, etcd_serves_peers, &members[i], ETCD_SERVER_START_MS);
    }
    return error ? error : etcd_await_all(members, count);
}

const char *etcd_server_join(struct etcd_server members[], int count, int which) {
    const char *error = etcd_spawn(&members[which], members, count, "existing");
    return error ? error : etcd_await(&members[which]);
}

const char *etcd_servers_restart(struct etcd_server members[], int count) {
    const char *error = NULL;
    for (int i = 0; !error && i < count; i++) {
        if (!proc_running(&members[i].proc))
            error = proc_restart(&members[i].proc);
    }
    return error ? error : etcd_await_all(members, count);
}

/* ---- the leader ---- */

/* The number in "NAME":"123"; 0 if it is not there. */
static unsigned long long number_of(const char *answer, const char *name) {
    char text[40];
    snprintf(text, sizeof text, "\"%s\":\"", name);
    const char *at = strstr(answer, text);
    return at ? strtoull(at + strlen(text), NULL, 10) : 0;
}

struct election {
    const struct etcd_server *members;
    int count, leader;
};

static bool etcd_takes_part(const struct etcd_server *etcd) {
    return proc_running(&etcd->proc) && !etcd->paused && !etcd->net.cut;
}

/* All who take part name the same leader, and it is one of them. */
static bool etcd_agree(void *arg) {
    struct election *election = arg;
    unsigned long long named = 0;
    election->leader = -1;
    for (int i = 0; i < election->count; i++) {
        char answer[ANSWER_SIZE];
        if (!etcd_takes_part(&election->members[i]))
            continue;
        if (!etcd_call(&election->members[i],
                       "POST /v3/maintenance/status HTTP/1.0\r\nContent-Length: 2\r\n\r\n{}", answer))
            return false;
        unsigned long long its = number_of(answer, "leader");
        if (!its || (named && its != named))
            return false;
        named = its;
        if (number_of(answer, "member_id") == its)
            election->leader = i;
    }
    return election->leader >= 0;
}

const char *etcd_servers_leader(const struct etcd_server members[], int count, int *leader) {
    struct election election = {.members = members, .count = count};
    int part = 0;
    for (int i = 0; i < count; i++)
        part += etcd_takes_part(&members[i]);
    if (2 * part <= count)
        return proc_failure("%d of %d members of etcd cannot elect a leader", part, count);
    if (!proc_poll(etcd_agree, &election, ETCD_SERVER_START_MS))
        return proc_failure("%d of %d members of etcd do not agree on a leader", part, count);
    *leader = election.leader;
    return NULL;
}
