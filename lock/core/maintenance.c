/* The background thread of a lock. It verifies or renews what is held, notices losses, and does the releases
 * that attempts and holders could not wait for. Verifying comes first, however much is to be released; but
 * each round does at least one release. A lock that renews has a second thread, the clock: it tells holders
 * of grants that were not renewed in time, and never waits for the store. */
#include "lock/core/handle.h"

#include <stdlib.h>
#include <string.h>

/* variant=watchdog does not extend a grant whose holder has been silent for so many times to live. */
enum { SILENT_TTLS = 3 };

/* lock.h names this limit. */
enum { PENDING_MAX = 4096 };

/* The pause after a release that failed. It doubles each time, since the store may be unusable for long. */
static const int64_t pause_least_ns = 100000000, pause_most_ns = 1600000000;

/* The thread spends at most so long on releases before it verifies again. */
static const int64_t releasing_ns = 100000000;

/* lock_maintenance_stop() spends at most so long on pending releases. */
static const int64_t stop_ns = 500000000;

struct lock_maintenance {
    struct lock *lock;
    bool has_thread, has_clock; /* they are started */
    pthread_t thread, clock;
    pthread_mutex_t mutex;
    pthread_cond_t cond;
    _Atomic bool stop; /* written with the mutex held */
    bool woken;
    STAILQ_HEAD(pending_releases, lock_pending_release) pending;
    _Atomic int pending_count; /* including the one that is being tried */
    int64_t pause_ns;          /* after a release that has failed */
    _Atomic bool asleep;       /* nothing is held: the thread must be woken for the next grant */
    pthread_cond_t clock_cond;
    _Atomic int64_t clock_ns; /* when the clock checks all grants next; written with the mutex held */
    pthread_mutex_t telling;  /* on_lost() is called by one thread at a time */
    /* Used by the thread alone. */
    struct lock_due dues[LOCK_CHECKS_MAX];
    struct lock_check checks[LOCK_CHECKS_MAX];
};

static int64_t now_ns(const struct lock_maintenance *maintenance) {
    return lock_env_now_ns(&maintenance->lock->env);
}

/* ---- verifying and renewing ---- */

/* Marks the grant as lost, or the grant of the thread that it was passed on to, and calls on_lost(). */
static void lose(struct lock_maintenance *maintenance, struct lock_due *due, bool gone) {
    struct lock *lock = maintenance->lock;
    while (!lock_local_queue_set_lost(lock->queue, due, gone)) {
        if (!lock_local_queue_find_successor(lock->queue, due))
            return;
    }
    atomic_fetch_add(&lock->metrics.lost, 1);
    if (!lock->config.on_lost)
        return;
    pthread_mutex_lock(&maintenance->telling);
    lock->config.on_lost(lock->config.ctx, &due->grant);
    pthread_mutex_unlock(&maintenance->telling);
}

/* Applies the store's answer to the grant. Returns when to verify it again, if that is earlier than the local
 * queue noted. */
static int64_t apply_answer(struct lock_maintenance *maintenance, struct lock_due *due,
                            const struct lock_check *check) {
    struct lock *lock = maintenance->lock;
    if (check->status == LOCK_NOT_OWNER) {
        lose(maintenance, due, true);
        return INT64_MAX;
    }
    bool is_there = check->status == LOCK_OK;
    if (is_there && check->extends) {
        if (lock_local_queue_update(lock->queue, due, check->grant.deadline_ns, 0))
            atomic_fetch_add(&lock->metrics.extended, 1);
        lock_maintenance_wake(maintenance, check->grant.deadline_ns);
        return INT64_MAX;
    }
    int64_t again_ns =
        is_there && !lock->renews ? INT64_MAX : now_ns(maintenance) + due->granted.third_ns / 4;
    lock_local_queue_update(lock->queue, due, 0, again_ns);
    return again_ns;
}

/* Writes the question about a grant that is due. False: there is nothing to ask the store. */
static bool prepare_check(struct lock_maintenance *maintenance, struct lock_due *due,
                          struct lock_check *check) {
    const struct lock *lock = maintenance->lock;
    if (due->forgotten) {
        lock_maintenance_release(maintenance, due->granted.pending, NULL);
        return false;
    }
    if (due->granted.deadline_ns <= now_ns(maintenance)) { /* this process was paused, or too busy */
        if (lock->renews)
            lose(maintenance, due, true);
        return false;
    }
    bool is_silent = due->silent_ns > SILENT_TTLS * lock->ttl_ns;
    *check = (struct lock_check){.grant = due->grant,
                                 .extends = lock->renews && (lock->renews_silent || !is_silent)};
    memcpy(check->grant.owner, due->granted.owner, sizeof check->grant.owner);
    return lock->backend->check;
}

/* Verifies grants that are due, with one call to the store. False: there were no more, or the thread must
 * stop. */
static bool verify_some(struct lock_maintenance *maintenance, struct lock_scan *scan) {
    const struct lock *lock = maintenance->lock;
    struct lock_due *dues = maintenance->dues;
    struct lock_check *checks = maintenance->checks;
    size_t count = 0, most = lock->backend->checks_together ? LOCK_CHECKS_MAX : 1;
    while (count < most && !atomic_load(&maintenance->stop) &&
           lock_local_queue_next_due(lock->queue, scan, &dues[count]))
        count += prepare_check(maintenance, &dues[count], &checks[count]);
    uint64_t moves = atomic_load(&lock->moves);
    if (count > 0)
        lock->backend->check(lock->store, checks, count);
    for (size_t i = 0; i < count; i++) {
        if (checks[i].status == LOCK_OK)
            dues[i].granted.moves = moves;
        int64_t again_ns = apply_answer(maintenance, &dues[i], &checks[i]);
        if (again_ns < scan->next_ns)
            scan->next_ns = again_ns;
    }
    if (atomic_load(&lock->moves) != moves) /* a server may have answered that is not the store any more */
        lock_local_queue_doubt_all(lock->queue);
    return count == most;
}

/* ---- pending releases ---- */

struct lock_pending_release *lock_pending_release_new(const char *key, const char *owner) {
    struct lock_pending_release *pending = malloc(sizeof *pending);
    if (!pending)
        return NULL;
    memcpy(pending->key, key, strlen(key) + 1);
    memcpy(pending->owner, owner, strlen(owner) + 1);
    return pending;
}

/* With the mutex held. */
static struct lock_pending_release *take_first(struct lock_maintenance *maintenance) {
    struct lock_pending_release *first = STAILQ_FIRST(&maintenance->pending);
    if (first)
        STAILQ_REMOVE_HEAD(&maintenance->pending, next);
    return first;
}

/* True: the store has answered, or the release does not matter any more. */
static bool try_release(struct lock_maintenance *maintenance, const struct lock_pending_release *pending) {
    const struct lock *lock = maintenance->lock;
    int64_t timeout_ms = lock_env_timeout_ms(lock->ttl_ns / 1000000, 8);
    int64_t until_ns = clock_now_ns() + timeout_ms * 1000000;
    enum lock_status status = lock->backend->withdraw(lock->store, pending->key, pending->owner, until_ns);
    return status == LOCK_OK || status == LOCK_NOT_OWNER || now_ns(maintenance) >= pending->until_ns;
}

/* Does at least one release, then more until `until_ns`, or until the thread is stopped. False: one has
 * failed, which ends this; it is at the end of the list now. Called, and returns, with the mutex held. */
static bool release_some(struct lock_maintenance *maintenance, int64_t until_ns) {
    bool was_stopped = maintenance->stop;
    struct lock_pending_release *pending;
    for (int tried = 0; (tried == 0 || now_ns(maintenance) < until_ns) && maintenance->stop == was_stopped &&
                        (pending = take_first(maintenance));
         tried++) {
        pthread_mutex_unlock(&maintenance->mutex);
        bool done = try_release(maintenance, pending);
        pthread_mutex_lock(&maintenance->mutex);
        if (!done) {
            STAILQ_INSERT_TAIL(&maintenance->pending, pending, next);
            return false;
        }
        atomic_fetch_sub(&maintenance->pending_count, 1);
        if (pending->waiter)
            waiter_wake(pending->waiter);
        free(pending);
    }
    return true;
}

/* ---- the thread ---- */

/* Called, and returns, with the mutex held. */
static void sleep_until(struct lock_maintenance *maintenance, int64_t until_ns) {
    int64_t machine_ns = lock_env_machine_ns(&maintenance->lock->env, until_ns);
    while (!maintenance->woken && !maintenance->stop &&
           cond_wait_until(&maintenance->cond, &maintenance->mutex, machine_ns))
        ;
    maintenance->woken = false;
}

/* Verifies all that is due. Returns when to verify again. */
static int64_t verify_all(struct lock_maintenance *maintenance) {
    struct lock_scan scan = {.next_ns = INT64_MAX};
    /* Set before the pass: a thread that gets a grant from now on sees it, and wakes this one. */
    atomic_store(&maintenance->asleep, true);
    while (verify_some(maintenance, &scan))
        ;
    if (scan.next_ns != INT64_MAX)
        atomic_store(&maintenance->asleep, false); /* a new grant is hardly due before that */
    return scan.next_ns;
}

static void *maintenance_run(void *arg) {
    struct lock_maintenance *maintenance = arg;
    pthread_mutex_lock(&maintenance->mutex);
    while (!maintenance->stop) {
        pthread_mutex_unlock(&maintenance->mutex);
        int64_t next_ns = verify_all(maintenance);
        pthread_mutex_lock(&maintenance->mutex);
        if (maintenance->stop)
            break;
        /* A new grant is due after a third of its time, which may be short. */
        int64_t part_ns = maintenance->lock->ttl_ns / 12;
        int64_t until_ns = now_ns(maintenance) + (part_ns < releasing_ns ? part_ns : releasing_ns);
        bool done = release_some(maintenance, next_ns < until_ns ? next_ns : until_ns);
        if (!done && next_ns > now_ns(maintenance) + maintenance->pause_ns)
            next_ns = now_ns(maintenance) + maintenance->pause_ns;
        if (done)
            maintenance->pause_ns = pause_least_ns;
        else if (maintenance->pause_ns < pause_most_ns)
            maintenance->pause_ns *= 2;
        if (!done || STAILQ_EMPTY(&maintenance->pending))
            sleep_until(maintenance, next_ns);
    }
    release_some(maintenance, now_ns(maintenance) + stop_ns);
    pthread_mutex_unlock(&maintenance->mutex);
    return NULL;
}

/* ---- the clock ---- */

/* A renewal that fails is repeated until a third of the grant is left. Then its holder is told, so that it
 * has time to stop, whatever the store does with a renewal that is in flight. */
static void *maintenance_run_clock(void *arg) {
    struct lock_maintenance *maintenance = arg;
    const struct lock *lock = maintenance->lock;
    pthread_mutex_lock(&maintenance->mutex);
    while (!maintenance->stop) {
        struct lock_scan scan = {.next_ns = INT64_MAX};
        struct lock_due due;
        atomic_store(&maintenance->clock_ns, INT64_MAX); /* new grants lower it: lock_maintenance_wake() */
        pthread_mutex_unlock(&maintenance->mutex);
        while (!atomic_load(&maintenance->stop) && lock_local_queue_next_late(lock->queue, &scan, &due))
            lose(maintenance, &due, due.grant.deadline_ns <= now_ns(maintenance));
        pthread_mutex_lock(&maintenance->mutex);
        if (scan.next_ns < maintenance->clock_ns)
            atomic_store(&maintenance->clock_ns, scan.next_ns);
        while (!maintenance->stop && now_ns(maintenance) < maintenance->clock_ns)
            cond_wait_until(&maintenance->clock_cond, &maintenance->mutex,
                            lock_env_machine_ns(&lock->env, maintenance->clock_ns));
    }
    pthread_mutex_unlock(&maintenance->mutex);
    return NULL;
}

/* ---- starting and stopping ---- */

struct lock_maintenance *lock_maintenance_start(struct lock *lock) {
    struct lock_maintenance *maintenance = calloc(1, sizeof *maintenance);
    if (!maintenance)
        return NULL;
    maintenance->lock = lock;
    maintenance->pause_ns = pause_least_ns;
    STAILQ_INIT(&maintenance->pending);
    pthread_mutex_init(&maintenance->mutex, NULL);
    pthread_mutex_init(&maintenance->telling, NULL);
    pthread_cond_init(&maintenance->cond, NULL);
    pthread_cond_init(&maintenance->clock_cond, NULL);
    atomic_store(&maintenance->clock_ns, INT64_MAX);
    if (lock->renews)
        maintenance->has_clock = thread_start(&maintenance->clock, maintenance_run_clock, maintenance);
    if (maintenance->has_clock == lock->renews)
        maintenance->has_thread = thread_start(&maintenance->thread, maintenance_run, maintenance);
    if (maintenance->has_thread)
        return maintenance;
    lock_maintenance_stop(maintenance);
    lock_maintenance_free(maintenance);
    return NULL;
}

void lock_maintenance_stop(struct lock_maintenance *maintenance) {
    pthread_mutex_lock(&maintenance->mutex);
    maintenance->stop = true;
    pthread_cond_signal(&maintenance->cond);
    pthread_cond_signal(&maintenance->clock_cond);
    pthread_mutex_unlock(&maintenance->mutex);
    if (maintenance->has_thread)
        pthread_join(maintenance->thread, NULL);
    if (maintenance->has_clock)
        pthread_join(maintenance->clock, NULL);
}

void lock_maintenance_free(struct lock_maintenance *maintenance) {
    if (!maintenance)
        return;
    for (struct lock_pending_release *pending; (pending = take_first(maintenance));)
        free(pending);
    pthread_cond_destroy(&maintenance->clock_cond);
    pthread_cond_destroy(&maintenance->cond);
    pthread_mutex_destroy(&maintenance->telling);
    pthread_mutex_destroy(&maintenance->mutex);
    free(maintenance);
}

/* ---- called by other threads ---- */

/* With the mutex held. */
static void wake(struct lock_maintenance *maintenance) {
    maintenance->woken = true;
    pthread_cond_signal(&maintenance->cond);
}

void lock_maintenance_wake(struct lock_maintenance *maintenance, int64_t deadline_ns) {
    bool asleep = atomic_load(&maintenance->asleep) && atomic_exchange(&maintenance->asleep, false);
    /* The grant may be shorter than the time to live: then it counts as lost a little later. */
    int64_t late_ns = maintenance->has_clock ? deadline_ns - maintenance->lock->ttl_ns / 3 : INT64_MAX;
    if (!asleep && late_ns >= atomic_load(&maintenance->clock_ns))
        return;
    pthread_mutex_lock(&maintenance->mutex);
    if (asleep)
        wake(maintenance);
    if (late_ns < maintenance->clock_ns) {
        atomic_store(&maintenance->clock_ns, late_ns);
        pthread_cond_signal(&maintenance->clock_cond);
    }
    pthread_mutex_unlock(&maintenance->mutex);
}

void lock_maintenance_doubt(struct lock_maintenance *maintenance) {
    lock_local_queue_doubt_all(maintenance->lock->queue);
    pthread_mutex_lock(&maintenance->mutex);
    wake(maintenance);
    pthread_mutex_unlock(&maintenance->mutex);
}

void lock_maintenance_release(struct lock_maintenance *maintenance, struct lock_pending_release *pending,
                              struct waiter *waiter) {
    const struct lock *lock = maintenance->lock;
    pending->until_ns = lock->backend->outlives_deadline ? INT64_MAX : now_ns(maintenance) + 2 * lock->ttl_ns;
    pending->waiter = waiter;
    atomic_fetch_add(&maintenance->pending_count, 1);
    pthread_mutex_lock(&maintenance->mutex);
    STAILQ_INSERT_TAIL(&maintenance->pending, pending, next);
    wake(maintenance);
    pthread_mutex_unlock(&maintenance->mutex);
}

void lock_maintenance_release_until(struct lock_maintenance *maintenance,
                                    struct lock_pending_release *pending, int64_t until_ns) {
    struct waiter waiter;
    waiter_init(&waiter);
    lock_maintenance_release(maintenance, pending, &waiter);
    bool is_done = waiter_wait(&waiter, until_ns, NULL) == WAITER_WOKEN;
    pthread_mutex_lock(&maintenance->mutex);
    if (!is_done && !waiter.woken) /* otherwise `pending` is freed */
        pending->waiter = NULL;
    pthread_mutex_unlock(&maintenance->mutex);
    waiter_destroy(&waiter);
}

bool lock_maintenance_is_full(const struct lock_maintenance *maintenance) {
    return atomic_load(&maintenance->pending_count) >= PENDING_MAX;
}
