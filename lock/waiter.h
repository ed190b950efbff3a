/* Waiting, for one thread, that others can end. Not for users. */
#ifndef LOCK_WAITER_H
#define LOCK_WAITER_H

#include <pthread.h>

#include "lock/lock.h"

/* Lives on the stack of the thread that waits. */
struct lock_waiter {
    pthread_mutex_t mutex;
    pthread_cond_t cond;
    bool woken, cancelled;
    struct lock_waiter *next;          /* in line (line.c) */
    struct lock_waiter *newer, *older; /* of those that one cancel ends */
};

void lock_waiter_init(struct lock_waiter *waiter);
void lock_waiter_destroy(struct lock_waiter *waiter);

/* From any thread; kept if nobody waits yet. */
void lock_waiter_wake(struct lock_waiter *waiter);

/* Blocks until woken (LOCK_OK, and the waiter can be woken anew), CLOCK_MONOTONIC passes `until_ns`
 * (LOCK_TIMEOUT), or `cancel`, which may be NULL, is called (LOCK_CANCELLED). */
enum lock_status lock_waiter_wait(struct lock_waiter *waiter, int64_t until_ns, struct lock_cancel *cancel);

#endif
