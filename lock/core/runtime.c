#include "lock/core/runtime.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/random.h>
#include <time.h>

/* How often a thread that waits for something else checks whether its call was cancelled. */
static const int64_t cancel_poll_ns = 25000000;

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
    return env->now_ns ? env->now_ns(env->ctx) : lock_mono_ns();
}

int64_t lock_env_machine_ns(const struct lock_env *env, int64_t until_ns) {
    int64_t machine = lock_mono_ns(), own = lock_env_now_ns(env);
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

bool lock_env_start_thread(pthread_t *thread, void *(*run)(void *arg), void *arg) {
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    bool started = pthread_create(thread, NULL, run, arg) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return started;
}

int lock_env_timeout_ms(int64_t ttl_ms, int64_t divisor) {
    int64_t least_ms = ttl_ms / 3 < 50 ? ttl_ms / 3 : 50, timeout_ms = ttl_ms / divisor;
    if (timeout_ms < least_ms)
        timeout_ms = least_ms;
    return timeout_ms > LOCK_TIMEOUT_MAX_MS ? LOCK_TIMEOUT_MAX_MS : (int)timeout_ms;
}

void lock_env_failed(const struct lock_env *env, const char *server, const char *why) {
    if (env && env->failed)
        env->failed(env->lock, server, why);
}

void lock_env_moved(const struct lock_env *env) {
    if (env && env->moved)
        env->moved(env->lock);
}

void lock_env_count_requests(const struct lock_env *env, int count) {
    if (env && env->requests)
        atomic_fetch_add_explicit(env->requests, (uint64_t)count, memory_order_relaxed);
}

/* ---- cancelling ---- */

struct lock_cancel {
    pthread_mutex_t mutex;  /* of the list */
    _Atomic bool cancelled; /* written with the mutex held */
    LIST_HEAD(cancelled_waiters, lock_waiter) waiters;
};

struct lock_cancel *lock_cancel_new(void) {
    struct lock_cancel *cancel = calloc(1, sizeof *cancel);
    if (cancel)
        pthread_mutex_init(&cancel->mutex, NULL);
    return cancel;
}

void lock_cancel_free(struct lock_cancel *cancel) {
    if (!cancel)
        return;
    pthread_mutex_destroy(&cancel->mutex);
    free(cancel);
}

/* The waiting thread may see `reason` and go before the semaphore is posted: so lock_waiter_destroy() waits
 * for all posts. */
static void post(struct lock_waiter *waiter, _Atomic bool *reason) {
    atomic_fetch_add(&waiter->posts, 1);
    atomic_store(reason, true);
    sem_post(&waiter->sem);
}

void lock_cancel(struct lock_cancel *cancel) {
    pthread_mutex_lock(&cancel->mutex);
    cancel->cancelled = true;
    for (struct lock_waiter *each = LIST_FIRST(&cancel->waiters); each;
         each = LIST_NEXT(each, cancelled_with))
        post(each, &each->cancelled);
    pthread_mutex_unlock(&cancel->mutex);
}

int64_t lock_cancel_poll_ns(const struct lock_cancel *cancel, int64_t now_ns, int64_t until_ns) {
    return cancel && until_ns > now_ns + cancel_poll_ns ? now_ns + cancel_poll_ns : until_ns;
}

bool lock_cancel_called(const struct lock_cancel *cancel) {
    return cancel && atomic_load(&cancel->cancelled);
}

/* ---- waiting ---- */

static struct timespec timespec_of(int64_t ns) {
    return (struct timespec){.tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000};
}

void lock_waiter_init(struct lock_waiter *waiter) {
    *waiter = (struct lock_waiter){.taken = 0};
    sem_init(&waiter->sem, 0, 0);
}

void lock_waiter_destroy(struct lock_waiter *waiter) {
    while (waiter->taken < atomic_load(&waiter->posts))
        waiter->taken += sem_wait(&waiter->sem) == 0;
    sem_destroy(&waiter->sem);
}

void lock_waiter_wake(struct lock_waiter *waiter) {
    post(waiter, &waiter->woken);
}

enum lock_status lock_waiter_wait(struct lock_waiter *waiter, int64_t until_ns, struct lock_cancel *cancel) {
    const struct timespec until = timespec_of(until_ns);
    bool woken = false, over = false;
    if (cancel) {
        pthread_mutex_lock(&cancel->mutex);
        waiter->cancelled = cancel->cancelled;
        LIST_INSERT_HEAD(&cancel->waiters, waiter, cancelled_with);
        pthread_mutex_unlock(&cancel->mutex);
    }
    while (!(woken = atomic_exchange(&waiter->woken, false)) && !atomic_load(&waiter->cancelled) && !over) {
        bool taken = sem_clockwait(&waiter->sem, CLOCK_MONOTONIC, &until) == 0;
        over = !taken && errno == ETIMEDOUT;
        waiter->taken += taken;
    }
    enum lock_status status = woken                             ? LOCK_OK
                              : atomic_load(&waiter->cancelled) ? LOCK_CANCELLED
                                                                : LOCK_TIMEOUT;
    if (cancel) {
        pthread_mutex_lock(&cancel->mutex);
        LIST_REMOVE(waiter, cancelled_with);
        pthread_mutex_unlock(&cancel->mutex);
        atomic_store(&waiter->cancelled, false); /* the next wait may have another `cancel` */
    }
    return status;
}

bool lock_wait_until(pthread_cond_t *cond, pthread_mutex_t *mutex, int64_t until_ns) {
    const struct timespec until = timespec_of(until_ns);
    return pthread_cond_clockwait(cond, mutex, CLOCK_MONOTONIC, &until) == 0;
}

bool lock_limit_is_over(const struct lock_limit *limit) {
    return lock_cancel_called(limit->cancel) || lock_mono_ns() >= limit->until_ns;
}

void lock_limit_wait(const struct lock_limit *limit, pthread_cond_t *cond, pthread_mutex_t *mutex) {
    int64_t now_ns = lock_mono_ns();
    lock_wait_until(cond, mutex, lock_cancel_poll_ns(limit->cancel, now_ns, limit->until_ns));
}
