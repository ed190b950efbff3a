/* From a URL to a lock: which backends there are. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lock/core/handle.h"

enum { TTL_DEFAULT_MS = 10000 };

/* Scheme by scheme; the first of each is what it means without a variant. */
static const struct lock_backend *const backends[] = {
    &lock_none,           &lock_local,         &lock_redis_owner,
    &lock_redis_watchdog, &lock_redis_get_set, &lock_redis_setnx_expire,
    &lock_redis_getset,   &lock_redis_set_del, &lock_redis_timestamp,
    &lock_redlock,        &lock_etcd_queue,    &lock_etcd_fixed_key,
    &lock_etcd_rpc,       &lock_zookeeper,
};

enum { BACKENDS = sizeof backends / sizeof backends[0] };

/* What could have been meant: the variants of the scheme, or if there is no such scheme all of those. */
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
                                      : "none", /* it has no others */
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

static enum lock_status open_store(struct lock *lock, const struct lock_url *url, char *error, size_t size) {
    const struct lock_backend *backend = lock->backend;
    if (backend->open)
        return backend->open(url, &lock->env, &lock->store, error, size);
    if (!url->address[0])
        return LOCK_OK;
    snprintf(error, size, "%s: has no address", backend->scheme);
    return LOCK_CONFIG;
}

static enum lock_status open_parts(struct lock *lock, const struct lock_url *url, char *error, size_t size) {
    const struct lock_backend *backend = lock->backend;
    if (backend->lines_up &&
        !(lock->lines = lock_lines_new(&lock->env, lock->ttl_ns, backend->renews, backend->lasts)))
        return LOCK_NOMEM;
    enum lock_status status = open_store(lock, url, error, size);
    if (status != LOCK_OK || !lock->store || !lock->lines)
        return status;
    struct lock_keeper_config keeper = {
        .backend = lock->backend,
        .store = lock->store,
        .env = &lock->env,
        .lines = lock->lines,
        .ttl_ns = lock->ttl_ns,
        .on_lost = lock_on_lost,
        .on_renewed = lock_on_renewed,
        .layer = lock,
    };
    lock->keeper = lock_keeper_open(&keeper);
    return lock->keeper ? LOCK_OK : LOCK_NOMEM;
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
    if (!backend)
        return LOCK_CONFIG;
    if (backend->teaches && !config->teaching) {
        snprintf(error, error_size, "this lock is for lessons: it %s", backend->flaw);
        return LOCK_CONFIG;
    }
    if (!backend->tls && (parts.ca_file[0] || parts.cert_file[0] || parts.key_file[0])) {
        snprintf(error, error_size, "%s: does not speak TLS; ca, cert and key are for etcd", backend->scheme);
        return LOCK_CONFIG;
    }
    struct lock *opened = calloc(1, sizeof *opened);
    enum lock_status status = LOCK_NOMEM;
    if (opened) {
        opened->backend = backend;
        opened->config = *config;
        opened->ttl_ns = parts.ttl_ms * 1000000;
        lock_env_init(&opened->env, config);
        opened->env.wake = lock_on_wake;
        opened->env.failed = lock_on_failed;
        pthread_mutex_init(&opened->error_mutex, NULL);
        opened->env.layer = opened;
        status = open_parts(opened, &parts, error, error_size);
    }
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
    if (lock->keeper)
        lock_keeper_stop(lock->keeper); /* it uses the store */
    if (lock->store)
        lock->backend->close(lock->store);
    lock_keeper_free(lock->keeper); /* the store's threads used it */
    lock_lines_free(lock->lines);
    pthread_mutex_destroy(&lock->error_mutex);
    free(lock);
}
