/* A bounded pool of threads for jobs that block; and jobs under the locks of their items. */
#ifndef SERVICE_BACKGROUND_BLOCKING_POOL_H
#define SERVICE_BACKGROUND_BLOCKING_POOL_H

#include <semaphore.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "service/background/lock_switch.h"
#include "service/loop_thread.h"

struct worker;

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

/* ---- locked jobs ---- */

/* A job under the locks of its items. A lock may block, and a loop must not. So a thread of the pool acquires
 * the locks, has `work` called on the loop thread `at`, waits for locked_job_done(), releases the locks, and
 * has `end` called on the worker. If the locks cannot be acquired, `work` is left out. Lives in the caller's
 * data until `end`. */
struct locked_job {
    /* Filled in by the caller: */
    struct worker *worker;
    struct loop_thread *at;
    size_t count; /* items, INVENTORY_LINES_MAX at most */
    const char *(*item)(const struct locked_job *job, size_t i);
    void (*work)(struct locked_job *job);
    void (*end)(struct locked_job *job);

    /* Filled in before `work`: */
    struct lock_switch_use use;
    const struct lock_grant *grants; /* one for each item */
    enum lock_status locked;         /* also for `end`: the outcome of acquiring the locks */

    /* Its own: */
    struct pool_job pool_job;
    struct loop_post post;
    sem_t done;
};

/* False: too many wait, and nothing happens. */
bool locked_job_submit(struct locked_job *job);
/* The work is done: to be called once, from within `work` or later, on any thread. */
void locked_job_done(struct locked_job *job);

#endif
