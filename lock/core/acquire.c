/* Acquires and releases one key. A thread enters the local queue of the key; once it is the local holder, it
 * takes over what the last holder in this process has passed on, or it asks the store. A grant that was asked
 * for and is not wanted any more is withdrawn: at once, or later by the background thread. */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "lock/core/handle.h"

/* After a failed attempt a waiter asks again after `pause_ns`, and gives up once the store has failed for
 * `failing_ns`. */
static const int64_t failing_ns = 1000000000, pause_ns = 20000000;

/* An attempt waits for its reply until `late_ns` after the deadline, but at least `least_ns`. Withdrawing it
 * may then take `withdraw_ns`. So no call takes longer than lock.h says. */
static const int64_t late_ns = LOCK_TIMEOUT_MAX_MS * INT64_C(1000000), least_ns = 850000000,
                     withdraw_ns = 300000000;

/* A release whose reply was lost is repeated at least once, and for so long after it began. */
static const int64_t release_again_ns = 500000000;

/* A cancelled call waits at most so long for the background thread to withdraw its attempt. */
static const int64_t cancelled_ns = 40000000;

/* A call to acquire. */
struct request {
    struct lock *lock;
    struct lock_attempt attempt;
    int64_t deadline_ns;
    struct cancel *cancel;
    struct waiter waiter; /* in the local queue, then for the store */
    bool may_be_left;     /* the store may have something of it */
    bool failed;          /* the store could not be used for the last attempt */
};

/* `status` is the answer to a release or a withdrawal. */
static bool is_gone(enum lock_status status) {
    return status == LOCK_OK || status == LOCK_NOT_OWNER;
}

/* Takes `pending`, which may be NULL: the background thread releases it if the store may have it. */
static void settle(struct lock *lock, struct lock_pending_release *pending, bool may_be_left) {
    if (pending && may_be_left)
        lock_maintenance_release(lock->maintenance, pending, NULL);
    else
        free(pending);
}

/* ---- acquiring from the store ---- */

/* Asks the store until it grants, the request's deadline passes, it is cancelled, or the store fails for too
 * long. An attempt whose reply was lost is repeated at once, since the second one finds what the first was
 * granted. LOCK_OK, with the grant in the attempt; LOCK_BUSY, if it does not wait; LOCK_TIMEOUT,
 * LOCK_CANCELLED, LOCK_UNKNOWN, LOCK_UNAVAILABLE, LOCK_NOMEM. */
static enum lock_status ask_until_granted(struct request *request) {
    struct lock *lock = request->lock;
    struct lock_attempt *attempt = &request->attempt;
    int64_t failing_since_ns = 0; /* 0: the store answers */
    bool unknown = false, repeats = false;
    for (;;) {
        attempt->nothing_left = false;
        enum lock_status status = lock->backend->attempt(lock->store, attempt);
        request->may_be_left = request->may_be_left || status == LOCK_UNKNOWN ||
                               (status != LOCK_OK && attempt->waits && !attempt->nothing_left);
        if (repeats && status != LOCK_OK && status != LOCK_BUSY)
            status = LOCK_UNKNOWN; /* what came of the first attempt is still not known */
        repeats = status == LOCK_UNKNOWN && !repeats && !lock_limit_is_over(&attempt->limit);
        if (repeats)
            continue;

        int64_t now_ns = lock_now_ns(lock), again_ns = attempt->retry_ns;
        request->failed = status == LOCK_UNKNOWN || status == LOCK_UNAVAILABLE;
        if (!request->failed) {
            if (status != LOCK_BUSY || !attempt->waits)
                return status;
            failing_since_ns = 0;
            unknown = false;
        } else {
            if (cancel_called(request->cancel))
                return LOCK_CANCELLED;
            failing_since_ns = failing_since_ns ? failing_since_ns : now_ns;
            unknown = unknown || status == LOCK_UNKNOWN;
            if (!attempt->waits || now_ns >= request->deadline_ns || now_ns - failing_since_ns >= failing_ns)
                return unknown ? LOCK_UNKNOWN : status;
            again_ns = now_ns + pause_ns;
        }

        if (now_ns >= request->deadline_ns)
            return LOCK_TIMEOUT;
        if (again_ns > request->deadline_ns)
            again_ns = request->deadline_ns;
        again_ns = lock_env_machine_ns(&lock->env, again_ns);
        atomic_fetch_add(&lock->metrics.waiting, 1);
        enum waiter_end end = waiter_wait(&request->waiter, again_ns, request->cancel);
        atomic_fetch_sub(&lock->metrics.waiting, 1);
        if (end == WAITER_CANCELLED)
            return LOCK_CANCELLED;
    }
}

static struct lock_limit limit_of(const struct request *request) {
    int64_t until_ns = lock_env_machine_ns(&request->lock->env, request->deadline_ns);
    int64_t least_until_ns = clock_now_ns() + least_ns;
    until_ns = until_ns > INT64_MAX - late_ns ? INT64_MAX : until_ns + late_ns;
    return (struct lock_limit){until_ns > least_until_ns ? until_ns : least_until_ns, request->cancel};
}

/* Releases the grant that a holder forgot, if the backend cannot release it with the attempt. */
static void release_forgotten(const struct lock *lock, struct lock_attempt *attempt) {
    const struct lock_backend *backend = lock->backend;
    if (!attempt->releasing[0] || backend->attempt_releases)
        return;
    enum lock_status status = backend->release(lock->store, attempt->grant.key, attempt->releasing);
    if (is_gone(status) || !backend->outlives_deadline)
        attempt->releasing[0] = '\0';
}

/* True: the store has nothing of the attempt any more. */
static bool withdraw(const struct request *request) {
    const struct lock_backend *backend = request->lock->backend;
    const struct lock_grant *grant = &request->attempt.grant;
    int64_t until_ns = request->attempt.limit.until_ns, now_ns = clock_now_ns();
    if (now_ns + withdraw_ns < until_ns)
        until_ns = now_ns + withdraw_ns;
    return backend->withdraw && now_ns < until_ns &&
           is_gone(backend->withdraw(request->lock->store, grant->key, grant->owner, until_ns));
}

/* Ends a request that was not granted, and takes `pending`. A cancelled one does not wait for the store. The
 * background thread withdraws what this thread could not. Returns the status of the request. */
static enum lock_status give_up(struct request *request, struct lock_pending_release *pending,
                                enum lock_status status) {
    struct lock *lock = request->lock;
    bool cancelled = status == LOCK_CANCELLED;
    bool may_be_left = request->may_be_left && (cancelled || !withdraw(request));
    if (pending && may_be_left && cancelled && !request->failed)
        lock_maintenance_release_until(lock->maintenance, pending, clock_now_ns() + cancelled_ns);
    else
        settle(lock, pending, may_be_left);
    return status == LOCK_UNKNOWN && !may_be_left ? LOCK_UNAVAILABLE : status; /* certainly not granted */
}

/* The local holder takes the next fence of `granted`, which the local queue keeps. False: it was passed on by
 * the last holder, and lost meanwhile. */
static bool take_next(struct request *request, struct lock_store_grant *granted) {
    struct lock_grant *grant = &request->attempt.grant;
    grant->deadline_ns = granted->deadline_ns;
    grant->fence = granted->next_fence;
    granted->next_fence += granted->next_fence > 0;
    granted->holders_left--;
    return !request->lock->queue || lock_local_queue_set_grant(request->lock->queue, grant, granted);
}

/* Gets a new grant for the local holder. Releases `left`, which the last holder passed on or forgot, and
 * takes its `pending`. What is needed to withdraw the attempt later is allocated before the store is asked.
 */
static enum lock_status acquire_from_store(struct request *request, const struct lock_store_grant *left) {
    struct lock *lock = request->lock;
    struct lock_attempt *attempt = &request->attempt;
    struct lock_grant *grant = &attempt->grant;
    struct lock_pending_release *pending = NULL;
    enum lock_status status = LOCK_OK;
    uint64_t moves = atomic_load(&lock->moves);
    memcpy(attempt->releasing, left->owner, sizeof attempt->releasing);
    if (lock->maintenance && lock_maintenance_is_full(lock->maintenance)) {
        status = LOCK_UNAVAILABLE;
    } else if (lock->maintenance && !(pending = lock_pending_release_new(grant->key, grant->owner))) {
        status = LOCK_NOMEM;
    } else if (!lock->store) {
        grant->deadline_ns = INT64_MAX;
    } else {
        attempt->limit = limit_of(request);
        release_forgotten(lock, attempt);
        status = ask_until_granted(request);
    }
    settle(lock, left->pending, attempt->releasing[0]);
    if (status != LOCK_OK)
        return give_up(request, pending, status);
    unsigned fences = lock->backend->fences_per_grant;
    struct lock_store_grant granted = {.holders_left = fences ? fences : 1,
                                       .moves = moves,
                                       .next_fence = grant->fence,
                                       .pass_until_ns = grant->deadline_ns - lock->ttl_ns / 8 * 7,
                                       .deadline_ns = grant->deadline_ns,
                                       .pending = pending};
    if (lock->store)
        memcpy(granted.owner, grant->owner, sizeof granted.owner);
    take_next(request, &granted);
    return LOCK_OK;
}

/* ---- acquiring ---- */

static bool key_is_valid(const char *key) {
    size_t length = 0;
    for (; key[length]; length++) {
        if (length == LOCK_KEY_MAX || key[length] <= ' ' || key[length] > '~')
            return false;
    }
    return length > 0;
}

static void print_hex(char out[16], uint64_t number) {
    for (int i = 15; i >= 0; i--, number >>= 4)
        out[i] = "0123456789abcdef"[number & 15];
}

/* Whether the last holder's grant serves another one. What another server granted is not passed on before the
 * server that is the store now was asked about it: this one may have granted the key to others since, with
 * higher fences. */
static bool may_take_next(const struct lock *lock, const struct lock_store_grant *granted) {
    return granted->holders_left > 0 && lock_now_ns(lock) < granted->pass_until_ns &&
           granted->moves == atomic_load(&lock->moves);
}

/* The way of a key's local holder to its grant. */
static enum lock_status acquire_key(struct request *request, const char *key) {
    struct lock *lock = request->lock;
    struct lock_grant *grant = &request->attempt.grant;
    struct lock_store_grant left = {.holders_left = 0};
    enum lock_status status = LOCK_OK;
    uint64_t moves = atomic_load(&lock->moves);
    memcpy(grant->key, key, strlen(key) + 1);
    print_hex(grant->owner, lock->env.session);
    print_hex(grant->owner + 16, atomic_fetch_add(&lock->owner_count, 1));
    if (lock->queue)
        status = lock_local_queue_enter(lock->queue, key, grant->owner, request->deadline_ns, request->cancel,
                                        &request->waiter, &left);
    if (status != LOCK_OK)
        return status;
    if (may_take_next(lock, &left) && take_next(request, &left))
        atomic_fetch_add(&lock->metrics.passed, 1);
    else
        status = acquire_from_store(request, &left);
    if (status != LOCK_OK && lock->queue)
        lock_local_queue_end(lock->queue, key, grant->owner);
    if (status != LOCK_OK || !lock->maintenance)
        return status;
    lock_maintenance_wake(lock->maintenance, grant->deadline_ns);
    /* A store that has moved meanwhile may have lost the grant, and this one was perhaps not seen when all
     * that was held was verified. */
    if (atomic_load(&lock->moves) != moves)
        lock_maintenance_doubt(lock->maintenance);
    return LOCK_OK;
}

static enum lock_status acquire(struct request *request, const char *key, struct lock_grant *grant) {
    struct lock *lock = request->lock;
    int64_t since_ns = clock_now_ns();
    enum lock_status status = LOCK_OK;
    lock_env_at_point(&lock->env, "acquire", key);
    if (!key_is_valid(key)) {
        status = LOCK_CONFIG;
    } else if (!(lock->backend->caps & LOCK_IS_REENTRANT) ||
               !lock_local_queue_reenter(lock->queue, key, grant)) {
        waiter_init(&request->waiter);
        status = acquire_key(request, key);
        waiter_destroy(&request->waiter);
        if (status == LOCK_OK)
            *grant = request->attempt.grant;
    }
    lock_env_at_point(&lock->env, "acquired", key);
    if (status == LOCK_BUSY || status == LOCK_TIMEOUT)
        status = request->attempt.waits ? LOCK_TIMEOUT : LOCK_BUSY;
    atomic_fetch_add(&lock->metrics.by_status[status], 1);
    if (status == LOCK_OK)
        atomic_fetch_add(&lock->metrics.wait_ns, (uint64_t)(clock_now_ns() - since_ns));
    return status;
}

enum lock_status lock_acquire(struct lock *lock, const char *key, int64_t deadline_ns,
                              struct lock_cancel *cancel, struct lock_grant *grant) {
    struct request request = {
        .lock = lock, .attempt.waits = true, .deadline_ns = deadline_ns, .cancel = lock_cancel_of(cancel)};
    return acquire(&request, key, grant);
}

enum lock_status lock_acquire_for(struct lock *lock, const char *key, int64_t timeout_ms,
                                  struct lock_grant *grant) {
    int64_t now_ns = lock_now_ns(lock), deadline_ns = now_ns;
    if (timeout_ms > 0)
        deadline_ns = timeout_ms > (INT64_MAX - now_ns) / 1000000 ? INT64_MAX : now_ns + timeout_ms * 1000000;
    return lock_acquire(lock, key, deadline_ns, NULL, grant);
}

enum lock_status lock_try(struct lock *lock, const char *key, struct lock_grant *grant) {
    struct request request = {.lock = lock, .deadline_ns = INT64_MIN};
    return acquire(&request, key, grant);
}

/* ---- releasing ---- */

/* Releases `granted`, and takes its `pending`, which does later what could not be done now. A release whose
 * reply was lost is repeated. LOCK_UNKNOWN after that: the store could not be asked; or it does not have the
 * grant, and that may have other reasons than the first release: its deadline has passed meanwhile, it was
 * known to be lost, or the store has moved since it was known to have it. */
static enum lock_status release_in_store(struct lock *lock, const char *key,
                                         const struct lock_store_grant *granted) {
    const struct lock_backend *backend = lock->backend;
    const struct timespec pause = {.tv_nsec = pause_ns};
    if (!lock->store)
        return LOCK_OK;
    int64_t until_ns = clock_now_ns() + release_again_ns;
    enum lock_status status = backend->release(lock->store, key, granted->owner);
    bool repeats = status == LOCK_UNKNOWN;
    if (repeats)
        status = backend->release(lock->store, key, granted->owner);
    while (repeats && !is_gone(status) && clock_now_ns() < until_ns) {
        nanosleep(&pause, NULL);
        status = backend->release(lock->store, key, granted->owner);
    }
    settle(lock, granted->pending, !is_gone(status));
    if (!repeats || status == LOCK_OK)
        return status;
    bool first_did_it = status == LOCK_NOT_OWNER && lock_now_ns(lock) < granted->deadline_ns &&
                        atomic_load(&lock->moves) == granted->moves;
    return first_did_it ? LOCK_OK : LOCK_UNKNOWN;
}

/* `later`: does not ask the store. */
static enum lock_status release(struct lock *lock, const struct lock_grant *grant, bool later) {
    int64_t now_ns = lock_now_ns(lock);
    struct lock_store_grant granted = {
        .moves = atomic_load(&lock->moves), .since_ns = now_ns, .deadline_ns = grant->deadline_ns};
    bool may_pass_on = lock->backend->attempt_releases || !lock->store;
    enum lock_local_release left = LOCK_LOCAL_TO_STORE;
    enum lock_status status = LOCK_OK;
    memcpy(granted.owner, grant->owner, sizeof granted.owner);
    lock_env_at_point(&lock->env, "release", grant->key);
    if (lock->queue)
        left = lock_local_queue_leave(lock->queue, grant->key, grant->owner, may_pass_on, &granted);
    if (left == LOCK_LOCAL_NOT_HOLDER) {
        status = LOCK_NOT_OWNER;
    } else if (left == LOCK_LOCAL_TO_STORE && later && (granted.pending || !lock->queue)) {
        status = LOCK_UNAVAILABLE;
        settle(lock, granted.pending, true);
    } else if (left == LOCK_LOCAL_TO_STORE) {
        status = release_in_store(lock, grant->key, &granted);
    }
    if (left == LOCK_LOCAL_TO_STORE && lock->queue)
        lock_local_queue_end(lock->queue, grant->key, grant->owner);
    lock_env_at_point(&lock->env, "released", grant->key);
    if (status == LOCK_OK) {
        atomic_fetch_add(&lock->metrics.released, 1);
        atomic_fetch_add(&lock->metrics.hold_ns, (uint64_t)(now_ns - granted.since_ns));
    }
    return status;
}

enum lock_status lock_release(struct lock *lock, const struct lock_grant *grant) {
    return release(lock, grant, false);
}

enum lock_status lock_release_later(struct lock *lock, const struct lock_grant *grant) {
    return release(lock, grant, true);
}
