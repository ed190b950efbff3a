#include "lock/core/maintenance.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"

/* A holder that reports no progress for so many times to live is not renewed any more. */
enum { SILENT_TTLS = 3 };

/* So many are verified with one call, where the backend can; and so many releases may be pending before
 * nothing more is asked for, which lock.h tells. */
enum { TOGETHER_MAX = 64, PENDING_MAX = 4096 };

/* Between the tries to release something; longer each time, since it may be the store that will not. */
static const int64_t pause_least_ns = 100000000, pause_most_ns = 1600000000;

/* At the end there is so much time for them. */
static const int64_t last_ns = 500000000;

struct lock_keeper {
    struct lock_keeper_config config;
    pthread_t thread;
    pthread_mutex_t mutex;
    pthread_cond_t cond;
    _Atomic bool stop; /* written with the mutex */
    bool roused;
    struct lock_pending *first, **last; /* to be released */
    _Atomic int count;                  /* of them, and the one that is being released */
    int64_t pause_ns;                   /* after a release that has failed */
    _Atomic bool asleep;                /* until it is roused */
    struct lock_due dues[TOGETHER_MAX]; /* from here on the thread's own */
    struct lock_grant helds[TOGETHER_MAX];
    enum lock_status statuses[TOGETHER_MAX];
};

static int64_t now_ns(const struct lock_keeper *keeper) {
    return lock_env_now_ns(keeper->config.env);
}

/* ---- what is held ---- */

static void lose(struct lock_keeper *keeper, const struct lock_due *due, bool gone) {
    if (lock_lines_lost(keeper->config.lines, due, gone))
        keeper->config.on_lost(keeper->config.layer, &due->grant);
}

/* A renewal that failed is tried again until so little is left; then the holder is told, while it still has
 * the time to stop. A backend's calls take an eighth of the time to live, also where they have to
 * connect first, so as a rule a try that begins before this ends before the deadline. */
static bool is_late(const struct lock_keeper *keeper, const struct lock_due *due) {
    return due->held.deadline_ns - now_ns(keeper) < keeper->config.ttl_ns / 3;
}

/* A verification that failed is repeated sooner. */
static void judge(struct lock_keeper *keeper, const struct lock_due *due, bool renews,
                  enum lock_status status, int64_t deadline_ns) {
    if (status == LOCK_NOT_OWNER) {
        lose(keeper, due, true);
        return;
    }
    if (status == LOCK_OK && renews) {
        if (lock_lines_renewed(keeper->config.lines, due, deadline_ns))
            keeper->config.on_renewed(keeper->config.layer);
        return;
    }
    bool must_renew = keeper->config.backend->renews;
    if (must_renew || status != LOCK_OK)
        lock_lines_look_at(keeper->config.lines, due, now_ns(keeper) + keeper->config.ttl_ns / 12);
    if (must_renew && is_late(keeper, due))
        lose(keeper, due, false);
}

static void verify(struct lock_keeper *keeper, const struct lock_due *due, struct lock_grant *held) {
    const struct lock_backend *backend = keeper->config.backend;
    bool renews = backend->renews && due->silent_ns <= SILENT_TTLS * keeper->config.ttl_ns;
    enum lock_status status = LOCK_OK;
    if (due->held.deadline_ns <= now_ns(keeper))
        status = LOCK_NOT_OWNER; /* this process was paused, or too busy */
    else if (renews)
        status = backend->extend(keeper->config.store, held);
    else if (backend->look)
        status = backend->look(keeper->config.store, held);
    judge(keeper, due, renews, status, held->deadline_ns);
}

static void verify_together(struct lock_keeper *keeper, size_t count) {
    keeper->config.backend->look_many(keeper->config.store, keeper->helds, keeper->statuses, count);
    for (size_t i = 0; i < count; i++)
        judge(keeper, &keeper->dues[i], false, keeper->statuses[i], 0);
}

/* Up to TOGETHER_MAX of those that are due. False: there were no more, or it is time to stop. */
static bool verify_some(struct lock_keeper *keeper, struct lock_scan *scan) {
    size_t count = 0;
    while (count < TOGETHER_MAX && !atomic_load(&keeper->stop) &&
           lock_lines_due(keeper->config.lines, scan, &keeper->dues[count])) {
        struct lock_due *due = &keeper->dues[count];
        struct lock_grant *held = &keeper->helds[count];
        if (due->forgotten) {
            lock_keeper_release(keeper, due->held.pending);
            continue;
        }
        *held = due->grant;
        memcpy(held->owner, due->held.owner, sizeof held->owner);
        if (keeper->config.backend->look_many)
            count++;
        else
            verify(keeper, due, held);
    }
    if (count > 0)
        verify_together(keeper, count);
    return count == TOGETHER_MAX;
}

/* ---- what is to be released ---- */

struct lock_pending *lock_pending_new(const char *key, const char *owner) {
    struct lock_pending *pending = malloc(sizeof *pending);
    if (!pending)
        return NULL;
    memcpy(pending->key, key, strlen(key) + 1);
    memcpy(pending->owner, owner, strlen(owner) + 1);
    return pending;
}

/* With the mutex held. */
static void append(struct lock_keeper *keeper, struct lock_pending *pending) {
    pending->next = NULL;
    *keeper->last = pending;
    keeper->last = &pending->next;
}

static struct lock_pending *take_first(struct lock_keeper *keeper) {
    struct lock_pending *first = keeper->first;
    if (first)
        keeper->first = first->next;
    if (!keeper->first)
        keeper->last = &keeper->first;
    return first;
}

/* The store has heard of it, or it is too late to matter. */
static bool is_released(struct lock_keeper *keeper, const struct lock_pending *pending) {
    int64_t until_ns = clock_mono_ns(&clock_system) +
                       (int64_t)lock_env_timeout_ms(keeper->config.ttl_ns / 1000000, 8) * 1000000;
    enum lock_status status =
        keeper->config.backend->withdraw(keeper->config.store, pending->key, pending->owner, until_ns);
    return status == LOCK_OK || status == LOCK_NOT_OWNER || now_ns(keeper) >= pending->until_ns;
}

/* Called, and returns, with the mutex held. Stops when it is time to verify what is held, but not before the
 * first, since it may always be time to; when the keeper is stopped; and at the first that fails, which comes
 * last the next time. False: one has failed. */
static bool release_some(struct lock_keeper *keeper, int64_t until_ns) {
    bool was_stopped = keeper->stop;
    struct lock_pending *pending;
    for (int tried = 0; (tried == 0 || now_ns(keeper) < until_ns) && keeper->stop == was_stopped &&
                        (pending = take_first(keeper));
         tried++) {
        pthread_mutex_unlock(&keeper->mutex);
        bool done = is_released(keeper, pending);
        pthread_mutex_lock(&keeper->mutex);
        if (!done) {
            append(keeper, pending);
            return false;
        }
        atomic_fetch_sub(&keeper->count, 1);
        if (pending->waiter)
            lock_waiter_wake(pending->waiter);
        free(pending);
    }
    return true;
}

/* ---- the thread ---- */

/* Called, and returns, with the mutex held. */
static void sleep_until(struct lock_keeper *keeper, int64_t until_ns) {
    int64_t machine_ns = lock_env_machine_ns(keeper->config.env, until_ns);
    struct timespec until = {.tv_sec = machine_ns / 1000000000, .tv_nsec = machine_ns % 1000000000};
    int over = 0;
    while (!keeper->roused && !keeper->stop && !over)
        over = pthread_cond_clockwait(&keeper->cond, &keeper->mutex, CLOCK_MONOTONIC, &until);
    keeper->roused = false;
}

/* Returns when to verify again. */
static int64_t verify_all(struct lock_keeper *keeper) {
    struct lock_scan scan = {.next_ns = INT64_MAX};
    /* Before the lines are looked through: who holds from now on sees it, and rouses. */
    atomic_store(&keeper->asleep, true);
    while (verify_some(keeper, &scan))
        ;
    if (scan.next_ns != INT64_MAX)
        atomic_store(&keeper->asleep, false); /* what is held from now on is due later than that */
    return scan.next_ns;
}

static void *run(void *arg) {
    struct lock_keeper *keeper = arg;
    pthread_mutex_lock(&keeper->mutex);
    while (!keeper->stop) {
        pthread_mutex_unlock(&keeper->mutex);
        int64_t next_ns = verify_all(keeper);
        pthread_mutex_lock(&keeper->mutex);
        if (keeper->stop)
            break;
        /* What is held from now on is due in a third of the time to live. */
        int64_t until_ns = now_ns(keeper) + keeper->config.ttl_ns / 12;
        bool done = release_some(keeper, next_ns < until_ns ? next_ns : until_ns);
        if (!done && next_ns > now_ns(keeper) + keeper->pause_ns)
            next_ns = now_ns(keeper) + keeper->pause_ns;
        if (done)
            keeper->pause_ns = pause_least_ns;
        else if (keeper->pause_ns < pause_most_ns)
            keeper->pause_ns *= 2;
        if (!done || !keeper->first)
            sleep_until(keeper, next_ns);
    }
    release_some(keeper, now_ns(keeper) + last_ns);
    pthread_mutex_unlock(&keeper->mutex);
    return NULL;
}

struct lock_keeper *lock_keeper_open(const struct lock_keeper_config *config) {
    struct lock_keeper *keeper = calloc(1, sizeof *keeper);
    if (!keeper)
        return NULL;
    keeper->config = *config;
    keeper->pause_ns = pause_least_ns;
    keeper->last = &keeper->first;
    pthread_mutex_init(&keeper->mutex, NULL);
    pthread_cond_init(&keeper->cond, NULL);
    if (lock_env_start_thread(&keeper->thread, run, keeper))
        return keeper;
    pthread_cond_destroy(&keeper->cond);
    pthread_mutex_destroy(&keeper->mutex);
    free(keeper);
    return NULL;
}

void lock_keeper_stop(struct lock_keeper *keeper) {
    pthread_mutex_lock(&keeper->mutex);
    keeper->stop = true;
    pthread_cond_signal(&keeper->cond);
    pthread_mutex_unlock(&keeper->mutex);
    pthread_join(keeper->thread, NULL);
}

void lock_keeper_free(struct lock_keeper *keeper) {
    if (!keeper)
        return;
    for (struct lock_pending *pending; (pending = take_first(keeper));)
        free(pending);
    pthread_cond_destroy(&keeper->cond);
    pthread_mutex_destroy(&keeper->mutex);
    free(keeper);
}

static void rouse(struct lock_keeper *keeper) {
    keeper->roused = true;
    pthread_cond_signal(&keeper->cond);
}

void lock_keeper_rouse(struct lock_keeper *keeper) {
    if (!atomic_exchange(&keeper->asleep, false))
        return;
    pthread_mutex_lock(&keeper->mutex);
    rouse(keeper);
    pthread_mutex_unlock(&keeper->mutex);
}

static void release_for(struct lock_keeper *keeper, struct lock_pending *pending,
                        struct lock_waiter *waiter) {
    int64_t until_ns = keeper->config.backend->lasts ? INT64_MAX : now_ns(keeper) + 2 * keeper->config.ttl_ns;
    atomic_fetch_add(&keeper->count, 1);
    pthread_mutex_lock(&keeper->mutex);
    pending->until_ns = until_ns;
    pending->waiter = waiter;
    append(keeper, pending);
    rouse(keeper);
    pthread_mutex_unlock(&keeper->mutex);
}

void lock_keeper_release(struct lock_keeper *keeper, struct lock_pending *pending) {
    release_for(keeper, pending, NULL);
}

void lock_keeper_release_within(struct lock_keeper *keeper, struct lock_pending *pending, int64_t until_ns) {
    struct lock_waiter waiter;
    lock_waiter_init(&waiter);
    release_for(keeper, pending, &waiter);
    bool is_done = lock_waiter_wait(&waiter, until_ns, NULL) == LOCK_OK;
    pthread_mutex_lock(&keeper->mutex);
    if (!is_done && !waiter.woken) /* otherwise it is gone */
        pending->waiter = NULL;
    pthread_mutex_unlock(&keeper->mutex);
    lock_waiter_destroy(&waiter);
}

bool lock_keeper_is_full(const struct lock_keeper *keeper) {
    return atomic_load(&keeper->count) >= PENDING_MAX;
}
