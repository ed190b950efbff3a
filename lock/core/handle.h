/* A lock: what open.c makes and lock.c uses. Not for users. */
#ifndef LOCK_CORE_HANDLE_H
#define LOCK_CORE_HANDLE_H

#include <stdatomic.h>

#include "lock/core/local_queue.h"
#include "lock/core/maintenance.h"

struct lock {
    const struct lock_backend *backend;
    void *store; /* NULL where there is none */
    struct lock_env env;
    struct lock_config config;
    int64_t ttl_ns;
    _Atomic uint64_t owners; /* made so far */
    pthread_mutex_t error_mutex;
    char last_error[LOCK_ERROR_SIZE]; /* "": none yet */
    struct lock_lines *lines;         /* NULL where the backend does without */
    struct lock_keeper *keeper;       /* NULL where there are no lines, or no store */
    struct {
        _Atomic uint64_t by_status[LOCK_STATUSES]; /* how acquiring ended */
        _Atomic uint64_t released, extended, lost, passed, wait_ns, hold_ns;
        _Atomic uint64_t waiting; /* for the store; lines count the rest */
    } figures;
};

/* As lock_release(), for one of many where nobody waits for the store: it is not asked, and the keeper
 * releases it later, or, where there is none, it runs out. LOCK_UNAVAILABLE, LOCK_NOT_OWNER, LOCK_OK (there
 * was nothing to ask). */
enum lock_status lock_release_later(struct lock *lock, const struct lock_grant *grant);

/* Called by the backend and the keeper; `layer` is the lock. */
void lock_on_wake(void *layer, const char *key, const char *owner);
void lock_on_failed(void *layer, const char *server, const char *why);
void lock_on_lost(void *layer, const struct lock_grant *grant);
void lock_on_renewed(void *layer);

#endif
