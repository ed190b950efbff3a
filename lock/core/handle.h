/* struct lock: its parts, and what its units call beside lock.h. Not for users. */
#ifndef LOCK_CORE_HANDLE_H
#define LOCK_CORE_HANDLE_H

#include <stdatomic.h>

#include "lock/core/backend.h"
#include "lock/core/local_queue.h"

struct lock_maintenance;

struct lock {
    const struct lock_backend *backend;
    void *store; /* NULL: this lock has none */
    struct lock_env env;
    struct lock_config config;
    int64_t ttl_ns;
    bool renews;        /* the background thread extends grants in time (variant=watchdog, renew=on), */
    bool renews_silent; /* also those whose holders report no progress (renew=on) */
    _Atomic uint64_t owner_count; /* owner ids that were made */
    _Atomic uint64_t moves;       /* of the store to another server, see lock_env_moved() */
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

#endif
