/* Opens a lock from its URL. The table of all backends. */
#include "lock/lock.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lock/core/maintenance.h"

enum { TTL_DEFAULT_MS = 10000 };

/* Grouped by scheme. The first of each scheme is its default variant. */
static const struct lock_backend *const backends[] = {
    &lock_none,
    &lock_local,
    &lock_redis_owner,
    &lock_redis_watchdog,
    &lock_redis_get_set,
    &lock_redis_setnx_expire,
    &lock_redis_getset,
    &lock_redis_set_del,
    &lock_redis_timestamp,
    &lock_redis_sentinel_owner,
    &lock_redis_sentinel_watchdog,
    &lock_redis_cluster_owner,
    &lock_redis_cluster_watchdog,
    &lock_redlock,
    &lock_etcd_queue,
    &lock_etcd_fixed_key,
    &lock_etcd_rpc,
    &lock_zookeeper,
};

enum { BACKENDS = sizeof backends / sizeof backends[0] };

/* Writes what exists: the variants of a known scheme, otherwise all schemes. */
static void list_backends(const struct lock_url *url, bool known, char *error, size_t size) {
    const char *between = known ? " its variants are " : " there are ";
    int length = snprintf(error, size, "no such lock;");
    for (int i = 0; i < BACKENDS && (size_t)length < size; i++) {
        const char *scheme = backends[i]->scheme, *variant = backends[i]->variant;
        if (known ? strcmp(scheme, url->scheme) != 0 : i > 0 && strcmp(scheme, backends[i - 1]->scheme) == 0)
            continue;
        length += snprintf(error + length, size - (size_t)length, "%s%s%s", between,
                           !known     ? scheme
                           : *variant ? variant
                                      : "none",
                           known ? "" : ":");
        between = ", ";
    }
}

static const struct lock_backend *find_backend(const struct lock_url *url, char *error, size_t size) {
    bool known = false;
    for (int i = 0; i < BACKENDS; i++) {
        if (strcmp(backends[i]->scheme, url->scheme) != 0)
            continue;
        if (!url->variant[0] || strcmp(backends[i]->variant, url->variant) == 0)
            return backends[i];
        known = true;
    }
    list_backends(url, known, error, size);
    return NULL;
}

/* Does the backend take what the URL asks for? */
static bool check_options(const struct lock_backend *backend, const struct lock_url *url, bool teaching,
                          char *error, size_t size) {
    const char *wrong = NULL;
    if (!backend->has_tls && (url->ca_file[0] || url->cert_file[0] || url->key_file[0]))
        wrong = "does not speak TLS; ca, cert and key are for etcd";
    else if (url->renew && backend->is_lesson)
        wrong = "renew is not for the locks of lessons";
    else if (url->renew && !(backend->caps & LOCK_CAN_EXTEND))
        wrong = "cannot renew, as its grants cannot be extended";
    else if (!backend->open && url->address[0])
        wrong = "has no address";
    if (backend->is_lesson && !teaching)
        snprintf(error, size, "this lock is for lessons: it %s", backend->flaw);
    else if (wrong)
        snprintf(error, size, "%s: %s", backend->scheme, wrong);
    return !wrong && (!backend->is_lesson || teaching);
}

/* ---- what the backend reports (env.h) ---- */

static void on_wake(void *ctx, const char *key, const char *owner) {
    struct lock *lock = ctx;
    if (!lock->queue)
        return;
    if (!key) {
        lock_local_queue_wake_all(lock->queue);
    } else if (!lock_local_queue_wake(lock->queue, key, owner)) {
        /* That waiter has given up before the store knew. If no release can be noted the grant expires. */
        bool full = lock_maintenance_is_full(lock->maintenance);
        struct lock_pending_release *pending = full ? NULL : lock_pending_release_new(key, owner);
        if (pending)
            lock_maintenance_release(lock->maintenance, pending, NULL);
    }
}

static void on_failed(void *ctx, const char *server, const char *why) {
    struct lock *lock = ctx;
    pthread_mutex_lock(&lock->error_mutex);
    snprintf(lock->last_error, sizeof lock->last_error, "%s: %s", server, why);
    pthread_mutex_unlock(&lock->error_mutex);
}

static void on_moved(void *ctx) {
    struct lock *lock = ctx;
    atomic_fetch_add(&lock->moves, 1);
    if (lock->maintenance)
        lock_maintenance_doubt(lock->maintenance);
}

/* ---- opening and closing ---- */

static enum lock_status open_parts(struct lock *lock, const struct lock_url *url, char *error, size_t size) {
    const struct lock_backend *backend = lock->backend;
    if (backend->queues_locally && !(lock->queue = lock_local_queue_new(
                                         &lock->env, lock->ttl_ns, lock->renews, backend->outlives_deadline)))
        return LOCK_NOMEM;
    enum lock_status status =
        backend->open ? backend->open(url, &lock->env, &lock->store, error, size) : LOCK_OK;
    if (status != LOCK_OK || !lock->store || !lock->queue)
        return status;
    lock->maintenance = lock_maintenance_start(lock);
    return lock->maintenance ? LOCK_OK : LOCK_NOMEM;
}

static struct lock *new_lock(const struct lock_backend *backend, const struct lock_config *config,
                             const struct lock_url *url) {
    struct lock *lock = calloc(1, sizeof *lock);
    if (!lock)
        return NULL;
    lock->backend = backend;
    lock->config = *config;
    lock->ttl_ns = url->ttl_ms * 1000000;
    lock->renews = url->renew || backend->renews_active;
    lock->renews_silent = url->renew;
    lock_env_init(&lock->env, config);
    lock->env.wake = on_wake;
    lock->env.failed = on_failed;
    lock->env.moved = on_moved;
    lock->env.lock = lock;
    lock->env.requests = &lock->metrics.requests;
    pthread_mutex_init(&lock->error_mutex, NULL);
    return lock;
}

enum lock_status lock_open(const char *url, const struct lock_config *config, struct lock **lock, char *error,
                           size_t error_size) {
    static const struct lock_config defaults;
    struct lock_url parts;
    if (!config)
        config = &defaults;
    if (!lock_url_parse(&parts, url, error, error_size))
        return LOCK_CONFIG;
    if (parts.ttl_ms == 0)
        parts.ttl_ms = config->ttl_ms ? config->ttl_ms : TTL_DEFAULT_MS;
    if (parts.ttl_ms < LOCK_TTL_MIN_MS || parts.ttl_ms > LOCK_TTL_MAX_MS) {
        snprintf(error, error_size, "ttl_ms wants %d to %d milliseconds", LOCK_TTL_MIN_MS, LOCK_TTL_MAX_MS);
        return LOCK_CONFIG;
    }
    const struct lock_backend *backend = find_backend(&parts, error, error_size);
    if (!backend || !check_options(backend, &parts, config->teaching, error, error_size))
        return LOCK_CONFIG;
    struct lock *opened = new_lock(backend, config, &parts);
    enum lock_status status = opened ? open_parts(opened, &parts, error, error_size) : LOCK_NOMEM;
    if (status == LOCK_OK) {
        *lock = opened;
        return LOCK_OK;
    }
    if (status == LOCK_NOMEM)
        snprintf(error, error_size, "out of memory");
    lock_close(opened);
    return status;
}

void lock_close(struct lock *lock) {
    if (!lock)
        return;
    if (lock->maintenance)
        lock_maintenance_stop(lock->maintenance); /* it uses the store */
    if (lock->store)
        lock->backend->close(lock->store);
    lock_maintenance_free(lock->maintenance); /* the store's threads used it */
    lock_local_queue_free(lock->queue);
    pthread_mutex_destroy(&lock->error_mutex);
    free(lock);
}
