/* A sale of a play: a seckilld, and a crowd that buys from it, which is seckill-load. All calls come from the
 * main thread. */
#ifndef LOADTEST_LAB_STAGE_STAGE_SALE_H
#define LOADTEST_LAB_STAGE_STAGE_SALE_H

#include "loadtest/lab/stage/stage_servers.h"

/* ---- seckilld ---- */

/* Of all admin calls in the lab. */
#define SECKILLD_ADMIN_TOKEN "lab"

/* On the Redis at `redis_port`, with these options; NULL at the end. */
struct server *stage_start_seckilld(struct stage *stage, const char *name, int redis_port,
                                    const char *const options[]);
/* Makes one request with the right to do everything; see seckilld_server_call(). `key`: its Idempotency-Key,
 * or NULL. */
int server_call(const struct server *server, const char *method, const char *path, const char *key,
                const char *body, char *answer, size_t size);
/* Makes an item; fails the stage if it is not made. */
void server_put_item(const struct server *server, const char *item, const char *terms);

struct seckilld_audit {
    long long stock, available, sold;
};
/* The stock of an item, as the service counts it from the orders. False: there is no answer. */
bool server_read_audit(const struct server *server, const char *item, struct seckilld_audit *audit);
/* The same, as the item itself says. */
bool server_read_item(const struct server *server, const char *item, struct seckilld_audit *audit);

/* ---- the crowd: it tells its progress while it buys, and in the end what it was told ---- */

struct crowd_options {
    const char *item;
    int64_t connections;
    int64_t users;
    int64_t requests; /* 0: as many as fit into `seconds` */
    int64_t seconds;
};

struct crowd_progress {
    double seconds; /* since its begin */
    long long accepted, rejected, unknown;
    long long p50_us, p99_us; /* of the answers since the line before */
};

struct crowd_result {
    long long accepted;
    double per_second, p99_ms;
    struct seckilld_audit audit; /* of the item, after the crowd */
};

struct crowd {
    const struct server *service;
    const char *item;
    struct proc proc;
    FILE *lines; /* of its progress; NULL: none was written yet */
    char progress[SERVER_PATH_SIZE], json[SERVER_PATH_SIZE];
};

/* Fails the stage if it cannot be started. */
void crowd_start(struct crowd *crowd, const struct server *service, const struct crowd_options *options);
/* The newest progress; false: there is nothing new. */
bool crowd_read_progress(struct crowd *crowd, struct crowd_progress *progress);
/* Tells it to stop buying; it then counts what it was told. */
void crowd_stop(const struct crowd *crowd);
/* False while it buys or counts. */
bool crowd_has_ended(struct crowd *crowd);
/* Blocks until its end, and reads its result. Records what it was told, under the new number `op`, and the
 * stock as the service counts it from the orders. False: there is no result or no audit, and the stage has
 * failed. */
bool crowd_finish(struct crowd *crowd, uint64_t op, struct crowd_result *result);

#endif
