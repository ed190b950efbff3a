/* Private ZooKeeper servers, and a look into what they keep. */
#include "test/harness.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#define THREADED /* which of its two libraries the header is for */
#include <zookeeper/zookeeper.h>

enum { START_MS = 30000, SESSION_MS = 10000, MAX_SERVERS = 3 };

/* ---- the servers ---- */

const char *zookeeper_ask(const struct zookeeper_server *server, const char *word) {
    struct web_conn conn;
    struct timeval patience = {.tv_usec = 300000}; /* one that only begins to listen never answers */
    char text[16384];
    size_t length = 0;
    if (!web_open(&conn, server->port))
        return "";
    setsockopt(conn.fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    ssize_t got = send(conn.fd, word, strlen(word), MSG_NOSIGNAL);
    while (got > 0 && (got = recv(conn.fd, text + length, sizeof text - 1 - length, 0)) > 0)
        length += (size_t)got;
    web_close(&conn);
    text[length] = '\0';
    return harness_format("%s", text);
}

static bool serves_or_is_dead(void *arg) {
    struct zookeeper_server *server = arg;
    return strstr(zookeeper_ask(server, "srvr"), "Mode: ") || !proc_running(&server->proc);
}

static void wait_until_it_serves(struct zookeeper_server *server) {
    if (!harness_wait(serves_or_is_dead, server, START_MS) || !proc_running(&server->proc))
        FAIL("ZooKeeper on port %d does not serve", server->port);
}

/* `members`: NULL at the end; its own is number `id`, 0: it is alone. */
static void spawn(struct zookeeper_server *server, int id, const char *const *members) {
    const char *argv[6 + MAX_SERVERS] = {"deploy/zookeeper.sh", "one"};
    const char *const env[] = {"ZOOKEEPER_TICK_MS=200", "ZOOKEEPER_CONTAINER_MS=300", NULL};
    size_t n = 2;
    server->port = harness_free_port();
    snprintf(server->dir, sizeof server->dir, "%s/zookeeper-%d", harness_dir(), server->port);
    argv[n++] = server->dir;
    argv[n++] = harness_format("%d", server->port);
    if (id)
        argv[n++] = harness_format("%d", id);
    while (id && *members)
        argv[n++] = *members++;
    proc_spawn(&server->proc, argv, env, harness_format("%s.log", server->dir));
}

void zookeeper_start(struct zookeeper_server *server) {
    spawn(server, 0, NULL);
    wait_until_it_serves(server);
}

void zookeeper_start_ensemble(struct zookeeper_server servers[], int count) {
    const char *members[MAX_SERVERS + 1] = {NULL};
    CHECK(count <= MAX_SERVERS);
    for (int i = 0; i < count; i++)
        members[i] = harness_format("%d:%d", harness_free_port(), harness_free_port());
    for (int i = 0; i < count; i++)
        spawn(&servers[i], i + 1, members);
    for (int i = 0; i < count; i++)
        wait_until_it_serves(&servers[i]);
}

int zookeeper_leader(const struct zookeeper_server servers[], int count) {
    for (int i = 0; i < count; i++) {
        if (strstr(zookeeper_ask(&servers[i], "srvr"), "Mode: leader"))
            return i;
    }
    FAIL("none of %d servers leads", count);
}

static void end(struct zookeeper_server *server, int signal) {
    int status;
    proc_kill(&server->proc, signal);
    CHECK(proc_wait(&server->proc, START_MS, &status));
}

void zookeeper_kill(struct zookeeper_server *server) {
    end(server, SIGKILL);
}

void zookeeper_restart(struct zookeeper_server *server) {
    proc_respawn(&server->proc);
    wait_until_it_serves(server);
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
