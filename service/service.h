/* The service: its threads, what they count, and what they share. */
#ifndef SERVICE_SERVICE_H
#define SERVICE_SERVICE_H

#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <uv.h>

#include "base/metric.h"
#include "inventory/inventory.h"
#include "service/background/blocking_pool.h"
#include "service/background/lock_switch.h"
#include "service/background/store_clock.h"
#include "service/config.h"
#include "service/http/http_server.h"

struct service;

/* ---- metrics (metrics.c) ---- */

enum { METRICS_BUCKETS = 16 };

/* The outcome of a purchase, basket or transfer: an inventory_status, or that its lock could not be acquired.
 */
enum { METRICS_LOCK_UNAVAILABLE = INVENTORY_UNKNOWN + 1, METRICS_OUTCOMES };

/* Returns the outcome. `locked` is that of acquiring the locks; LOCK_OK also if none was needed. */
int metrics_outcome(enum inventory_status status, enum lock_status locked);

struct metrics_histogram {
    _Atomic uint64_t buckets[METRICS_BUCKETS];
    _Atomic uint64_t sum_ns;
};

/* What a loop thread counts. That thread alone writes it; the thread that answers /metrics reads it. */
struct metrics {
    _Atomic uint64_t purchases[METRICS_OUTCOMES];
    _Atomic uint64_t baskets[METRICS_OUTCOMES], transfers[METRICS_OUTCOMES];
    _Atomic uint64_t recovered[2];           /* attempts to recover a transaction: failed, finished */
    _Atomic uint64_t responses[6];           /* by the first digit of the status */
    struct metrics_histogram sold, rejected; /* time until the answer of a purchase */
    struct metrics_histogram transactions_made, transactions_rejected; /* the same of baskets and transfers */
    struct metrics_histogram transactions_aborted; /* how long they held units that they gave back */
};

/* Adds a duration to the histogram. */
void metrics_time(struct metrics_histogram *histogram, int64_t ns);

/* Prints the text of /metrics, summed over all loop threads; the caller frees it. NULL when out of memory. */
char *metrics_print(const struct service *service, const struct pool_metrics *pool,
                    const struct lock_switch_metrics *lock_switch, size_t *length);

/* ---- loop threads (loop_thread.c) ---- */

/* A post: work that any thread hands to a loop thread. Lives in the poster's data until `run` is called. */
struct loop_post {
    struct loop_post *next;
    void (*run)(struct loop_post *post);
};

/* A thread with an event loop, an inventory of its own, and posts from other threads: each worker, and the
 * background thread. All members belong to that thread unless they say otherwise. */
struct loop_thread {
    struct service *service;
    uv_loop_t loop;
    struct inventory *inventory; /* NULL after the drain */
    uv_timer_t housekeeping;     /* four times a second, and more often during the drain */
    int64_t drain_until_ms;      /* by uv_now(); 0: the thread does not drain yet */
    struct metrics metrics;      /* any thread may read these two */
    struct inventory_metrics stock_metrics;
    uint64_t unkept_logged;

    pthread_t id;
    uv_async_t wake;
    pthread_mutex_t mutex; /* of `posts` */
    struct loop_post *posts;
    void (*on_drain)(struct loop_thread *thread);
    _Atomic bool ended; /* for any thread */
};

/* Opens the loop and the inventory. `on_housekeeping` gets `ctx` as the data of the timer. `on_drain` (may
 * be NULL) is called once, on the thread, when the drain begins. False on failure, with the reason in
 * `error`. */
bool loop_thread_open(struct loop_thread *thread, struct service *service, uv_timer_cb on_housekeeping,
                      void (*on_drain)(struct loop_thread *thread), void *ctx, char *error,
                      size_t error_size);

/* Starts the thread, after all loop threads are open: a call such as /metrics reads all of them. False on
 * failure. */
bool loop_thread_start(struct loop_thread *thread);

/* From any thread: hands over a post. */
void loop_thread_post(struct loop_thread *thread, struct loop_post *post);

/* On the thread: logs that a failover may have lost more than the inventory had kept, if that has happened
 * since the last call. */
void loop_thread_log_unkept(struct loop_thread *thread);

/* From the main thread, after service->draining was set: has the thread see that. */
void loop_thread_drain(struct loop_thread *thread);
/* On the thread, during the drain: true if the time for the drain is up, or if `idle` (nothing is in flight)
 * and all that was acknowledged is on replicas. `open`: how much is on no replica yet. */
bool loop_thread_is_drained(struct loop_thread *thread, bool idle, int *open);
/* On the thread, at the end of the drain: closes the inventory, which answers what is still in flight
 * (UNKNOWN or UNAVAILABLE). */
void loop_thread_close_inventory(struct loop_thread *thread);
/* On the thread: closes its handles. The loop ends when the owner has closed its own. */
void loop_thread_end(struct loop_thread *thread);
/* From the main thread: waits for the end. No thread may post any more. */
void loop_thread_join(struct loop_thread *thread);

/* ---- workers (worker.c) ---- */

/* The state of the store when a worker saw it last. */
enum worker_store { WORKER_STORE_UNTRIED, WORKER_STORE_UP, WORKER_STORE_DOWN };

/* A worker: a loop thread with an HTTP server. Workers share the listening address, and nothing else. */
struct worker {
    struct loop_thread thread;
    int index;
    struct http_server *http;
    uv_prepare_t prepare;
    uv_check_t check;
    int64_t opens_ms;                /* by uv_now(): see worker_is_open() */
    _Atomic enum worker_store store; /* for any thread */
    _Atomic int connections;         /* for any thread */
    uint64_t put_back;               /* the counter when housekeeping came last */
    uint64_t put_back_logged;
};

/* Opens everything on `listen_fd`, which the worker owns from then on. False on failure, with the reason in
 * `error`. */
bool worker_open(struct worker *worker, struct service *service, int index, int listen_fd, char *error,
                 size_t error_size);

/* ---- the background thread (background/background.c, background/recovery.c) ---- */

/* A loop thread for everything off the purchase path. It carries out the steps of baskets and transfers,
 * recovers what was left unfinished, expires holds, and keeps the lock switch alive. So the loops of the
 * workers, which are busy during a sale, neither delay it nor are delayed by it. */
struct background {
    struct loop_thread thread;
    unsigned ticks;         /* of its housekeeping */
    uv_timer_t heartbeat;   /* of the lock switch */
    int64_t time_asked_ns;  /* when the store was asked for its time; 0: it has answered */
    int recovering;         /* transactions in recovery */
    int claiming;           /* the size of the claim in flight; 0: there is none */
    bool more;              /* the last claim was filled */
    int64_t leave_until_ms; /* by uv_now(): see background_leave_lock_switch() */
    uint64_t sold;          /* purchases sold, when they were counted last */
    int64_t counted_ns;     /* when that was */
    bool buys;              /* so many were sold that they made a crowd */
};

/* False on failure, with the reason in `error`. Its thread ends after all workers. */
bool background_open(struct background *background, struct service *service, char *error, size_t error_size);

/* The limit of the blocking pool, see pool_open(). `ctx` is the service. */
enum { BACKGROUND_POOL_THREADS = 32 };
int background_pool_limit(void *ctx);

/* Claims transactions that a process left unfinished, and held baskets that are due, no more than
 * RECOVERY_MAX at a time, and finishes each by what the journal says. Called about twice a second, on the
 * background thread. */
enum { RECOVERY_MAX = 16 };
void recovery_tick(struct background *background);

/* ---- locked jobs (background/blocking_pool.c) ---- */

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

/* ---- what the store can promise (background/store_health.c) ---- */

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
    struct worker *worker;
    /* Called on the worker's thread, perhaps from within the call. */
    void (*done)(struct store_health_read *read, const struct inventory_health *health);
    struct loop_post post;
    struct store_health_read *next;
};

void store_health_init(struct store_health *health);
/* Reports what the store said less than a second ago, or asks it now. From the worker's thread. */
void store_health_read(struct worker *worker, struct store_health_read *read);
/* To be called by the background thread some times a second: asks when the store has come (back), and now and
 * then. */
void store_health_tick(struct service *service);

/* ---- the failpoints of transactions and locks, for tests (failpoint_hook.c) ---- */

/* Called before and after each lock, write and unlock of a transaction, with the name of the step, on the
 * thread that does it. It is NULL here. Tests link a seckilld with test/stops.c in place of failpoint_hook.c:
 * that hook ends or stops the process at a step. */
extern void (*const service_at_failpoint)(void *ctx, const char *step);

/* ---- the token of admin calls (admin_token.c) ---- */

enum { ADMIN_DIGEST_SIZE = 32 };

/* Sets the digest of the configured token. If the operator has chosen none, makes one up and returns true:
 * without a token the admin calls would not be protected. */
bool admin_token_init(struct service *service);
/* Keeps a made-up token in a file that only this user can read, and logs its path: many read the log itself.
 * A terminal shows the token, too. To be called once this process serves `listen`, so that it takes no other
 * process's file. */
void admin_token_keep(const char *token, const char *listen);
/* Whether the request bears the token. */
bool admin_token_is_in(const struct service *service, const struct http_request *request);

/* ---- what all threads share ---- */

struct service {
    struct config config;
    unsigned char admin_digest[ADMIN_DIGEST_SIZE];
    struct store_clock clock;
    struct lock_switch *lock_switch;
    struct pool *pool; /* for jobs that block */
    _Atomic bool draining;
    _Atomic int64_t crowd_until_ns; /* purchases go first until then; the background thread sets it */
    int worker_count;
    struct worker *workers;
    struct background background;
    struct store_health health;
    _Atomic bool put_back; /* a record of the journal was put back: the background thread is to compare the
                            * journal with the items */
};

#endif
