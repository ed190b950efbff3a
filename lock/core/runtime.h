/* What the core and the backends share: the lock's clock and random numbers, how long a call may wait for its
 * store, and how a backend reports to the core. Not for users. */
#ifndef LOCK_CORE_RUNTIME_H
#define LOCK_CORE_RUNTIME_H

#include <pthread.h>

#include "base/clock.h"
#include "base/waiter.h"
#include "lock/lock.h"

/* ---- the environment of a lock ---- */

/* No call to a store takes longer. Two of them fit into the second that lock.h allows a call beyond its
 * deadline. */
enum { LOCK_TIMEOUT_MAX_MS = 450 };

/* Belongs to the lock, and outlives its backend's store. */
struct lock_env {
    /* From lock_config. NULL: the machine's clock and random numbers; no points. */
    int64_t (*now_ns)(void *ctx);
    uint64_t (*random)(void *ctx);
    void (*at_point)(void *ctx, const char *point, const char *key);
    void *ctx;
    uint64_t session; /* the first half of all owner ids of this lock: a store finds the process by it */
    /* The backend's reports to the core; any thread may call them.
     * - wake: the waiter `owner` of `key` asks the store again. If no thread waits under that name any more,
     *   the grant that the store gave it is released. With `key` NULL all waiters ask again. Not called
     *   inside a call that the core makes to the backend.
     * - failed: see lock_env_failed(), which calls it.
     * - moved: another server is the store from now on, or was in between. Earlier grants may be gone, so the
     *   core verifies every grant soon. A call must report a move before it asks the new server. */
    void (*wake)(void *lock, const char *key, const char *owner);
    void (*failed)(void *lock, const char *server, const char *why);
    void (*moved)(void *lock);
    void *lock;
    _Atomic uint64_t *requests; /* see lock_env_count_requests(); NULL: not counted */
};

/* Sets what comes from `config`, and a random session. The caller sets the reports. */
void lock_env_init(struct lock_env *env, const struct lock_config *config);

/* The lock's own clock, for deadlines of grants. Threads sleep by CLOCK_MONOTONIC (clock_now_ns()). */
int64_t lock_env_now_ns(const struct lock_env *env);
/* Converts a time of the lock's own clock to CLOCK_MONOTONIC. */
int64_t lock_env_machine_ns(const struct lock_env *env, int64_t until_ns);
/* 0 to `below` - 1. */
uint64_t lock_env_random(const struct lock_env *env, uint64_t below);
void lock_env_at_point(const struct lock_env *env, const char *point, const char *key);
/* How long a call to the store may take: this fraction of the time to live, but at least 50 ms (or a third of
 * the time to live if that is less), and at most LOCK_TIMEOUT_MAX_MS. */
int lock_env_timeout_ms(int64_t ttl_ms, int64_t divisor);

/* Sets what lock_last_error() returns: "SERVER: WHY". `why` never contains a password. */
void lock_env_failed(const struct lock_env *env, const char *server, const char *why);
/* Every backend counts here what it sends to its store (lock_metrics.requests). */
void lock_env_count_requests(const struct lock_env *env, int count);

/* ---- waiting ---- */

/* What lock.h gives to users. */
struct lock_cancel {
    struct cancel cancel;
};

/* NULL for NULL. */
static inline struct cancel *lock_cancel_of(struct lock_cancel *cancel) {
    return cancel ? &cancel->cancel : NULL;
}

/* How long a call may wait for its store: until this time of CLOCK_MONOTONIC, or until soon after `cancel`
 * (which may be NULL) is called. A backend that cannot abandon a call in flight ends it within
 * lock_env_timeout_ms(). */
struct lock_limit {
    int64_t until_ns;
    struct cancel *cancel;
};

bool lock_limit_is_over(const struct lock_limit *limit);
/* Waits on a condition until the limit is over, or it is time to check whether it is. */
void lock_limit_wait(const struct lock_limit *limit, pthread_cond_t *cond, pthread_mutex_t *mutex);

/* ---- hash tables ---- */

/* FNV-1a */
static inline uint32_t lock_hash_text(const char *text) {
    uint32_t hash = 2166136261U;
    for (const char *c = text; *c; c++)
        hash = (hash ^ (unsigned char)*c) * 16777619U;
    return hash;
}

#endif
