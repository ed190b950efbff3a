/* A bounded pool of threads for jobs that block. */
#ifndef SERVICE_BACKGROUND_BLOCKING_POOL_H
#define SERVICE_BACKGROUND_BLOCKING_POOL_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

/* Lives in the caller's data until `run` has been called. */
struct pool_job {
    STAILQ_ENTRY(pool_job) next;
    void (*run)(struct pool_job *job);
    int64_t since_ns; /* when it was submitted, of CLOCK_MONOTONIC */
};

struct pool;

/* Starts the threads. `limit` returns how many jobs may run at once now; one may always run. While that is
 * less than `threads`, a thread rests after a job for seven times as long as the job took, 0.1 s at most. Any
 * thread of the pool may call `limit`. NULL on failure. */
struct pool *pool_open(int threads, int queue_max, int (*limit)(void *ctx), void *ctx);

/* From any thread: queues the job. False: the queue is full. */
bool pool_submit(struct pool *pool, struct pool_job *job);

struct pool_metrics {
    int waiting; /* jobs in the queue now */
    uint64_t begun, refused;
    int64_t wait_ns; /* how long the jobs that have begun waited, in all */
};

void pool_read_metrics(struct pool *pool, struct pool_metrics *metrics);

/* Runs the jobs in the queue, then ends the threads, and waits for that. NULL is fine. */
void pool_close(struct pool *pool);

#endif
