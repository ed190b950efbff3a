/* Private ZooKeeper servers, and a look into what they keep. */
#include "test/harness.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#define THREADED /* which of its two libraries the header is for */
#include <zookeeper/zookeeper.h>

enum { START_MS = 30000, SESSION_MS = 10000, TICK_MS = 200, SESSION_MAX_MS = 60000, ANSWER_SIZE = 16384 };

/* ---- the servers ---- */

const char *zookeeper_ask(const struct zookeeper_server *server, const char *word) {
    char *answer = harness_alloc(ANSWER_SIZE);
    zookeeper_server_ask(server, word, answer, ANSWER_SIZE);
    return answer;
}

/* An empty container goes within 300 ms, not after minutes. */
static void start(struct zookeeper_server servers[], int count, int session_max_ms) {
    const struct zookeeper_options options = {.tick_ms = TICK_MS,
                                              .session_max_ms = session_max_ms,
                                              .java_option = "-Dznode.container.checkIntervalMs=300"};
    const char *error = zookeeper_servers_start(servers, count, harness_path("zookeeper"), &options);
    for (int i = 0; i < count; i++)
        harness_own(&servers[i].proc);
    MUST(error);
}

void zookeeper_start(struct zookeeper_server *server) {
    start(server, 1, SESSION_MAX_MS);
}

void zookeeper_start_bounded(struct zookeeper_server *server, int session_max_ms) {
    start(server, 1, session_max_ms);
}

void zookeeper_start_ensemble(struct zookeeper_server servers[], int count) {
    start(servers, count, SESSION_MAX_MS);
}

int zookeeper_leader(const struct zookeeper_server servers[], int count) {
    for (int i = 0; i < count; i++) {
        if (strstr(zookeeper_ask(&servers[i], "srvr"), "Mode: leader"))
            return i;
    }
    FAIL("none of %d servers leads", count);
}

void zookeeper_kill(struct zookeeper_server *server) {
    MUST(proc_end(&server->proc, SIGKILL, START_MS));
}

void zookeeper_restart(struct zookeeper_server *server) {
    MUST(zookeeper_server_restart(server));
}

void zookeeper_pause(struct zookeeper_server *server) {
    proc_kill(&server->proc, SIGSTOP);
}

void zookeeper_resume(struct zookeeper_server *server) {
    proc_kill(&server->proc, SIGCONT);
}

/* ---- what it keeps ---- */

static void log_nothing(const char *message) {
    (void)message;
}

static zhandle_t *open_client(const struct zookeeper_server *server) {
    zhandle_t *client = zookeeper_init2(harness_format("127.0.0.1:%d", server->port), NULL, SESSION_MS, NULL,
                                        NULL, ZOO_NO_LOG_CLIENTENV, log_nothing);
    if (!client)
        FAIL("no ZooKeeper client");
    return client;
}

static int compare(const void *a, const void *b) {
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Until its server serves. */
static bool is_lost(int rc, int64_t until_ms) {
    return (rc == ZCONNECTIONLOSS || rc == ZOPERATIONTIMEOUT) && harness_now_ms() < until_ms;
}

const char *zookeeper_list(const struct zookeeper_server *server, const char *path) {
    struct String_vector names = {.count = 0};
    zhandle_t *client = open_client(server);
    int64_t until_ms = harness_now_ms() + START_MS;
    int rc;
    do
        rc = zoo_get_children(client, path, 0, &names);
    while (is_lost(rc, until_ms));
    zookeeper_close(client);
    if (rc == ZNONODE)
        return "(none)";
    if (rc != ZOK)
        FAIL("children of %s: %s", path, zerror(rc));
    if (names.count > 0)
        qsort(names.data, (size_t)names.count, sizeof names.data[0], compare);
    char *text = harness_format("%s", "");
    for (int i = 0; i < names.count; i++)
        text = harness_format("%s%s%s", text, i ? " " : "", names.data[i]);
    deallocate_String_vector(&names);
    return text;
}

void zookeeper_delete(const struct zookeeper_server *server, const char *path) {
    zhandle_t *client = open_client(server);
    int64_t until_ms = harness_now_ms() + START_MS;
    bool lost = false;
    int rc;
    while (is_lost(rc = zoo_delete(client, path, -1), until_ms))
        lost = true;
    zookeeper_close(client);
    if (rc != ZOK && !(lost && rc == ZNONODE))
        FAIL("delete %s: %s", path, zerror(rc));
}
