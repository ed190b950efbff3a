/* What the core gives to backends: the environment of a lock, and limits for waits. */
#include "lock/core/backend.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <sys/random.h>

/* ---- the environment ---- */

static uint64_t next_random(const struct lock_env *env) {
    uint64_t number;
    if (env->random)
        return env->random(env->ctx);
    if (getrandom(&number, sizeof number, 0) != sizeof number)
        abort(); /* impossible: eight bytes are never cut short, and the call needs no file */
    return number;
}

void lock_env_init(struct lock_env *env, const struct lock_config *config) {
    *env = (struct lock_env){
        .now_ns = config->now_ns, .random = config->random, .at_point = config->at_point, .ctx = config->ctx};
    env->session = next_random(env);
}

int64_t lock_env_now_ns(const struct lock_env *env) {
    return env->now_ns ? env->now_ns(env->ctx) : clock_now_ns();
}

int64_t lock_env_machine_ns(const struct lock_env *env, int64_t until_ns) {
    int64_t machine = clock_now_ns(), own = lock_env_now_ns(env);
    if (until_ns <= own)
        return machine;
    return until_ns - own > INT64_MAX - machine ? INT64_MAX : machine + (until_ns - own);
}

uint64_t lock_env_random(const struct lock_env *env, uint64_t below) {
    return next_random(env) % below;
}

void lock_env_at_point(const struct lock_env *env, const char *point, const char *key) {
    if (env->at_point)
        env->at_point(env->ctx, point, key);
}

int lock_env_timeout_ms(int64_t ttl_ms, int64_t divisor) {
    int64_t least_ms = ttl_ms / 3 < 50 ? ttl_ms / 3 : 50, timeout_ms = ttl_ms / divisor;
    if (timeout_ms < least_ms)
        timeout_ms = least_ms;
    return timeout_ms > LOCK_TIMEOUT_MAX_MS ? LOCK_TIMEOUT_MAX_MS : (int)timeout_ms;
}

void lock_env_failed(const struct lock_env *env, const char *server, const char *why) {
    if (env->failed)
        env->failed(env->lock, server, why);
}

void lock_env_count_requests(const struct lock_env *env, int count) {
    if (env->requests)
        atomic_fetch_add_explicit(env->requests, (uint64_t)count, memory_order_relaxed);
}

/* ---- waiting ---- */

struct lock_cancel *lock_cancel_new(void) {
    struct lock_cancel *cancel = malloc(sizeof *cancel);
    if (cancel)
        cancel_init(&cancel->cancel);
    return cancel;
}

void lock_cancel(struct lock_cancel *cancel) {
    cancel_call(&cancel->cancel);
}

void lock_cancel_free(struct lock_cancel *cancel) {
    if (!cancel)
        return;
    cancel_destroy(&cancel->cancel);
    free(cancel);
}

bool lock_limit_is_over(const struct lock_limit *limit) {
    return cancel_called(limit->cancel) || clock_now_ns() >= limit->until_ns;
}

void lock_limit_wait(const struct lock_limit *limit, pthread_cond_t *cond, pthread_mutex_t *mutex) {
    int64_t now_ns = clock_now_ns();
    cond_wait_until(cond, mutex, cancel_poll_ns(limit->cancel, now_ns, limit->until_ns));
}
