/* A master, its replicas, and private Sentinels. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "test/harness.h"

enum { READY_MS = 30000 };

/* One that hears late of a promotion takes the new master for dead within a short `down_ms`, and has the
 * second replica promoted instead. */
static void start_sentinel(struct redis_server *sentinel, const struct redis_server *master, int down_ms) {
    sentinel->port = harness_free_port();
    snprintf(sentinel->dir, sizeof sentinel->dir, "%s/sentinel-%d", harness_dir(), sentinel->port);
    CHECK_INT(mkdir(sentinel->dir, 0700), 0);
    const char *path = harness_format("%s/sentinel.conf", sentinel->dir);
    FILE *file = fopen(path, "we");
    CHECK(file);
    fprintf(file,
            "port %d\nbind 127.0.0.1\ndir %s\nlogfile \"\"\n"
            "sentinel monitor shop 127.0.0.1 %d 2\n"
            "sentinel down-after-milliseconds shop %d\n"
            "sentinel failover-timeout shop 3000\n",
            sentinel->port, sentinel->dir, master->port, down_ms);
    CHECK_INT(fclose(file), 0);
    const char *argv[] = {"redis-server", path, "--sentinel", NULL};
    proc_spawn(&sentinel->proc, argv, NULL, harness_format("%s.log", sentinel->dir));
}

/* The servers are known at once, the other Sentinels one by one. */
static bool know_all(void *arg) {
    const struct redis_sentinel *all = arg;
    for (int i = 0; i < REDIS_SENTINELS; i++) {
        const char *master = redis_command(&all->sentinel[i], "SENTINEL", "MASTER", "shop", NULL);
        const char *replicas = strstr(master, "num-slaves ");
        if (!replicas || strtol(replicas + strlen("num-slaves "), NULL, 10) < all->count - 1 ||
            !strstr(master, harness_format("num-other-sentinels %d ", REDIS_SENTINELS - 1)) ||
            !strstr(master, "flags master "))
            return false;
    }
    return true;
}

static void watch(struct redis_sentinel *sentinel) {
    for (int i = 0; i < REDIS_SENTINELS; i++)
        start_sentinel(&sentinel->sentinel[i], &sentinel->server[0], sentinel->count > 2 ? 2000 : 700);
    CHECK(harness_wait(know_all, sentinel, READY_MS));
}

static void start_servers(struct redis_sentinel *sentinel, int replicas) {
    redis_start(&sentinel->server[0], NULL);
    for (sentinel->count = 1; sentinel->count <= replicas; sentinel->count++)
        redis_start_replica(&sentinel->server[sentinel->count], &sentinel->server[0]);
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
        if (proc_running(&server->proc) && strstr(redis_command(server, "ROLE", NULL), "[master"))
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
