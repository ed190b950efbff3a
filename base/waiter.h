/* Threads that block: starting one, waiting, waking, and cancelling the waits of others. All times are
 * CLOCK_MONOTONIC. */
#ifndef BASE_WAITER_H
#define BASE_WAITER_H

#include <pthread.h>
#include <semaphore.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

/* Starts a thread that takes no signals: those are for the program's own threads. */
bool thread_start(pthread_t *thread, void *(*run)(void *arg), void *arg);

/* ---- cancelling ---- */

/* Ends the waits of all threads that were given it. */
struct cancel {
    pthread_mutex_t mutex; /* of the list */
    _Atomic bool called;   /* written with the mutex held */
    LIST_HEAD(cancel_waiters, waiter) waiters;
};

void cancel_init(struct cancel *cancel);
/* Ends the waits, for good: a later wait with it ends at once. Any thread may call it. */
void cancel_call(struct cancel *cancel);
/* Whether cancel_call() was called; false for NULL. */
bool cancel_called(const struct cancel *cancel);
/* For a thread that waits for something else, a socket or a condition: until when it may wait before it must
 * check `cancel` again. At most `until_ns`. */
int64_t cancel_poll_ns(const struct cancel *cancel, int64_t now_ns, int64_t until_ns);
/* No thread may wait with it any more. */
void cancel_destroy(struct cancel *cancel);

/* ---- waiting ---- */

/* One waiting thread; mostly on its stack. It has a semaphore and no condition variable: a thread that is
 * woken does not run into the mutex of the thread that wakes it. */
struct waiter {
    sem_t sem;
    _Atomic bool woken, cancelled;
    _Atomic int posts;                 /* of the semaphore, including those that are about to be made */
    int taken;                         /* how many of them the thread has taken */
    LIST_ENTRY(waiter) cancelled_with; /* the others that one cancel_call() ends */
    TAILQ_ENTRY(waiter) queued;        /* the user's, for a queue of waiters */
};

enum waiter_end { WAITER_WOKEN, WAITER_TIMEOUT, WAITER_CANCELLED };

void waiter_init(struct waiter *waiter);
/* Waits for waiter_wake() and cancel_call() calls that still use `waiter`. */
void waiter_destroy(struct waiter *waiter);

/* Any thread may call it, also before the wait begins. */
void waiter_wake(struct waiter *waiter);
/* Blocks until woken (then the waiter can be woken anew), until `until_ns`, or until `cancel`, which may be
 * NULL, is called. */
enum waiter_end waiter_wait(struct waiter *waiter, int64_t until_ns, struct cancel *cancel);

/* Waits on a condition. False: `until_ns` has passed. */
bool cond_wait_until(pthread_cond_t *cond, pthread_mutex_t *mutex, int64_t until_ns);

#endif
