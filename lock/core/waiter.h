/* Waiting, for one thread, that others can end. Not for users. */
#ifndef LOCK_CORE_WAITER_H
#define LOCK_CORE_WAITER_H

#include <pthread.h>
#include <semaphore.h>

#include "lock/lock.h"

/* Lives on the stack of the thread that waits. A semaphore rather than a condition: who is woken does not run
 * into the mutex of the one that wakes it. */
struct lock_waiter {
    sem_t sem;
    _Atomic bool woken, cancelled;
    _Atomic int posts;                 /* of the semaphore, also those that are about to be made; */
    int taken;                         /* how many of them the thread has taken */
    struct lock_waiter *next;          /* in line (line.c) */
    struct lock_waiter *newer, *older; /* of those that one cancel ends */
};

void lock_waiter_init(struct lock_waiter *waiter);
void lock_waiter_destroy(struct lock_waiter *waiter);

/* From any thread; kept if nobody waits yet. */
void lock_waiter_wake(struct lock_waiter *waiter);

/* Whether it has been called; of NULL never. */
bool lock_cancel_called(const struct lock_cancel *cancel);
/* For those who wait for something else too: until when to wait before they ask again. */
int64_t lock_cancel_poll_ns(const struct lock_cancel *cancel, int64_t now_ns, int64_t until_ns);

/* Blocks until woken (LOCK_OK, and the waiter can be woken anew), CLOCK_MONOTONIC passes `until_ns`
 * (LOCK_TIMEOUT), or `cancel`, which may be NULL, is called (LOCK_CANCELLED). */
enum lock_status lock_waiter_wait(struct lock_waiter *waiter, int64_t until_ns, struct lock_cancel *cancel);

#endif
