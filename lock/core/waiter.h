/* How a thread waits, and how other threads end its wait. Not for users. */
#ifndef LOCK_CORE_WAITER_H
#define LOCK_CORE_WAITER_H

#include <pthread.h>
#include <semaphore.h>
#include <sys/queue.h>

#include "lock/lock.h"

/* One waiting thread; lives on its stack. It has a semaphore and no condition variable: a thread that is
 * woken does not run into the mutex of the thread that wakes it. */
struct lock_waiter {
    sem_t sem;
    _Atomic bool woken, cancelled;
    _Atomic int posts;                      /* of the semaphore, including those that are about to be made */
    int taken;                              /* how many of them the thread has taken */
    TAILQ_ENTRY(lock_waiter) queued;        /* with others for one key (local_queue.c) */
    LIST_ENTRY(lock_waiter) cancelled_with; /* the others that one lock_cancel() ends */
};

void lock_waiter_init(struct lock_waiter *waiter);
void lock_waiter_destroy(struct lock_waiter *waiter);

/* May be called by any thread, also before the wait begins. */
void lock_waiter_wake(struct lock_waiter *waiter);

/* Blocks until woken (LOCK_OK, and the waiter can be woken anew), CLOCK_MONOTONIC passes `until_ns`
 * (LOCK_TIMEOUT), or `cancel`, which may be NULL, is called (LOCK_CANCELLED). */
enum lock_status lock_waiter_wait(struct lock_waiter *waiter, int64_t until_ns, struct lock_cancel *cancel);

/* Whether lock_cancel() was called; false for NULL. */
bool lock_cancel_called(const struct lock_cancel *cancel);
/* For a thread that waits for something else: until when it may wait before it must check `cancel` again. */
int64_t lock_cancel_poll_ns(const struct lock_cancel *cancel, int64_t now_ns, int64_t until_ns);

/* Waits on a condition until CLOCK_MONOTONIC passes `until_ns`: then it returns false. */
bool lock_wait_until(pthread_cond_t *cond, pthread_mutex_t *mutex, int64_t until_ns);

/* How long a call may wait for its store: until this time of CLOCK_MONOTONIC, or until soon after `cancel`
 * (which may be NULL) is called. A backend that cannot abandon a call in flight ends it within
 * lock_env_timeout_ms(). */
struct lock_limit {
    int64_t until_ns;
    struct lock_cancel *cancel;
};

bool lock_limit_is_over(const struct lock_limit *limit);
/* Waits on a condition until the limit is over, or it is time to check whether it is. */
void lock_limit_wait(const struct lock_limit *limit, pthread_cond_t *cond, pthread_mutex_t *mutex);

#endif
