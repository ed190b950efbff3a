/* struct lock, and what the files of the core call of each other beside lock.h: the background thread
 * (maintenance.c), and releasing later (acquire.c). Not for users, nor for backends. */
#ifndef LOCK_CORE_HANDLE_H
#define LOCK_CORE_HANDLE_H

#include <stdatomic.h>

#include "lock/core/backend.h"
#include "lock/core/local_queue.h"

/* An open lock. Its metrics, `owner_count`, `moves` and `last_error` change; the rest is set by lock_open().
 */
struct lock {
    const struct lock_backend *backend;
    void *store; /* NULL: this lock has none */
    struct lock_env env;
    struct lock_config config;
    int64_t ttl_ns;
    bool renews;        /* the background thread extends grants in time: variant=watchdog, renew=on */
    bool renews_silent; /* also those whose holders report no progress: renew=on */
    _Atomic uint64_t owner_count; /* owner ids that were made */
    _Atomic uint64_t moves;       /* of the store to another server, see lock_env.moved */
    pthread_mutex_t error_mutex;
    char last_error[LOCK_ERROR_SIZE];     /* "": none yet */
    struct lock_local_queue *queue;       /* NULL: every thread asks the store */
    struct lock_maintenance *maintenance; /* NULL: no queue, or no store */
    struct {
        _Atomic uint64_t by_status[LOCK_STATUSES]; /* how acquiring ended */
        _Atomic uint64_t released, extended, lost, passed, wait_ns, hold_ns, requests;
        _Atomic uint64_t waiting; /* for the store; the local queue counts the others */
    } metrics;
};

/* As lock_release(), but the store is not asked: the background thread releases the grant later, or, if there
 * is none, the grant expires. LOCK_UNAVAILABLE, LOCK_NOT_OWNER, or LOCK_OK (the store need not be asked). */
enum lock_status lock_release_later(struct lock *lock, const struct lock_grant *grant);

/* ---- the background thread ---- */

/* Starts the threads of a lock that has a store and a local queue, and whose parts are all set but
 * `maintenance`. NULL when out of memory, or of threads. */
struct lock_maintenance *lock_maintenance_start(struct lock *lock);
/* Tries for half a second to do the pending releases, and ends the threads. Call it once. */
void lock_maintenance_stop(struct lock_maintenance *maintenance);
/* Call it after lock_maintenance_stop(). `maintenance` may be NULL. */
void lock_maintenance_free(struct lock_maintenance *maintenance);

/* There is a new grant, or a grant with another deadline. Costs nothing while the threads are awake, or will
 * be in time. */
void lock_maintenance_wake(struct lock_maintenance *maintenance, int64_t deadline_ns);

/* Verifies at once all that is held. */
void lock_maintenance_doubt(struct lock_maintenance *maintenance);

/* NULL when out of memory. */
struct lock_pending_release *lock_pending_release_new(const char *key, const char *owner);
/* Withdraws `pending->owner` from `pending->key`, and repeats that until the store answers; takes `pending`.
 * It gives up after two times to live, since the store has forgotten the grant by then, but never for a
 * backend with `outlives_deadline`. Does not block; `waiter`, which may be NULL, is woken when it is done. */
void lock_maintenance_release(struct lock_maintenance *maintenance, struct lock_pending_release *pending,
                              struct waiter *waiter);
/* The same, and blocks until it is done, or CLOCK_MONOTONIC passes `until_ns`. */
void lock_maintenance_release_until(struct lock_maintenance *maintenance,
                                    struct lock_pending_release *pending, int64_t until_ns);
/* So many releases are pending that the store must not be asked for more grants. */
bool lock_maintenance_is_full(const struct lock_maintenance *maintenance);

#endif
