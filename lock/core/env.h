/* The environment of a lock: time, random numbers, threads, and the reports of its backend. Not for users. */
#ifndef LOCK_CORE_ENV_H
#define LOCK_CORE_ENV_H

#include <pthread.h>

#include "base/clock.h"
#include "lock/lock.h"

/* No call to a store takes longer. Two of them fit into the second that lock.h allows a call beyond its
 * deadline. */
enum { LOCK_TIMEOUT_MAX_MS = 450 };

/* Outlives the backend's store. */
struct lock_env {
    /* Of the user (lock_config). NULL: clock and random numbers are the machine's. */
    int64_t (*now_ns)(void *ctx);
    uint64_t (*random)(void *ctx);
    void (*at_point)(void *ctx, const char *point, const char *key);
    void *ctx;
    uint64_t session; /* the first half of all owner ids of this lock: a store finds the process by it */
    /* Reports of the backend: called by any thread, but never inside a call of the core.
     *
     * wake: the waiter `owner` of `key` shall ask the store again. If no thread waits under that name, the
     * grant that the store gave it is released. `key` NULL: all waiters shall ask again. failed: `server`
     * could not be used, and why (never a password). See lock_env_failed(). moved: see lock_env_moved(). */
    void (*wake)(void *lock, const char *key, const char *owner);
    void (*failed)(void *lock, const char *server, const char *why);
    void (*moved)(void *lock);
    void *lock;
    _Atomic uint64_t *requests; /* see lock_env_count_requests(); NULL: not counted */
};

/* Fills in what comes from `config`, and the session; the reports are left to the caller. */
void lock_env_init(struct lock_env *env, const struct lock_config *config);

/* CLOCK_MONOTONIC, by which threads sleep. */
static inline int64_t lock_mono_ns(void) {
    return clock_mono_ns(&clock_system);
}

/* The lock's own clock. */
int64_t lock_env_now_ns(const struct lock_env *env);
/* Converts a time of the lock's own clock to CLOCK_MONOTONIC. */
int64_t lock_env_machine_ns(const struct lock_env *env, int64_t until_ns);
/* 0 to `below` - 1. */
uint64_t lock_env_random(const struct lock_env *env, uint64_t below);
void lock_env_at_point(const struct lock_env *env, const char *point, const char *key);
/* Starts a thread that takes no signals: those are for the program's own threads. */
bool lock_env_start_thread(pthread_t *thread, void *(*run)(void *arg), void *arg);
/* How long a call may take: this fraction of the time to live, but at least 50 ms (or a third of the time to
 * live if that is less), and at most LOCK_TIMEOUT_MAX_MS. */
int lock_env_timeout_ms(int64_t ttl_ms, int64_t divisor);

/* Sets what lock_last_error() says: "SERVER: WHY". `env` may be NULL: then it does nothing. */
void lock_env_failed(const struct lock_env *env, const char *server, const char *why);
/* Another server is the store from now on, or was in between, so that what was granted before may be gone:
 * every grant is verified soon. May be called inside a call of the core, but before that call asks the new
 * server. `env` may be NULL. */
void lock_env_moved(const struct lock_env *env);
/* Every backend counts here what it sends to its store (lock_metrics.requests). `env` may be NULL. */
void lock_env_count_requests(const struct lock_env *env, int count);

#endif
