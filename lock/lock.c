#include "lock/lock.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/clock.h"
#include "lock/backend.h"
#include "lock/line.h"

enum { TTL_DEFAULT_MS = 10000 };

static const struct lock_backend *const backends[] = {&lock_none, &lock_local};

enum { BACKENDS = sizeof backends / sizeof backends[0] };

struct lock {
    const struct lock_backend *backend;
    void *store;
    struct lock_env env;
    struct lock_lines *lines; /* NULL where the backend does without */
    struct {
        _Atomic uint64_t by_status[LOCK_STATUSES]; /* how acquiring ended */
        _Atomic uint64_t released, extended, lost, waiting, wait_ns;
    } figures;
};

const char *lock_status_text(enum lock_status status) {
    static const char *const texts[] = {
        [LOCK_OK] = "ok",
        [LOCK_BUSY] = "busy",
        [LOCK_TIMEOUT] = "timed out",
        [LOCK_CANCELLED] = "cancelled",
        [LOCK_LOST] = "lost",
        [LOCK_NOT_OWNER] = "not the owner",
        [LOCK_UNKNOWN] = "unknown",
        [LOCK_UNAVAILABLE] = "unavailable",
        [LOCK_STALE] = "stale",
        [LOCK_CONFIG] = "not valid",
        [LOCK_NOMEM] = "out of memory",
    };
    return (unsigned)status < LOCK_STATUSES ? texts[status] : "no status";
}

/* ---- time and chance ---- */

static int64_t machine_now_ns(void *ctx) {
    (void)ctx;
    return clock_mono_ns(&clock_system);
}

static uint64_t machine_random(void *ctx) {
    (void)ctx;
    uint64_t number;
    if (getrandom(&number, sizeof number, 0) != sizeof number)
        abort(); /* cannot be: eight bytes are never cut short, and the call needs no file */
    return number;
}

static void no_point(void *ctx, const char *point, const char *key) {
    (void)ctx;
    (void)point;
    (void)key;
}

int64_t lock_now_ns(const struct lock *lock) {
    return lock->env.now_ns(lock->env.ctx);
}

/* ---- opening ---- */

static void list_backends(char *error, size_t size, const char *what) {
    int length = snprintf(error, size, "%s; there are", what);
    for (int i = 0; i < BACKENDS; i++) {
        const struct lock_backend *backend = backends[i];
        if (length > 0 && (size_t)length < size)
            length += snprintf(error + length, size - (size_t)length, "%s %s:%s%s", i ? "," : "",
                               backend->scheme, backend->variant[0] ? "?variant=" : "", backend->variant);
    }
}

static const struct lock_backend *find_backend(const struct lock_url *url, char *error, size_t size) {
    for (int i = 0; i < BACKENDS; i++) {
        if (strcmp(backends[i]->scheme, url->scheme) == 0 &&
            (!url->variant[0] || strcmp(backends[i]->variant, url->variant) == 0))
            return backends[i]; /* the first of a scheme is what it means without a variant */
    }
    list_backends(error, size, "no such lock");
    return NULL;
}

static enum lock_status open_backend(struct lock *lock, const struct lock_url *url, char *error,
                                     size_t size) {
    const struct lock_backend *backend = lock->backend;
    if (backend->open)
        return backend->open(url, &lock->env, &lock->store, error, size);
    if (!url->address[0])
        return LOCK_OK;
    snprintf(error, size, "%s: has no address", backend->scheme);
    return LOCK_CONFIG;
}

enum lock_status lock_open(const char *url, const struct lock_config *config, struct lock **lock, char *error,
                           size_t error_size) {
    static const struct lock_config defaults;
    struct lock_url parts;
    if (!config)
        config = &defaults;
    char what[200];
    if (!lock_url_parse(&parts, url, what, sizeof what)) {
        list_backends(error, error_size, what);
        return LOCK_CONFIG;
    }
    if (parts.ttl_ms == 0)
        parts.ttl_ms = config->ttl_ms ? config->ttl_ms : TTL_DEFAULT_MS;
    const struct lock_backend *backend = find_backend(&parts, error, error_size);
    if (!backend)
        return LOCK_CONFIG;
    if (backend->teaches && !config->teaching) {
        snprintf(error, error_size, "this lock is for lessons: it %s", backend->flaw);
        return LOCK_CONFIG;
    }
    enum lock_status status = LOCK_NOMEM;
    struct lock *opened = calloc(1, sizeof *opened);
    if (!opened)
        goto fail;
    opened->backend = backend;
    opened->env = (struct lock_env){.now_ns = config->now_ns ? config->now_ns : machine_now_ns,
                                    .random = config->random ? config->random : machine_random,
                                    .at_point = config->at_point ? config->at_point : no_point,
                                    .ctx = config->ctx};
    if (backend->lines_up && !(opened->lines = lock_lines_new(&opened->env)))
        goto fail;
    status = open_backend(opened, &parts, error, error_size);
    if (status != LOCK_OK)
        goto fail;
    *lock = opened;
    return LOCK_OK;
fail:
    if (status == LOCK_NOMEM)
        snprintf(error, error_size, "out of memory");
    if (opened)
        lock_lines_free(opened->lines);
    free(opened);
    return status;
}

void lock_close(struct lock *lock) {
    if (!lock)
        return;
    if (lock->backend->close)
        lock->backend->close(lock->store);
    lock_lines_free(lock->lines);
    free(lock);
}

unsigned lock_caps(const struct lock *lock) {
    return lock->backend->caps;
}

/* ---- one key ---- */

static bool key_is_valid(const char *key) {
    size_t length = 0;
    for (; key[length]; length++) {
        if (length == LOCK_KEY_MAX || key[length] <= ' ' || key[length] > '~')
            return false;
    }
    return length > 0;
}

static void make_owner(const struct lock *lock, char owner[LOCK_OWNER_SIZE]) {
    uint64_t words[2];
    for (int i = 0; i < 2; i++)
        words[i] = lock->env.random(lock->env.ctx);
    snprintf(owner, LOCK_OWNER_SIZE, "%016llx%016llx", (unsigned long long)words[0],
             (unsigned long long)words[1]);
}

static enum lock_status attempt(struct lock *lock, struct lock_grant *grant) {
    if (lock->backend->attempt)
        return lock->backend->attempt(lock->store, grant);
    grant->fence = 0;
    grant->deadline_ns = INT64_MAX;
    return LOCK_OK;
}

static enum lock_status acquire(struct lock *lock, const char *key, int64_t deadline_ns,
                                struct lock_cancel *cancel, struct lock_grant *out) {
    if (!key_is_valid(key))
        return LOCK_CONFIG;
    struct lock_grant grant;
    memcpy(grant.key, key, strlen(key) + 1);
    make_owner(lock, grant.owner);
    enum lock_status status = LOCK_OK;
    if (lock->lines)
        status = lock_lines_enter(lock->lines, key, grant.owner, deadline_ns, cancel);
    if (status != LOCK_OK)
        return status;
    status = attempt(lock, &grant);
    if (status == LOCK_OK) {
        if (lock->lines)
            lock_lines_hold(lock->lines, key, grant.owner, grant.deadline_ns);
        *out = grant;
    } else if (lock->lines) {
        lock_lines_leave(lock->lines, key, grant.owner);
    }
    return status;
}

static enum lock_status acquire_counted(struct lock *lock, const char *key, int64_t deadline_ns,
                                        struct lock_cancel *cancel, struct lock_grant *grant,
                                        enum lock_status not_had) {
    int64_t since_ns = clock_mono_ns(&clock_system);
    atomic_fetch_add(&lock->figures.waiting, 1);
    enum lock_status status = acquire(lock, key, deadline_ns, cancel, grant);
    atomic_fetch_sub(&lock->figures.waiting, 1);
    if (status == LOCK_BUSY || status == LOCK_TIMEOUT)
        status = not_had;
    atomic_fetch_add(&lock->figures.by_status[status], 1);
    if (status == LOCK_OK)
        atomic_fetch_add(&lock->figures.wait_ns, (uint64_t)(clock_mono_ns(&clock_system) - since_ns));
    return status;
}

enum lock_status lock_acquire(struct lock *lock, const char *key, int64_t deadline_ns,
                              struct lock_cancel *cancel, struct lock_grant *grant) {
    return acquire_counted(lock, key, deadline_ns, cancel, grant, LOCK_TIMEOUT);
}

enum lock_status lock_try(struct lock *lock, const char *key, struct lock_grant *grant) {
    return acquire_counted(lock, key, INT64_MIN, NULL, grant, LOCK_BUSY);
}

enum lock_status lock_release(struct lock *lock, const struct lock_grant *grant) {
    enum lock_status status = LOCK_OK;
    if (lock->backend->release)
        status = lock->backend->release(lock->store, grant);
    if (lock->lines && !lock_lines_leave(lock->lines, grant->key, grant->owner) && status == LOCK_OK)
        status = LOCK_NOT_OWNER;
    if (status == LOCK_OK)
        atomic_fetch_add(&lock->figures.released, 1);
    return status;
}

enum lock_status lock_extend(struct lock *lock, struct lock_grant *grant) {
    if (!lock->backend->extend)
        return LOCK_CONFIG;
    struct lock_grant longer = *grant;
    enum lock_status status = lock->backend->extend(lock->store, &longer);
    if (status != LOCK_OK)
        return status;
    if (lock->lines)
        lock_lines_hold(lock->lines, grant->key, grant->owner, longer.deadline_ns);
    atomic_fetch_add(&lock->figures.extended, 1);
    grant->deadline_ns = longer.deadline_ns;
    return LOCK_OK;
}

int64_t lock_remaining_ns(const struct lock *lock, const struct lock_grant *grant) {
    int64_t now_ns = lock_now_ns(lock);
    return grant->deadline_ns > now_ns ? grant->deadline_ns - now_ns : 0;
}

void lock_read_metrics(const struct lock *lock, struct lock_metrics *metrics) {
    uint64_t by_status[LOCK_STATUSES], all = 0;
    for (int i = 0; i < LOCK_STATUSES; i++)
        all += by_status[i] = atomic_load(&lock->figures.by_status[i]);
    *metrics = (struct lock_metrics){
        .acquired = by_status[LOCK_OK],
        .busy = by_status[LOCK_BUSY],
        .timeouts = by_status[LOCK_TIMEOUT],
        .cancelled = by_status[LOCK_CANCELLED],
        .failed = all - by_status[LOCK_OK] - by_status[LOCK_BUSY] - by_status[LOCK_TIMEOUT] -
                  by_status[LOCK_CANCELLED],
        .released = atomic_load(&lock->figures.released),
        .extended = atomic_load(&lock->figures.extended),
        .lost = atomic_load(&lock->figures.lost),
        .waiting = atomic_load(&lock->figures.waiting),
        .wait_ns = atomic_load(&lock->figures.wait_ns),
    };
}
