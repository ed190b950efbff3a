/* struct lock: its parts, and the callbacks that its backend and its background thread use. Not for users. */
#ifndef LOCK_CORE_HANDLE_H
#define LOCK_CORE_HANDLE_H

#include <stdatomic.h>

#include "lock/core/local_queue.h"
#include "lock/core/maintenance.h"

struct lock {
    const struct lock_backend *backend;
    void *store; /* NULL: this lock has none */
    struct lock_env env;
    struct lock_config config;
    int64_t ttl_ns;
    enum lock_renewal renewal;
    _Atomic uint64_t owner_count; /* owner ids that were made */
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

/* `lock` is a struct lock. */
void lock_on_wake(void *lock, const char *key, const char *owner);
void lock_on_failed(void *lock, const char *server, const char *why);
void lock_on_lost(void *lock, const struct lock_grant *grant);
void lock_on_renewed(void *lock);

#endif
