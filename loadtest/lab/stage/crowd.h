/* A crowd that buys: seckill-load against a seckilld. It tells its progress while it buys, and in the end
 * what it was told. Called from the main thread. */
#ifndef LOADTEST_LAB_STAGE_CROWD_H
#define LOADTEST_LAB_STAGE_CROWD_H

#include "loadtest/lab/stage/seckilld_server.h"

struct crowd_options {
    const char *item;
    int64_t connections;
    int64_t users;
    int64_t requests; /* 0: as many as fit into `seconds` */
    int64_t seconds;
};

struct crowd_progress {
    double seconds; /* since its begin */
    int64_t accepted, rejected, unknown;
    int64_t p50_us, p99_us; /* of the answers since the line before */
};

struct crowd_result {
    int64_t accepted;
    double per_second, p99_ms;
};

struct crowd {
    const struct server *service;
    const char *item;
    struct process process;
    FILE *lines; /* of its progress; NULL: there are none yet */
    char progress[SERVER_PATH_SIZE], json[SERVER_PATH_SIZE];
};

/* Fails the stage if it cannot be started. */
void crowd_start(struct crowd *crowd, const struct server *service, const struct crowd_options *options);
/* The newest progress; false: there is nothing new. */
bool crowd_read_progress(struct crowd *crowd, struct crowd_progress *progress);
/* It stops buying, and counts what it was told. */
void crowd_stop(const struct crowd *crowd);
/* False: it still buys, or counts. */
bool crowd_has_ended(struct crowd *crowd);
/* Waits for its end, and reads what came of it. False, and the stage has failed: nothing did. */
bool crowd_finish(struct crowd *crowd, struct crowd_result *result);
/* Records what it was told, and the stock as the service counts it from the orders. `op` is new. False, and
 * the stage has failed: there is no audit. */
bool crowd_record(const struct crowd *crowd, const struct crowd_result *result, uint64_t op,
                  struct seckilld_audit *audit);

#endif
