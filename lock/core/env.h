/* What the library has from the machine, or from the user: time, chance, threads. Not for users. */
#ifndef LOCK_CORE_ENV_H
#define LOCK_CORE_ENV_H

#include <pthread.h>

#include "lock/core/backend.h"

/* No call to a store takes longer: two of them are less than the second that lock.h gives a call beyond its
 * deadline. */
enum { LOCK_TIMEOUT_MAX_MS = 450 };

/* Fills in all but `wake`, `failed` and `layer`. */
void lock_env_init(struct lock_env *env, const struct lock_config *config);

int64_t lock_env_now_ns(const struct lock_env *env);
/* CLOCK_MONOTONIC, by which threads sleep, for a time of the lock's own clock. */
int64_t lock_env_machine_ns(const struct lock_env *env, int64_t until_ns);
/* A thread that takes no signals: those are for the program's own. */
bool lock_env_start_thread(pthread_t *thread, void *(*run)(void *arg), void *arg);
/* How long a call may take: a fraction of the time to live, but 50 ms if that is no more than a third, and
 * LOCK_TIMEOUT_MAX_MS at most. */
int lock_env_timeout_ms(int64_t ttl_ms, int64_t divisor);
/* What lock_last_error() is to say: "SERVER: WHY". Nothing where nobody wants to know (`env` may be NULL). */
void lock_env_failed(const struct lock_env *env, const char *server, const char *why);
/* 0 to `below` - 1. */
uint64_t lock_env_random(const struct lock_env *env, uint64_t below);

#endif
