#include "lock/core/acquire.h"

#include <string.h>

#include "base/clock.h"
#include "lock/core/maintenance.h"
#include "lock/core/store_calls.h"

/* A cancelled call waits at most so long for the background thread to withdraw its attempt. */
static const int64_t cancelled_ns = 40000000;

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
static enum lock_status acquire_from_store(struct lock *lock, struct lock_request *request,
                                           struct lock_store_grant *granted, int64_t deadline_ns,
                                           struct lock_cancel *cancel) {
    struct lock_attempt *attempt = &request->attempt;
    const struct lock_grant *grant = &attempt->grant;
    struct lock_pending_release *pending = NULL;
    enum lock_status status = LOCK_OK;
    memcpy(attempt->releasing, granted->owner, sizeof attempt->releasing);
    if (lock->maintenance && lock_maintenance_is_full(lock->maintenance))
        status = LOCK_UNAVAILABLE;
    else if (lock->maintenance && !(pending = lock_pending_release_new(grant->key, grant->owner)))
        status = LOCK_NOMEM;
    if (status == LOCK_OK)
        status = lock_store_acquire(lock, request, deadline_ns, cancel);
    lock_store_settle(lock, granted->pending, attempt->releasing[0]);
    if (status != LOCK_OK) {
        if (pending && status == LOCK_CANCELLED && request->may_be_left && !request->failed)
            lock_maintenance_release_until(lock->maintenance, pending,
                                           clock_mono_ns(&clock_system) + cancelled_ns);
        else
            lock_store_settle(lock, pending, request->may_be_left);
        return status;
    }
    unsigned fences = lock->backend->fences_per_grant;
    *granted = (struct lock_store_grant){.holders_left = fences ? fences : 1,
                                         .next_fence = grant->fence,
                                         .pass_until_ns = grant->deadline_ns - lock->ttl_ns / 8 * 7,
                                         .deadline_ns = grant->deadline_ns,
                                         .pending = pending};
    if (lock->store)
        memcpy(granted->owner, grant->owner, sizeof granted->owner);
    return LOCK_OK;
}

/* The holder before may have passed on its grant; otherwise the store is asked. */
static enum lock_status acquire_as_holder(struct lock *lock, struct lock_request *request,
                                          struct lock_store_grant *granted, int64_t deadline_ns,
                                          struct lock_cancel *cancel) {
    struct lock_grant *grant = &request->attempt.grant;
    if (granted->holders_left > 0 && lock_now_ns(lock) < granted->pass_until_ns) {
        atomic_fetch_add(&lock->metrics.passed, 1);
        grant->deadline_ns = granted->deadline_ns;
    } else {
        enum lock_status status = acquire_from_store(lock, request, granted, deadline_ns, cancel);
        if (status != LOCK_OK)
            return status;
    }
    grant->fence = granted->next_fence;
    granted->next_fence += granted->next_fence > 0;
    granted->holders_left--;
    return LOCK_OK;
}

static enum lock_status acquire(struct lock *lock, const char *key, bool waits, int64_t deadline_ns,
                                struct lock_cancel *cancel, struct lock_grant *out) {
    struct lock_request request = {.attempt.waits = waits};
    struct lock_store_grant granted = {.holders_left = 0};
    struct lock_grant *grant = &request.attempt.grant;
    if (!key_is_valid(key))
        return LOCK_CONFIG;
    if (lock->backend->caps & LOCK_IS_REENTRANT && lock_local_queue_reenter(lock->queue, key, out))
        return LOCK_OK;
    memcpy(grant->key, key, strlen(key) + 1);
    make_owner(lock, grant->owner);
    enum lock_status status = LOCK_OK;
    if (lock->queue)
        status = lock_local_queue_enter(lock->queue, key, grant->owner, deadline_ns, cancel, &granted);
    if (status != LOCK_OK)
        return status;
    status = acquire_as_holder(lock, &request, &granted, deadline_ns, cancel);
    if (status == LOCK_OK) {
        if (lock->queue)
            lock_local_queue_set_grant(lock->queue, grant, &granted);
        if (lock->maintenance)
            lock_maintenance_wake(lock->maintenance);
        *out = *grant;
    } else if (lock->queue) {
        lock_local_queue_end(lock->queue, key, grant->owner);
    }
    return status;
}

static enum lock_status acquire_and_count(struct lock *lock, const char *key, bool waits, int64_t deadline_ns,
                                          struct lock_cancel *cancel, struct lock_grant *grant) {
    int64_t since_ns = clock_mono_ns(&clock_system);
    lock_env_at_point(&lock->env, "acquire", key);
    enum lock_status status = acquire(lock, key, waits, deadline_ns, cancel, grant);
    lock_env_at_point(&lock->env, "acquired", key);
    if (status == LOCK_BUSY || status == LOCK_TIMEOUT)
        status = waits ? LOCK_TIMEOUT : LOCK_BUSY;
    atomic_fetch_add(&lock->metrics.by_status[status], 1);
    if (status == LOCK_OK)
        atomic_fetch_add(&lock->metrics.wait_ns, (uint64_t)(clock_mono_ns(&clock_system) - since_ns));
    return status;
}

enum lock_status lock_acquire(struct lock *lock, const char *key, int64_t deadline_ns,
                              struct lock_cancel *cancel, struct lock_grant *grant) {
    return acquire_and_count(lock, key, true, deadline_ns, cancel, grant);
}

enum lock_status lock_acquire_for(struct lock *lock, const char *key, int64_t timeout_ms,
                                  struct lock_grant *grant) {
    int64_t now_ns = lock_now_ns(lock), deadline_ns = now_ns;
    if (timeout_ms > 0)
        deadline_ns = timeout_ms > (INT64_MAX - now_ns) / 1000000 ? INT64_MAX : now_ns + timeout_ms * 1000000;
    return lock_acquire(lock, key, deadline_ns, NULL, grant);
}

enum lock_status lock_try(struct lock *lock, const char *key, struct lock_grant *grant) {
    return acquire_and_count(lock, key, false, INT64_MIN, NULL, grant);
}

/* ---- releasing ---- */

/* `*since_ns` is set to when the grant was acquired, if that is known. */
static enum lock_status release(struct lock *lock, const struct lock_grant *grant, bool later,
                                int64_t *since_ns) {
    struct lock_store_grant granted = {.deadline_ns = grant->deadline_ns};
    memcpy(granted.owner, grant->owner, sizeof granted.owner);
    if (!lock->queue)
        return later ? LOCK_UNAVAILABLE : lock_store_release(lock, grant->key, &granted);
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
        lock_store_settle(lock, granted.pending, true);
    else
        status = lock_store_release(lock, grant->key, &granted);
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
