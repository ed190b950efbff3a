/* Opens a lock: reads its URL, finds its backend in the table of all of them, and starts its parts. Here too
 * are the two locks without a store, and what a backend reports to an open lock. */
#include "lock/lock.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lock/core/handle.h"

enum { TTL_DEFAULT_MS = 10000 };

/* ---- the URL ---- */

static bool url_fail(char *error, size_t size, const char *what) {
    snprintf(error, size, "%s (want SCHEME:[//ADDRESS][?variant=NAME&ttl=MS&renew=on])", what);
    return false;
}

static bool url_copy(char *out, size_t size, const char *from, size_t length) {
    if (length >= size)
        return false;
    memcpy(out, from, length);
    out[length] = '\0';
    return true;
}

static bool url_read_ttl(const char *text, size_t length, int64_t *ttl_ms) {
    char digits[10];
    if (length == 0 || strspn(text, "0123456789") < length || !url_copy(digits, sizeof digits, text, length))
        return false;
    int64_t read = strtoll(digits, NULL, 10);
    if (read < LOCK_TTL_MIN_MS || read > LOCK_TTL_MAX_MS)
        return false;
    *ttl_ms = read;
    return true;
}

/* Returns NULL, or what is wrong. */
static const char *url_read_option(struct lock_url *url, const char *name, size_t name_length,
                                   const char *value, size_t length) {
    const struct {
        const char *name;
        char *text; /* where it is copied to; NULL: it is no text */
        size_t size;
        bool given;
        const char *wanted;
    } options[] = {
        {"variant", url->variant, sizeof url->variant, url->variant[0], "variant wants a name"},
        {"ttl", NULL, 0, url->ttl_ms != 0, "ttl wants 10 to 86400000 milliseconds"},
        {"renew", NULL, 0, url->renew, "renew wants to be on"},
        {"ca", url->ca_file, sizeof url->ca_file, url->ca_file[0], "ca wants a file"},
        {"cert", url->cert_file, sizeof url->cert_file, url->cert_file[0], "cert wants a file"},
        {"key", url->key_file, sizeof url->key_file, url->key_file[0], "key wants a file"},
    };
    for (size_t i = 0; i < sizeof options / sizeof *options; i++) {
        if (name_length != strlen(options[i].name) || memcmp(name, options[i].name, name_length) != 0)
            continue;
        if (options[i].given)
            return "an option is there twice";
        bool good = false;
        if (options[i].text)
            good = length > 0 && url_copy(options[i].text, options[i].size, value, length);
        else if (name[0] == 't')
            good = url_read_ttl(value, length, &url->ttl_ms);
        else
            good = url->renew = length == 2 && memcmp(value, "on", 2) == 0;
        return good ? NULL : options[i].wanted;
    }
    return "unknown option; there are variant, ttl, renew, ca, cert and key";
}

bool lock_url_parse(struct lock_url *url, const char *text, char *error, size_t error_size) {
    struct lock_url read = {.ttl_ms = 0};
    size_t scheme = strspn(text, "abcdefghijklmnopqrstuvwxyz0123456789-");
    if (scheme == 0 || text[scheme] != ':' || !url_copy(read.scheme, sizeof read.scheme, text, scheme))
        return url_fail(error, error_size,
                        "not a lock URL: those begin with local:, redis:, redlock:, etcd: or zookeeper:");
    for (const char *c = text; *c; c++) {
        if ((unsigned char)*c < ' ' || *c == 127)
            return url_fail(error, error_size, "it has a control character, perhaps the end of a line");
    }
    const char *at = text + scheme + 1;
    if (strncmp(at, "//", 2) == 0) {
        size_t length = strcspn(at + 2, "?");
        if (!url_copy(read.address, sizeof read.address, at + 2, length))
            return url_fail(error, error_size, "the address is too long");
        at += 2 + length;
    }
    if (*at && *at != '?')
        return url_fail(error, error_size, "an address begins with //");
    while (*at) {
        size_t length = strcspn(++at, "&"), name = strcspn(at, "=&");
        const char *value = name < length ? at + name + 1 : at + length;
        const char *wrong = url_read_option(&read, at, name, value, length - (size_t)(value - at));
        if (wrong && name == length && memchr(at, '@', length))
            wrong = "a ? in a user or password is written %3F";
        if (wrong)
            return url_fail(error, error_size, wrong);
        at += length;
    }
    *url = read;
    return true;
}

/* ---- the backends ---- */

/* A lock within this process: the local queue alone. It is fair, and useless between processes. */
static const struct lock_backend lock_local = {
    .scheme = "local",
    .variant = "",
    .flaw = "another process does not know of it",
    .caps = LOCK_IS_FAIR | LOCK_CAN_WAKE | LOCK_IS_SAFE,
    .queues_locally = true,
};

/* No lock at all, for comparison: every caller is granted at once, and what is sold under it is oversold. */
static const struct lock_backend lock_none = {
    .scheme = "none",
    .variant = "",
    .flaw = "locks nothing",
    .is_lesson = true,
};

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

/* NULL: there is none, and `error` says what exists: the variants of a known scheme, otherwise all schemes.
 */
static const struct lock_backend *find_backend(const struct lock_url *url, char *error, size_t size) {
    bool known = false; /* the scheme is */
    for (int i = 0; i < BACKENDS; i++) {
        if (strcmp(backends[i]->scheme, url->scheme) != 0)
            continue;
        if (!url->variant[0] || strcmp(backends[i]->variant, url->variant) == 0)
            return backends[i];
        known = true;
    }
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
    return NULL;
}

/* False: the backend cannot do what the URL asks for, and `error` says why. */
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

/* ---- what the backend reports (backend.h) ---- */

static void on_wake(void *ctx, const char *key, const char *owner) {
    struct lock *lock = ctx;
    if (!lock->queue)
        return;
    if (!key) {
        lock_local_queue_wake_all(lock->queue);
    } else if (!lock_local_queue_wake(lock->queue, key, owner)) {
        /* That waiter gave up before the store knew. If no release can be noted, the grant expires. */
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
