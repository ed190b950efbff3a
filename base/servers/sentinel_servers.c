#include "base/servers/local_servers.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { READY_MS = 30000, QUORUM = 2, FAILOVER_TIMEOUT_MS = 3000, NUM_SIZE = 32 };

/* ---- one ---- */

static const char *sentinel_write_config(const char *path, const struct redis_server *sentinel,
                                         const struct sentinel_watch *watch) {
    FILE *file = fopen(path, "we");
    if (!file)
        return proc_failure("%s: %s", path, strerror(errno));
    fprintf(file,
            "port %d\nbind 127.0.0.1\ndir %s\nlogfile \"\"\n"
            "sentinel monitor %s 127.0.0.1 %d %d\n"
            "sentinel down-after-milliseconds %s %d\n"
            "sentinel failover-timeout %s %d\n",
            sentinel->port, sentinel->dir, watch->name, watch->master_port, watch->quorum, watch->name,
            watch->down_after_ms, watch->name, watch->failover_timeout_ms);
    return fclose(file) == 0 ? NULL : proc_failure("%s: %s", path, strerror(errno));
}

const char *sentinel_server_start(struct redis_server *sentinel, const char *dir,
                                  const struct sentinel_watch *watch) {
    char config[LOCAL_SERVER_DIR_SIZE + 16];
    const char *argv[] = {"redis-server", config, "--sentinel", NULL};
    *sentinel = (struct redis_server){0};
    const char *error = local_server_place(&sentinel->port, sentinel->dir, dir);
    snprintf(config, sizeof config, "%s/sentinel.conf", sentinel->dir);
    if (!error)
        error = sentinel_write_config(config, sentinel, watch);
    return error ? error : local_server_spawn(&sentinel->proc, argv, NULL, sentinel->dir);
}

static bool sentinel_answers(void *arg) {
    char masters[NUM_SIZE];
    redis_server_info(arg, "sentinel_masters", masters, sizeof masters);
    return masters[0] != '\0';
}

const char *sentinel_server_await(struct redis_server *sentinel) {
    return local_server_await(&sentinel->proc, sentinel_answers, sentinel, READY_MS);
}

/* ---- three ---- */

/* A Sentinel knows the servers at once, and the other Sentinels one by one. */
static bool sentinels_know_all(void *arg) {
    const struct redis_sentinel *all = arg;
    char others[NUM_SIZE];
    bool know = true;
    snprintf(others, sizeof others, "num-other-sentinels %d ", REDIS_SENTINELS - 1);
    for (int i = 0; i < REDIS_SENTINELS && know; i++) {
        char *master = redis_server_do(&all->sentinel[i], "SENTINEL", "MASTER", "shop", NULL);
        const char *replicas = strstr(master, "num-slaves ");
        know = replicas && strtol(replicas + strlen("num-slaves "), NULL, 10) >= all->count - 1 &&
               strstr(master, others) && strstr(master, "flags master ");
        free(master);
    }
    return know;
}

/* With two replicas a Sentinel that hears late of a promotion would take the new master for dead within a
 * short down-after, and have the other replica promoted instead. */
const char *sentinel_servers_watch(struct redis_sentinel *all, const char *under) {
    const struct sentinel_watch watch = {.name = "shop",
                                         .master_port = all->server[0].port,
                                         .quorum = QUORUM,
                                         .down_after_ms = all->count > 2 ? 2000 : 700,
                                         .failover_timeout_ms = FAILOVER_TIMEOUT_MS};
    for (int i = 0; i < REDIS_SENTINELS; i++) {
        char dir[LOCAL_SERVER_DIR_SIZE + 40];
        snprintf(dir, sizeof dir, "%s/sentinel-%d-of-%d", under, i + 1, watch.master_port);
        const char *error = sentinel_server_start(&all->sentinel[i], dir, &watch);
        if (error)
            return error;
    }
    return proc_poll(sentinels_know_all, all, READY_MS) ? NULL : "the Sentinels do not find each other";
}
