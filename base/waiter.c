#include "base/waiter.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <time.h>

/* How often a thread that waits for something else checks whether it was cancelled. */
static const int64_t poll_ns = 25000000;

bool thread_start(pthread_t *thread, void *(*run)(void *arg), void *arg) {
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    bool started = pthread_create(thread, NULL, run, arg) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return started;
}

/* The waiting thread may see `reason` and go before the semaphore is posted: so waiter_destroy() waits for
 * all posts. */
static void waiter_post(struct waiter *waiter, _Atomic bool *reason) {
    atomic_fetch_add(&waiter->posts, 1);
    atomic_store(reason, true);
    sem_post(&waiter->sem);
}

/* ---- cancelling ---- */

void cancel_init(struct cancel *cancel) {
    *cancel = (struct cancel){.called = false};
    pthread_mutex_init(&cancel->mutex, NULL);
}

void cancel_call(struct cancel *cancel) {
    pthread_mutex_lock(&cancel->mutex);
    cancel->called = true;
    for (struct waiter *each = LIST_FIRST(&cancel->waiters); each; each = LIST_NEXT(each, cancelled_with))
        waiter_post(each, &each->cancelled);
    pthread_mutex_unlock(&cancel->mutex);
}

bool cancel_called(const struct cancel *cancel) {
    return cancel && atomic_load(&cancel->called);
}

int64_t cancel_poll_ns(const struct cancel *cancel, int64_t now_ns, int64_t until_ns) {
    return cancel && until_ns > now_ns + poll_ns ? now_ns + poll_ns : until_ns;
}

void cancel_destroy(struct cancel *cancel) {
    pthread_mutex_destroy(&cancel->mutex);
}

/* ---- waiting ---- */

static struct timespec timespec_of(int64_t ns) {
    return (struct timespec){.tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000};
}

void waiter_init(struct waiter *waiter) {
    *waiter = (struct waiter){.taken = 0};
    sem_init(&waiter->sem, 0, 0);
}

void waiter_destroy(struct waiter *waiter) {
    while (waiter->taken < atomic_load(&waiter->posts))
        waiter->taken += sem_wait(&waiter->sem) == 0;
    sem_destroy(&waiter->sem);
}

void waiter_wake(struct waiter *waiter) {
    waiter_post(waiter, &waiter->woken);
}

enum waiter_end waiter_wait(struct waiter *waiter, int64_t until_ns, struct cancel *cancel) {
    const struct timespec until = timespec_of(until_ns);
    bool woken = false, over = false;
    if (cancel) {
        pthread_mutex_lock(&cancel->mutex);
        waiter->cancelled = cancel->called;
        LIST_INSERT_HEAD(&cancel->waiters, waiter, cancelled_with);
        pthread_mutex_unlock(&cancel->mutex);
    }
    while (!(woken = atomic_exchange(&waiter->woken, false)) && !atomic_load(&waiter->cancelled) && !over) {
        bool taken = sem_clockwait(&waiter->sem, CLOCK_MONOTONIC, &until) == 0;
        over = !taken && errno == ETIMEDOUT;
        waiter->taken += taken;
    }
    enum waiter_end end = woken                             ? WAITER_WOKEN
                          : atomic_load(&waiter->cancelled) ? WAITER_CANCELLED
                                                            : WAITER_TIMEOUT;
    if (cancel) {
        pthread_mutex_lock(&cancel->mutex);
        LIST_REMOVE(waiter, cancelled_with);
        pthread_mutex_unlock(&cancel->mutex);
        atomic_store(&waiter->cancelled, false); /* the next wait may have another `cancel` */
    }
    return end;
}

bool cond_wait_until(pthread_cond_t *cond, pthread_mutex_t *mutex, int64_t until_ns) {
    const struct timespec until = timespec_of(until_ns);
    return pthread_cond_clockwait(cond, mutex, CLOCK_MONOTONIC, &until) == 0;
}
