/* Everything off the purchase path, except the lock switch (lock_switch.h): the pool for jobs that block, the
 * background thread, and what that thread does for all. */
#ifndef SERVICE_BACKGROUND_BACKGROUND_H
#define SERVICE_BACKGROUND_BACKGROUND_H

#include <semaphore.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "base/clock.h"
#include "service/background/lock_switch.h"
#include "service/loop_thread.h"

/* ---- a bounded pool of threads for jobs that block (blocking_pool.c) ---- */

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

/* ---- jobs under the locks of their items (blocking_pool.c) ---- */

/* A lock may block, and a loop must not. So a thread of the pool acquires the locks, has `work` called on the
 * loop thread `at`, waits for locked_job_done(), releases the locks, and has `end` called on the worker. If
 * the locks cannot be acquired, `work` is left out. Lives in the caller's data until `end`. */
struct locked_job {
    /* Filled in by the caller: */
    struct loop_thread *worker, *at;
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

/* ---- purchases go before baskets (purchases_first.c) ---- */

enum { POOL_THREADS = 32 };

struct purchases_first {
    _Atomic int64_t until_ns; /* purchases go first until then; for any thread */
    /* The background thread's own: */
    uint64_t sold;      /* purchases sold, when they were counted last */
    int64_t counted_ns; /* when that was */
    bool sold_many;     /* CROWD or more purchases were sold in the last period of CROWD_NS */
};

/* To be called by the background thread every LOCK_SWITCH_TICK_MS: counts the purchases that wait and those
 * that were sold. */
void purchases_first_count(struct service *service);
/* The limit of the pool, see pool_open(). `ctx` is the service. */
int purchases_first_limit(void *ctx);

/* ---- the store's clock (store_clock.c) ---- */

struct store_clock {
    struct clock clock; /* for any thread: monotonic time is this machine's, wall time the store's */
    const struct clock *machine;
    _Atomic int64_t ahead_ms; /* of the machine's monotonic time */
    _Atomic bool known;
    int64_t asked_ns; /* when store_clock_find() asked the store; 0: it has answered */
};

void store_clock_init(struct store_clock *clock, const struct clock *machine);

/* False before the first measurement: until then the wall time is the machine's. */
bool store_clock_is_known(const struct store_clock *clock);

/* Takes in a reply that took `took_ns` and tells the store's time. The background thread only. */
void store_clock_measure(struct store_clock *clock, int64_t took_ns, int64_t store_ms);

/* Asks the store for its time, until the clock is known. The background thread only. */
void store_clock_find(struct store_clock *clock, struct inventory *inventory);

/* ---- what the store can promise, as /readyz tells it (store_health.c) ---- */

/* The background thread asks the store, one call at a time and at most once a second, however many requests
 * want the answer. It also logs what is wrong. */
struct store_health {
    pthread_mutex_t mutex; /* of everything before `post` */
    struct inventory_health last;
    int64_t last_ns; /* when `last` was asked for; 0: never */
    bool asking;
    struct store_health_read *waiting;
    struct loop_post post; /* to the background thread */
    /* The background thread's own: */
    int64_t asking_since_ns;
    bool was_up;
    char logged[2][sizeof(((struct inventory_health *)0)->reason)];
};

/* Lives in the request. */
struct store_health_read {
    /* Called on the worker's thread, perhaps from within the call. */
    void (*done)(void *ctx, const struct inventory_health *health);
    void *ctx;
    /* Its own: */
    struct loop_thread *worker;
    struct loop_post post;
    struct store_health_read *next;
};

/* Reports what the store said less than a second ago, or asks it now. From the worker's thread. */
void store_health_read(struct loop_thread *worker, struct store_health_read *read);
/* To be called by the background thread some times a second: asks when the store has come (back), and now and
 * then. */
void store_health_tick(struct service *service);

/* ---- the background thread (background.c) ---- */

/* A loop thread for everything off the purchase path. It carries out the steps of baskets and transfers,
 * recovers what was left unfinished, expires holds, and keeps the lock switch alive. So the loops of the
 * workers, which are busy during a sale, neither delay it nor are delayed by it. */
struct background {
    struct loop_thread thread;
    unsigned ticks;         /* of its housekeeping */
    uv_timer_t heartbeat;   /* of the lock switch */
    int recovering;         /* transactions in recovery */
    int claiming;           /* the size of the claim in flight; 0: there is none */
    bool more;              /* the last claim was filled */
    int64_t leave_until_ms; /* by uv_now(): see background_leave_lock_switch() */
};

/* False on failure, with the reason in `error`. Its thread ends after all workers. */
bool background_open(struct background *background, struct service *service, char *error, size_t error_size);

/* ---- recovery (recovery.c) ---- */

/* Claims transactions that a process left unfinished, and held baskets that are due, no more than
 * RECOVERY_MAX at a time, and finishes each by what the journal says. Called about twice a second, on the
 * background thread. */
enum { RECOVERY_MAX = 16 };
void recovery_tick(struct background *background);

#endif
