/* Acquiring and releasing one key. */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "lock/core/maintenance.h"

/* A waiter asks a store that fails again after `pause_ns`, and gives up after `failing_ns`. */
static const int64_t failing_ns = 1000000000, pause_ns = 20000000;

/* An attempt waits for its reply until `late_ns` after the deadline, but at least `least_ns`. Then
 * withdrawing it may take `withdraw_ns`. So no call takes longer than lock.h says. */
static const int64_t late_ns = LOCK_TIMEOUT_MAX_MS * INT64_C(1000000), least_ns = 850000000,
                     withdraw_ns = 300000000;

/* A release whose reply was lost is repeated at least once, and until so long after it began. */
static const int64_t release_again_ns = 500000000;

/* A cancelled call waits at most so long for the background thread to withdraw its attempt. */
static const int64_t cancelled_ns = 40000000;

/* A call to acquire. */
struct request {
    struct lock *lock;
    struct lock_attempt attempt;
    int64_t deadline_ns;
    struct lock_cancel *cancel;
    struct lock_waiter waiter; /* in the local queue, then for the store */
    bool may_be_left;          /* something may be left of it in the store */
    bool failed;               /* the store could not be used for the last attempt */
};

/* `status` is of a release or of withdrawing. */
static bool is_gone(enum lock_status status) {
    return status == LOCK_OK || status == LOCK_NOT_OWNER;
}

static bool is_failure(enum lock_status status) {
    return status == LOCK_UNKNOWN || status == LOCK_UNAVAILABLE;
}

/* Takes `pending`, which may be NULL: the background thread does it if something may be left in the store. */
static void settle(struct lock *lock, struct lock_pending_release *pending, bool may_be_left) {
    if (pending && may_be_left)
        lock_maintenance_release(lock->maintenance, pending, NULL);
    else
        free(pending);
}

/* ---- asking the store; also for a lock without one ---- */

/* Gives up an attempt that the store may know of. True: nothing is left of it. */
static bool withdraw(const struct request *request) {
    const struct lock_backend *backend = request->lock->backend;
    const struct lock_grant *grant = &request->attempt.grant;
    int64_t until_ns = request->attempt.limit.until_ns, now_ns = lock_mono_ns();
    if (now_ns + withdraw_ns < until_ns)
        until_ns = now_ns + withdraw_ns;
    return backend->withdraw && now_ns < until_ns &&
           is_gone(backend->withdraw(request->lock->store, grant->key, grant->owner, until_ns));
}

static enum lock_status ask_once(struct request *request) {
    struct lock_attempt *attempt = &request->attempt;
    attempt->nothing_left = false;
    enum lock_status status = request->lock->backend->attempt(request->lock->store, attempt);
    request->may_be_left = request->may_be_left || status == LOCK_UNKNOWN ||
                           (status != LOCK_OK && attempt->waits && !attempt->nothing_left);
    return status;
}

/* One attempt, and another if the reply was lost: an attempt finds what an earlier one with the same owner
 * was granted. */
static enum lock_status ask(struct request *request) {
    enum lock_status status = ask_once(request);
    if (status != LOCK_UNKNOWN || lock_limit_is_over(&request->attempt.limit))
        return status;
    status = ask_once(request);
    return status == LOCK_OK || status == LOCK_BUSY ? status : LOCK_UNKNOWN;
}

/* Waits until it is worth asking again: LOCK_OK, LOCK_TIMEOUT, LOCK_CANCELLED. */
static enum lock_status wait_to_ask(struct request *request, int64_t until_ns) {
    struct lock *lock = request->lock;
    if (lock_now_ns(lock) >= request->deadline_ns)
        return LOCK_TIMEOUT;
    if (until_ns > request->deadline_ns)
        until_ns = request->deadline_ns;
    atomic_fetch_add(&lock->metrics.waiting, 1);
    until_ns = lock_env_machine_ns(&lock->env, until_ns);
    enum lock_status status = lock_waiter_wait(&request->waiter, until_ns, request->cancel);
    atomic_fetch_sub(&lock->metrics.waiting, 1);
    return status == LOCK_CANCELLED ? status : LOCK_OK;
}

static enum lock_status ask_until_granted(struct request *request) {
    const struct lock_attempt *attempt = &request->attempt;
    int64_t failing_since_ns = 0; /* 0: the store answers */
    bool unknown = false;
    for (;;) {
        enum lock_status status = ask(request);
        int64_t now_ns = lock_now_ns(request->lock), until_ns = attempt->retry_ns;
        bool fails = request->failed = is_failure(status);
        if (!fails && (status != LOCK_BUSY || !attempt->waits))
            return status;
        failing_since_ns = !fails ? 0 : failing_since_ns ? failing_since_ns : now_ns;
        unknown = fails && (unknown || status == LOCK_UNKNOWN);
        if (fails) {
            if (lock_cancel_called(request->cancel))
                return LOCK_CANCELLED;
            if (!attempt->waits || now_ns >= request->deadline_ns || now_ns - failing_since_ns >= failing_ns)
                return unknown ? LOCK_UNKNOWN : status;
            until_ns = now_ns + pause_ns;
        }
        status = wait_to_ask(request, until_ns);
        if (status != LOCK_OK)
            return status;
    }
}

static struct lock_limit limit_of(const struct request *request) {
    int64_t until_ns = lock_env_machine_ns(&request->lock->env, request->deadline_ns);
    int64_t least_until_ns = lock_mono_ns() + least_ns;
    until_ns = until_ns > INT64_MAX - late_ns ? INT64_MAX : until_ns + late_ns;
    return (struct lock_limit){until_ns > least_until_ns ? until_ns : least_until_ns, request->cancel};
}

/* A holder forgot to release its grant, and the backend cannot release it with the attempt. */
static void release_forgotten(const struct lock *lock, struct lock_attempt *attempt) {
    const struct lock_backend *backend = lock->backend;
    if (!attempt->releasing[0] || backend->attempt_releases)
        return;
    enum lock_status status = backend->release(lock->store, attempt->grant.key, attempt->releasing);
    if (is_gone(status) || !backend->outlives_deadline)
        attempt->releasing[0] = '\0';
}

/* LOCK_OK, with the grant in the attempt; LOCK_BUSY, if it does not wait; LOCK_TIMEOUT, LOCK_CANCELLED,
 * LOCK_UNKNOWN, LOCK_UNAVAILABLE, LOCK_NOMEM. */
static enum lock_status ask_store(struct request *request) {
    struct lock *lock = request->lock;
    struct lock_attempt *attempt = &request->attempt;
    struct lock_grant *grant = &attempt->grant;
    if (!lock->store) {
        grant->deadline_ns = INT64_MAX;
        return LOCK_OK;
    }
    attempt->limit = limit_of(request);
    release_forgotten(lock, attempt);
    enum lock_status status = ask_until_granted(request);
    if (status == LOCK_OK)
        request->may_be_left = false;
    else if (request->may_be_left && status != LOCK_CANCELLED)
        request->may_be_left = !withdraw(request);
    if (status == LOCK_UNKNOWN && !request->may_be_left)
        status = LOCK_UNAVAILABLE; /* by now it is certain that it was not granted */
    return status;
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

static void make_owner(struct lock *lock, char owner[LOCK_OWNER_SIZE]) {
    print_hex(owner, lock->env.session);
    print_hex(owner + 16, atomic_fetch_add(&lock->owner_count, 1));
    owner[32] = '\0';
}

/* Asks the store. Before that it allocates what is needed if the attempt has to be withdrawn later. What was
 * granted before is released; `*granted` is the new grant then. */
static enum lock_status acquire_from_store(struct request *request, struct lock_store_grant *granted) {
    struct lock *lock = request->lock;
    struct lock_attempt *attempt = &request->attempt;
    const struct lock_grant *grant = &attempt->grant;
    struct lock_pending_release *pending = NULL;
    enum lock_status status = LOCK_OK;
    uint64_t moves = atomic_load(&lock->moves);
    memcpy(attempt->releasing, granted->owner, sizeof attempt->releasing);
    if (lock->maintenance && lock_maintenance_is_full(lock->maintenance))
        status = LOCK_UNAVAILABLE;
    else if (lock->maintenance && !(pending = lock_pending_release_new(grant->key, grant->owner)))
        status = LOCK_NOMEM;
    if (status == LOCK_OK)
        status = ask_store(request);
    settle(lock, granted->pending, attempt->releasing[0]);
    if (status != LOCK_OK) {
        if (pending && status == LOCK_CANCELLED && request->may_be_left && !request->failed)
            lock_maintenance_release_until(lock->maintenance, pending, lock_mono_ns() + cancelled_ns);
        else
            settle(lock, pending, request->may_be_left);
        return status;
    }
    unsigned fences = lock->backend->fences_per_grant;
    *granted = (struct lock_store_grant){.holders_left = fences ? fences : 1,
                                         .moves = moves,
                                         .next_fence = grant->fence,
                                         .pass_until_ns = grant->deadline_ns - lock->ttl_ns / 8 * 7,
                                         .deadline_ns = grant->deadline_ns,
                                         .pending = pending};
    if (lock->store)
        memcpy(granted->owner, grant->owner, sizeof granted->owner);
    return LOCK_OK;
}

/* This thread has the next of the fences. False: what the holder before it has left was lost meanwhile. */
static bool take_next(struct request *request, struct lock_store_grant *granted) {
    struct lock_grant *grant = &request->attempt.grant;
    grant->deadline_ns = granted->deadline_ns;
    grant->fence = granted->next_fence;
    granted->next_fence += granted->next_fence > 0;
    granted->holders_left--;
    return !request->lock->queue || lock_local_queue_set_grant(request->lock->queue, grant, granted);
}

/* What another server granted is not passed on before the one that is the store now was asked about it: this
 * one may have granted the key to others since, with higher fences. */
static bool may_take_next(const struct lock *lock, const struct lock_store_grant *granted) {
    return granted->holders_left > 0 && lock_now_ns(lock) < granted->pass_until_ns &&
           granted->moves == atomic_load(&lock->moves);
}

/* The holder before may have passed on its grant; otherwise the store is asked. */
static enum lock_status acquire_as_holder(struct request *request, struct lock_store_grant *granted) {
    struct lock *lock = request->lock;
    if (may_take_next(lock, granted) && take_next(request, granted)) {
        atomic_fetch_add(&lock->metrics.passed, 1);
        return LOCK_OK;
    }
    enum lock_status status = acquire_from_store(request, granted);
    if (status == LOCK_OK)
        take_next(request, granted);
    return status;
}

/* What a store granted that has moved since `moves` was read may be lost, and was perhaps not seen when all
 * that was held was verified. */
static void doubt_if_moved(struct lock *lock, uint64_t moves) {
    if (lock->maintenance && atomic_load(&lock->moves) != moves)
        lock_maintenance_doubt(lock->maintenance);
}

static enum lock_status acquire(struct request *request, const char *key, struct lock_grant *out) {
    struct lock *lock = request->lock;
    uint64_t moves = atomic_load(&lock->moves);
    struct lock_store_grant granted = {.holders_left = 0};
    struct lock_grant *grant = &request->attempt.grant;
    if (!key_is_valid(key))
        return LOCK_CONFIG;
    if (lock->backend->caps & LOCK_IS_REENTRANT && lock_local_queue_reenter(lock->queue, key, out))
        return LOCK_OK;
    memcpy(grant->key, key, strlen(key) + 1);
    make_owner(lock, grant->owner);
    enum lock_status status = LOCK_OK;
    if (lock->queue)
        status = lock_local_queue_enter(lock->queue, key, grant->owner, request->deadline_ns, request->cancel,
                                        &request->waiter, &granted);
    if (status != LOCK_OK)
        return status;
    status = acquire_as_holder(request, &granted);
    if (status == LOCK_OK) {
        if (lock->maintenance)
            lock_maintenance_wake(lock->maintenance, grant->deadline_ns);
        doubt_if_moved(lock, moves);
        *out = *grant;
    } else if (lock->queue) {
        lock_local_queue_end(lock->queue, key, grant->owner);
    }
    return status;
}

static enum lock_status acquire_and_count(struct request *request, const char *key,
                                          struct lock_grant *grant) {
    struct lock *lock = request->lock;
    int64_t since_ns = lock_mono_ns();
    lock_env_at_point(&lock->env, "acquire", key);
    lock_waiter_init(&request->waiter);
    enum lock_status status = acquire(request, key, grant);
    lock_waiter_destroy(&request->waiter);
    lock_env_at_point(&lock->env, "acquired", key);
    if (status == LOCK_BUSY || status == LOCK_TIMEOUT)
        status = request->attempt.waits ? LOCK_TIMEOUT : LOCK_BUSY;
    atomic_fetch_add(&lock->metrics.by_status[status], 1);
    if (status == LOCK_OK)
        atomic_fetch_add(&lock->metrics.wait_ns, (uint64_t)(lock_mono_ns() - since_ns));
    return status;
}

enum lock_status lock_acquire(struct lock *lock, const char *key, int64_t deadline_ns,
                              struct lock_cancel *cancel, struct lock_grant *grant) {
    struct request request = {
        .lock = lock, .attempt.waits = true, .deadline_ns = deadline_ns, .cancel = cancel};
    return acquire_and_count(&request, key, grant);
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
    return acquire_and_count(&request, key, grant);
}

/* ---- releasing ---- */

/* Repeats a release whose reply was lost. LOCK_UNKNOWN: the store could not be asked; or the grant is not
 * there, and its deadline has passed meanwhile, it was known to be lost, or the store has moved since it was
 * known to have it, so it may have ended or have been released. */
static enum lock_status release_again(struct lock *lock, const char *key,
                                      const struct lock_store_grant *granted, int64_t until_ns, bool *gone) {
    const struct timespec pause = {.tv_nsec = pause_ns};
    enum lock_status status = lock->backend->release(lock->store, key, granted->owner);
    while (!is_gone(status) && lock_mono_ns() < until_ns) {
        nanosleep(&pause, NULL);
        status = lock->backend->release(lock->store, key, granted->owner);
    }
    *gone = is_gone(status);
    if (status == LOCK_NOT_OWNER && lock_now_ns(lock) < granted->deadline_ns &&
        atomic_load(&lock->moves) == granted->moves)
        return LOCK_OK; /* the first release did it */
    return status == LOCK_OK ? LOCK_OK : LOCK_UNKNOWN;
}

/* Releases `granted`, and takes its `pending`, which does later what could not be done now. */
static enum lock_status release_in_store(struct lock *lock, const char *key,
                                         const struct lock_store_grant *granted) {
    if (!lock->store)
        return LOCK_OK;
    int64_t until_ns = lock_mono_ns() + release_again_ns;
    enum lock_status status = lock->backend->release(lock->store, key, granted->owner);
    bool gone = is_gone(status);
    if (status == LOCK_UNKNOWN)
        status = release_again(lock, key, granted, until_ns, &gone);
    settle(lock, granted->pending, !gone);
    return status;
}

/* `*since_ns` is set to when the grant was acquired, if that is known. */
static enum lock_status release(struct lock *lock, const struct lock_grant *grant, bool later,
                                int64_t *since_ns) {
    struct lock_store_grant granted = {.moves = atomic_load(&lock->moves), .deadline_ns = grant->deadline_ns};
    memcpy(granted.owner, grant->owner, sizeof granted.owner);
    if (!lock->queue)
        return later ? LOCK_UNAVAILABLE : release_in_store(lock, grant->key, &granted);
    bool may_pass_on = lock->backend->attempt_releases || !lock->store;
    enum lock_local_release result =
        lock_local_queue_leave(lock->queue, grant->key, grant->owner, may_pass_on, &granted);
    if (result == LOCK_LOCAL_NOT_HOLDER)
        return LOCK_NOT_OWNER;
    *since_ns = granted.since_ns;
    if (result != LOCK_LOCAL_TO_STORE)
        return LOCK_OK;
    enum lock_status status = LOCK_UNAVAILABLE;
    if (later && granted.pending)
        settle(lock, granted.pending, true);
    else
        status = release_in_store(lock, grant->key, &granted);
    lock_local_queue_end(lock->queue, grant->key, grant->owner);
    return status;
}

static enum lock_status release_and_count(struct lock *lock, const struct lock_grant *grant, bool later) {
    int64_t now_ns = lock_now_ns(lock), since_ns = now_ns;
    lock_env_at_point(&lock->env, "release", grant->key);
    enum lock_status status = release(lock, grant, later, &since_ns);
    lock_env_at_point(&lock->env, "released", grant->key);
    if (status == LOCK_OK) {
        atomic_fetch_add(&lock->metrics.released, 1);
        atomic_fetch_add(&lock->metrics.hold_ns, (uint64_t)(now_ns - since_ns));
    }
    return status;
}

enum lock_status lock_release(struct lock *lock, const struct lock_grant *grant) {
    return release_and_count(lock, grant, false);
}

enum lock_status lock_release_later(struct lock *lock, const struct lock_grant *grant) {
    return release_and_count(lock, grant, true);
}
