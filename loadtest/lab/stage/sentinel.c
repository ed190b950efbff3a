#include "loadtest/lab/stage/sentinel.h"

#include <stdlib.h>
#include <string.h>

#include "loadtest/lab/stage/redis_server.h"

enum { DOWN_AFTER_MS = 400, FAILOVER_TIMEOUT_MS = 2000 };

/* It has asked the replica itself, which is in sync: so it may be promoted. */
static bool is_ready(const struct server *sentinel) {
    const char *replicas = redis_server_do(sentinel, "SENTINEL", "REPLICAS", "lab", NULL);
    return strstr(replicas, "master-link-status ok") != NULL;
}

static bool write_config(const struct server *sentinel, const char *file, int master_port) {
    FILE *out = fopen(file, "we");
    if (out == NULL)
        return false;
    fprintf(out,
            "port %d\nbind 127.0.0.1\ndir %s\nsentinel monitor lab 127.0.0.1 %d 1\n"
            "sentinel down-after-milliseconds lab %d\nsentinel failover-timeout lab %d\n",
            sentinel->port, sentinel->directory, master_port, DOWN_AFTER_MS, FAILOVER_TIMEOUT_MS);
    return fclose(out) == 0;
}

/* By default Sentinel asks every ten seconds who the replicas are, and takes a timer that is two seconds late
 * for a broken clock, after which it does nothing for thirty. It promotes only a replica that has answered
 * within five ping periods: on a busy machine these must not be too short either. */
static void shorten_periods(const struct server *sentinel) {
    redis_server_do(sentinel, "SENTINEL", "DEBUG", "info-period", "200", "ping-period", "200", "ask-period",
                    "200", "publish-period", "200", NULL);
    redis_server_do(sentinel, "SENTINEL", "DEBUG", "tilt-trigger", "10000", "tilt-period", "1000", NULL);
}

static bool answers(const struct server *sentinel) {
    return redis_server_info(sentinel, "sentinel_masters")[0] != '\0';
}

struct server *sentinel_start(struct stage *stage, const char *name, int master_port) {
    struct server *sentinel = server_new(stage, name);
    char file[SERVER_PATH_SIZE + 8];
    snprintf(file, sizeof file, "%s.conf", sentinel->directory);
    if (!write_config(sentinel, file, master_port))
        stage_fail(stage, "cannot write %s", file);
    server_add_args(sentinel, "redis-server", file, "--sentinel", NULL);
    server_spawn(sentinel);
    sentinel->is_ready = answers;
    server_await(sentinel);
    shorten_periods(sentinel);
    sentinel->is_ready = is_ready;
    server_await(sentinel);
    return sentinel;
}

void sentinel_await_promotion(struct server *sentinel, int old_port, const struct server *promoted) {
    struct stage *stage = sentinel->stage;
    int64_t deadline_ns = stage_in_ms(STAGE_PATIENCE_MS);
    for (;;) {
        const char *address = redis_server_do(sentinel, "SENTINEL", "get-master-addr-by-name", "lab", NULL);
        long named = strrchr(address, ' ') != NULL ? strtol(strrchr(address, ' '), NULL, 10) : 0;
        if (stage_failed(stage) ||
            (named != 0 && named != old_port && strcmp(redis_server_info(promoted, "role"), "master") == 0))
            break;
        if (!stage_patience(stage, deadline_ns))
            stage_fail(stage, "%s promotes nobody%s", sentinel->name,
                       strcmp(redis_server_info(sentinel, "sentinel_tilt"), "1") == 0 ? ": it is in TILT"
                                                                                      : "");
    }
    server_record_role(promoted, "master");
}
