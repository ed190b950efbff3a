#include "lock/waiter.h"

#include <stdlib.h>
#include <time.h>

/* Held while `newest` is walked, and before a waiter's own mutex. */
struct lock_cancel {
    pthread_mutex_t mutex;
    bool cancelled;
    struct lock_waiter *newest;
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

void lock_cancel(struct lock_cancel *cancel) {
    pthread_mutex_lock(&cancel->mutex);
    cancel->cancelled = true;
    for (struct lock_waiter *waiter = cancel->newest; waiter; waiter = waiter->older) {
        pthread_mutex_lock(&waiter->mutex);
        waiter->cancelled = true;
        pthread_cond_signal(&waiter->cond);
        pthread_mutex_unlock(&waiter->mutex);
    }
    pthread_mutex_unlock(&cancel->mutex);
}

static void join(struct lock_cancel *cancel, struct lock_waiter *waiter) {
    pthread_mutex_lock(&cancel->mutex);
    waiter->cancelled = cancel->cancelled;
    waiter->newer = NULL;
    waiter->older = cancel->newest;
    if (cancel->newest)
        cancel->newest->newer = waiter;
    cancel->newest = waiter;
    pthread_mutex_unlock(&cancel->mutex);
}

static void part(struct lock_cancel *cancel, struct lock_waiter *waiter) {
    pthread_mutex_lock(&cancel->mutex);
    if (waiter->newer)
        waiter->newer->older = waiter->older;
    else
        cancel->newest = waiter->older;
    if (waiter->older)
        waiter->older->newer = waiter->newer;
    pthread_mutex_unlock(&cancel->mutex);
}

void lock_waiter_init(struct lock_waiter *waiter) {
    *waiter = (struct lock_waiter){.woken = false};
    pthread_mutex_init(&waiter->mutex, NULL);
    pthread_cond_init(&waiter->cond, NULL);
}

void lock_waiter_destroy(struct lock_waiter *waiter) {
    pthread_cond_destroy(&waiter->cond);
    pthread_mutex_destroy(&waiter->mutex);
}

void lock_waiter_wake(struct lock_waiter *waiter) {
    pthread_mutex_lock(&waiter->mutex);
    waiter->woken = true;
    pthread_cond_signal(&waiter->cond);
    pthread_mutex_unlock(&waiter->mutex);
}

enum lock_status lock_waiter_wait(struct lock_waiter *waiter, int64_t until_ns, struct lock_cancel *cancel) {
    struct timespec until = {.tv_sec = until_ns / 1000000000, .tv_nsec = until_ns % 1000000000};
    if (cancel)
        join(cancel, waiter);
    pthread_mutex_lock(&waiter->mutex);
    int over = 0;
    while (!waiter->woken && !waiter->cancelled && !over)
        over = pthread_cond_clockwait(&waiter->cond, &waiter->mutex, CLOCK_MONOTONIC, &until);
    enum lock_status status = waiter->woken ? LOCK_OK : waiter->cancelled ? LOCK_CANCELLED : LOCK_TIMEOUT;
    waiter->woken = false;
    pthread_mutex_unlock(&waiter->mutex);
    if (cancel)
        part(cancel, waiter);
    return status;
}
