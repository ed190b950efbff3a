#include "lock/core/store_calls.h"

#include <stdlib.h>
#include <time.h>

#include "base/clock.h"
#include "lock/core/maintenance.h"

/* A waiter asks a store that fails again after `pause_ns`, and gives up after `failing_ns`. */
static const int64_t failing_ns = 1000000000, pause_ns = 20000000;

/* An attempt waits for its reply until `late_ns` after the deadline, but at least `least_ns`. Then
 * withdrawing it may take `withdraw_ns`. So no call takes longer than lock.h says. */
static const int64_t late_ns = LOCK_TIMEOUT_MAX_MS * INT64_C(1000000), least_ns = 850000000,
                     withdraw_ns = 300000000;

/* A release whose reply was lost is repeated at least once, and until so long after it began. */
static const int64_t release_again_ns = 500000000;

/* `status` is of a release or of withdrawing. */
static bool is_gone(enum lock_status status) {
    return status == LOCK_OK || status == LOCK_NOT_OWNER;
}

static bool is_failure(enum lock_status status) {
    return status == LOCK_UNKNOWN || status == LOCK_UNAVAILABLE;
}

void lock_store_settle(struct lock *lock, struct lock_pending_release *pending, bool may_be_left) {
    if (pending && may_be_left)
        lock_maintenance_release(lock->maintenance, pending);
    else
        free(pending);
}

/* ---- acquiring ---- */

/* Gives up an attempt that the store may know of. True: nothing is left of it. */
static bool withdraw(struct lock *lock, const struct lock_attempt *attempt) {
    const struct lock_backend *backend = lock->backend;
    const struct lock_grant *grant = &attempt->grant;
    int64_t until_ns = attempt->limit.until_ns, now_ns = clock_mono_ns(&clock_system);
    if (now_ns + withdraw_ns < until_ns)
        until_ns = now_ns + withdraw_ns;
    return backend->withdraw && now_ns < until_ns &&
           is_gone(backend->withdraw(lock->store, grant->key, grant->owner, until_ns));
}

static enum lock_status ask_once(struct lock *lock, struct lock_request *request) {
    struct lock_attempt *attempt = &request->attempt;
    attempt->nothing_left = false;
    enum lock_status status = lock->backend->attempt(lock->store, attempt);
    request->may_be_left = request->may_be_left || status == LOCK_UNKNOWN ||
                           (status != LOCK_OK && attempt->waits && !attempt->nothing_left);
    request->failed = is_failure(status);
    return status;
}

/* One attempt, and another if the reply was lost: an attempt finds what an earlier one with the same owner
 * was granted. */
static enum lock_status ask(struct lock *lock, struct lock_request *request) {
    enum lock_status status = ask_once(lock, request);
    if (status != LOCK_UNKNOWN || lock_limit_is_over(&request->attempt.limit))
        return status;
    status = ask_once(lock, request);
    return status == LOCK_OK || status == LOCK_BUSY ? status : LOCK_UNKNOWN;
}

/* Waits until it is worth asking again: LOCK_OK, LOCK_TIMEOUT, LOCK_CANCELLED. */
static enum lock_status wait_to_ask(struct lock *lock, struct lock_waiter *waiter, int64_t until_ns,
                                    int64_t deadline_ns, struct lock_cancel *cancel) {
    if (lock_now_ns(lock) >= deadline_ns)
        return LOCK_TIMEOUT;
    if (until_ns > deadline_ns)
        until_ns = deadline_ns;
    atomic_fetch_add(&lock->metrics.waiting, 1);
    enum lock_status status = lock_waiter_wait(waiter, lock_env_machine_ns(&lock->env, until_ns), cancel);
    atomic_fetch_sub(&lock->metrics.waiting, 1);
    return status == LOCK_CANCELLED ? status : LOCK_OK;
}

static enum lock_status ask_until_granted(struct lock *lock, struct lock_request *request,
                                          int64_t deadline_ns, struct lock_cancel *cancel,
                                          struct lock_waiter *waiter) {
    const struct lock_attempt *attempt = &request->attempt;
    int64_t failing_since_ns = 0; /* 0: the store answers */
    bool unknown = false;
    for (;;) {
        enum lock_status status = ask(lock, request);
        int64_t now_ns = lock_now_ns(lock), until_ns = attempt->retry_ns;
        bool fails = is_failure(status);
        if (!fails && (status != LOCK_BUSY || !attempt->waits))
            return status;
        failing_since_ns = !fails ? 0 : failing_since_ns ? failing_since_ns : now_ns;
        unknown = fails && (unknown || status == LOCK_UNKNOWN);
        if (fails) {
            if (lock_cancel_called(cancel))
                return LOCK_CANCELLED;
            if (!attempt->waits || now_ns >= deadline_ns || now_ns - failing_since_ns >= failing_ns)
                return unknown ? LOCK_UNKNOWN : status;
            until_ns = now_ns + pause_ns;
        }
        status = wait_to_ask(lock, waiter, until_ns, deadline_ns, cancel);
        if (status != LOCK_OK)
            return status;
    }
}

static struct lock_limit limit_of(const struct lock *lock, int64_t deadline_ns, struct lock_cancel *cancel) {
    int64_t until_ns = lock_env_machine_ns(&lock->env, deadline_ns);
    int64_t least_until_ns = clock_mono_ns(&clock_system) + least_ns;
    until_ns = until_ns > INT64_MAX - late_ns ? INT64_MAX : until_ns + late_ns;
    return (struct lock_limit){until_ns > least_until_ns ? until_ns : least_until_ns, cancel};
}

/* A holder forgot to release its grant, and the backend cannot release it with the attempt. */
static void release_forgotten(struct lock *lock, struct lock_attempt *attempt) {
    const struct lock_backend *backend = lock->backend;
    if (!attempt->releasing[0] || backend->attempt_releases)
        return;
    enum lock_status status = backend->release(lock->store, attempt->grant.key, attempt->releasing);
    if (is_gone(status) || !backend->outlives_deadline)
        attempt->releasing[0] = '\0';
}

enum lock_status lock_store_acquire(struct lock *lock, struct lock_request *request, int64_t deadline_ns,
                                    struct lock_cancel *cancel) {
    struct lock_attempt *attempt = &request->attempt;
    struct lock_grant *grant = &attempt->grant;
    struct lock_waiter waiter;
    if (!lock->store) {
        grant->fence = 0;
        grant->deadline_ns = INT64_MAX;
        return LOCK_OK;
    }
    attempt->limit = limit_of(lock, deadline_ns, cancel);
    release_forgotten(lock, attempt);
    lock_waiter_init(&waiter);
    if (lock->queue)
        lock_local_queue_set_waiter(lock->queue, grant->key, grant->owner, &waiter);
    enum lock_status status = ask_until_granted(lock, request, deadline_ns, cancel, &waiter);
    if (lock->queue)
        lock_local_queue_set_waiter(lock->queue, grant->key, grant->owner, NULL);
    lock_waiter_destroy(&waiter);
    if (status == LOCK_OK)
        request->may_be_left = false;
    else if (request->may_be_left && status != LOCK_CANCELLED)
        request->may_be_left = !withdraw(lock, attempt);
    if (status == LOCK_UNKNOWN && !request->may_be_left)
        status = LOCK_UNAVAILABLE; /* by now it is certain that it was not granted */
    return status;
}

/* ---- releasing ---- */

/* Repeats a release whose reply was lost. LOCK_UNKNOWN: the store could not be asked; or the grant is not
 * there and its deadline has passed meanwhile, so it may have expired or have been released. */
static enum lock_status release_again(struct lock *lock, const char *key,
                                      const struct lock_store_grant *granted, int64_t until_ns, bool *gone) {
    const struct timespec pause = {.tv_nsec = pause_ns};
    enum lock_status status = lock->backend->release(lock->store, key, granted->owner);
    while (!is_gone(status) && clock_mono_ns(&clock_system) < until_ns) {
        nanosleep(&pause, NULL);
        status = lock->backend->release(lock->store, key, granted->owner);
    }
    *gone = is_gone(status);
    if (status == LOCK_NOT_OWNER && lock_now_ns(lock) < granted->deadline_ns)
        return LOCK_OK; /* the first release did it */
    return status == LOCK_OK ? LOCK_OK : LOCK_UNKNOWN;
}

enum lock_status lock_store_release(struct lock *lock, const char *key,
                                    const struct lock_store_grant *granted) {
    if (!lock->store)
        return LOCK_OK;
    int64_t until_ns = clock_mono_ns(&clock_system) + release_again_ns;
    enum lock_status status = lock->backend->release(lock->store, key, granted->owner);
    bool gone = is_gone(status);
    if (status == LOCK_UNKNOWN)
        status = release_again(lock, key, granted, until_ns, &gone);
    lock_store_settle(lock, granted->pending, !gone);
    return status;
}
