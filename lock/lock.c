/* The layer: what is the same for all locks. */
#include "lock/lock.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "lock/internal.h"

/* So long a store may fail before who waits is told; then, too, a broken connection is soon made anew. */
static const int64_t failing_ns = 1000000000, failing_pause_ns = 20000000;

const char *lock_status_text(enum lock_status status) {
    static const char *const texts[] = {
        [LOCK_OK] = "ok",
        [LOCK_BUSY] = "busy",
        [LOCK_TIMEOUT] = "timed out",
        [LOCK_CANCELLED] = "cancelled",
        [LOCK_LOST] = "lost",
        [LOCK_NOT_OWNER] = "not the owner",
        [LOCK_UNKNOWN] = "unknown",
        [LOCK_UNAVAILABLE] = "unavailable",
        [LOCK_STALE] = "stale",
        [LOCK_CONFIG] = "not valid",
        [LOCK_NOMEM] = "out of memory",
    };
    return (unsigned)status < LOCK_STATUSES ? texts[status] : "no status";
}

unsigned lock_caps(const struct lock *lock) {
    return lock->backend->caps;
}

int64_t lock_ttl_ns(const struct lock *lock) {
    return lock->ttl_ns;
}

int64_t lock_now_ns(const struct lock *lock) {
    return lock_env_now_ns(&lock->env);
}

/* ---- called from the backend's and the keeper's threads ---- */

void lock_on_wake(void *layer, const char *key, const char *owner) {
    struct lock *lock = layer;
    if (!lock->lines)
        return;
    if (!key)
        lock_lines_wake_all(lock->lines);
    else if (!lock_lines_wake(lock->lines, key, owner))
        lock_keeper_undo(lock->keeper, key, owner); /* it has given up, and the store did not know yet */
}

void lock_on_failed(void *layer, const char *server, const char *why) {
    struct lock *lock = layer;
    pthread_mutex_lock(&lock->error_mutex);
    snprintf(lock->last_error, sizeof lock->last_error, "%s: %s", server, why);
    pthread_mutex_unlock(&lock->error_mutex);
}

void lock_on_lost(void *layer, const struct lock_grant *grant) {
    struct lock *lock = layer;
    atomic_fetch_add(&lock->figures.lost, 1);
    if (lock->config.on_lost)
        lock->config.on_lost(lock->config.ctx, grant);
}

void lock_on_renewed(void *layer) {
    struct lock *lock = layer;
    atomic_fetch_add(&lock->figures.extended, 1);
}

/* ---- the store ---- */

/* Gives up an attempt of which the store may know. True: it is sure that nothing is left. */
static bool withdraw(struct lock *lock, const struct lock_attempt *attempt) {
    const struct lock_backend *backend = lock->backend;
    const char *key = attempt->grant.key, *owner = attempt->grant.owner;
    if (!backend->withdraw)
        return false;
    enum lock_status status = backend->withdraw(lock->store, key, owner);
    bool gone = status == LOCK_OK || status == LOCK_NOT_OWNER;
    if (!gone)
        lock_keeper_undo(lock->keeper, key, owner);
    if (attempt->giving[0])
        lock_keeper_undo(lock->keeper, key, attempt->giving);
    return gone;
}

/* Waits until it is worth asking again. LOCK_OK, LOCK_TIMEOUT, LOCK_CANCELLED. */
static enum lock_status wait_to_ask(struct lock *lock, struct lock_waiter *waiter, int64_t until_ns,
                                    int64_t deadline_ns, struct lock_cancel *cancel) {
    if (lock_now_ns(lock) >= deadline_ns)
        return LOCK_TIMEOUT;
    if (until_ns > deadline_ns)
        until_ns = deadline_ns;
    atomic_fetch_add(&lock->figures.waiting, 1);
    enum lock_status status = lock_waiter_wait(waiter, lock_env_machine_ns(&lock->env, until_ns), cancel);
    atomic_fetch_sub(&lock->figures.waiting, 1);
    return status == LOCK_CANCELLED ? status : LOCK_OK;
}

static bool fails(enum lock_status status) {
    return status == LOCK_UNKNOWN || status == LOCK_UNAVAILABLE;
}

/* One attempt, and one more where the reply is lost: an attempt finds what an earlier one with the same owner
 * was given. */
static enum lock_status ask_once(struct lock *lock, struct lock_attempt *attempt) {
    enum lock_status status = lock->backend->attempt(lock->store, attempt);
    if (status != LOCK_UNKNOWN)
        return status;
    status = lock->backend->attempt(lock->store, attempt);
    return status == LOCK_OK || status == LOCK_BUSY ? status : LOCK_UNKNOWN;
}

/* Asks until the lock is had or there is a reason to stop. */
static enum lock_status ask_until(struct lock *lock, struct lock_attempt *attempt, int64_t deadline_ns,
                                  struct lock_cancel *cancel, struct lock_waiter *waiter) {
    int64_t failed_ns = 0; /* since when; 0: the store answers */
    bool unknown = false;
    for (;;) {
        enum lock_status status = ask_once(lock, attempt);
        int64_t now_ns = lock_now_ns(lock), until_ns = attempt->again_ns;
        if (!fails(status) && (status != LOCK_BUSY || !attempt->waits))
            return status;
        failed_ns = !fails(status) ? 0 : failed_ns ? failed_ns : now_ns;
        unknown = fails(status) && (unknown || status == LOCK_UNKNOWN);
        if (fails(status)) {
            if (!attempt->waits || now_ns >= deadline_ns || now_ns - failed_ns >= failing_ns)
                return unknown ? LOCK_UNKNOWN : status;
            until_ns = now_ns + failing_pause_ns;
        }
        status = wait_to_ask(lock, waiter, until_ns, deadline_ns, cancel);
        if (status != LOCK_OK)
            return status;
    }
}

static enum lock_status ask(struct lock *lock, struct lock_attempt *attempt, int64_t deadline_ns,
                            struct lock_cancel *cancel) {
    const struct lock_grant *grant = &attempt->grant;
    struct lock_waiter waiter;
    if (!lock->store) {
        attempt->grant.fence = 0;
        attempt->grant.deadline_ns = INT64_MAX;
        return LOCK_OK;
    }
    if (attempt->giving[0] && !lock->backend->hands_over) { /* its turn was forgotten */
        if (fails(lock->backend->release(lock->store, grant->key, attempt->giving)) && lock->backend->lasts)
            lock_keeper_undo(lock->keeper, grant->key, attempt->giving);
        attempt->giving[0] = '\0';
    }
    lock_waiter_init(&waiter);
    if (lock->lines)
        lock_lines_ask(lock->lines, grant->key, grant->owner, &waiter);
    enum lock_status status = ask_until(lock, attempt, deadline_ns, cancel, &waiter);
    if (lock->lines)
        lock_lines_ask(lock->lines, grant->key, grant->owner, NULL);
    lock_waiter_destroy(&waiter);
    bool left = status != LOCK_OK && (attempt->waits || attempt->giving[0] || status == LOCK_UNKNOWN);
    if (left && withdraw(lock, attempt) && status == LOCK_UNKNOWN)
        status = LOCK_UNAVAILABLE; /* it is known now: not had */
    return status;
}

/* Gives a grant back. Where the reply is lost it is asked once more, and then left to the keeper. */
static enum lock_status give_back(struct lock *lock, const char *key, const char *owner,
                                  int64_t deadline_ns) {
    if (!lock->store)
        return LOCK_OK;
    enum lock_status status = lock->backend->release(lock->store, key, owner);
    if (status == LOCK_UNKNOWN) {
        status = lock->backend->release(lock->store, key, owner);
        if (status == LOCK_NOT_OWNER)
            return lock_now_ns(lock) < deadline_ns ? LOCK_OK : status; /* the first one did it */
    }
    if (lock->keeper && (status == LOCK_UNKNOWN || status == LOCK_UNAVAILABLE))
        lock_keeper_undo(lock->keeper, key, owner);
    return status;
}

/* ---- one key ---- */

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
    print_hex(owner + 16, atomic_fetch_add(&lock->owners, 1));
    owner[32] = '\0';
}

/* What the store has granted serves another turn, or it is asked. */
static enum lock_status take(struct lock *lock, struct lock_attempt *attempt, struct lock_held *held,
                             int64_t deadline_ns, struct lock_cancel *cancel) {
    struct lock_grant *grant = &attempt->grant;
    if (held->fences > 0 && lock_now_ns(lock) < held->pass_until_ns) {
        atomic_fetch_add(&lock->figures.passed, 1);
        grant->deadline_ns = held->deadline_ns;
    } else {
        memcpy(attempt->giving, held->owner, sizeof attempt->giving);
        enum lock_status status = ask(lock, attempt, deadline_ns, cancel);
        if (status != LOCK_OK)
            return status;
        *held = (struct lock_held){.fences = lock->backend->fences ? lock->backend->fences : 1,
                                   .fence = grant->fence,
                                   .pass_until_ns = grant->deadline_ns - lock->ttl_ns / 8 * 7,
                                   .deadline_ns = grant->deadline_ns};
        if (lock->store)
            memcpy(held->owner, grant->owner, sizeof held->owner);
    }
    grant->fence = held->fence;
    held->fence += held->fence > 0;
    held->fences--;
    return LOCK_OK;
}

static enum lock_status acquire(struct lock *lock, const char *key, bool waits, int64_t deadline_ns,
                                struct lock_cancel *cancel, struct lock_grant *out) {
    if (!key_is_valid(key))
        return LOCK_CONFIG;
    struct lock_attempt attempt = {.waits = waits};
    struct lock_held held = {.fences = 0};
    struct lock_grant *grant = &attempt.grant;
    if (lock->backend->caps & LOCK_IS_REENTRANT && lock_lines_reenter(lock->lines, key, out))
        return LOCK_OK;
    memcpy(grant->key, key, strlen(key) + 1);
    make_owner(lock, grant->owner);
    enum lock_status status = LOCK_OK;
    if (lock->lines)
        status = lock_lines_enter(lock->lines, key, grant->owner, deadline_ns, cancel, &held);
    if (status != LOCK_OK)
        return status;
    status = take(lock, &attempt, &held, deadline_ns, cancel);
    if (status == LOCK_OK) {
        if (lock->lines)
            lock_lines_hold(lock->lines, grant, &held);
        if (lock->keeper)
            lock_keeper_rouse(lock->keeper);
        *out = *grant;
    } else if (lock->lines) {
        lock_lines_end(lock->lines, key, grant->owner);
    }
    return status;
}

static enum lock_status acquire_counted(struct lock *lock, const char *key, bool waits, int64_t deadline_ns,
                                        struct lock_cancel *cancel, struct lock_grant *grant) {
    int64_t since_ns = clock_mono_ns(&clock_system);
    lock->env.at_point(lock->env.ctx, "acquire", key);
    enum lock_status status = acquire(lock, key, waits, deadline_ns, cancel, grant);
    lock->env.at_point(lock->env.ctx, "acquired", key);
    if (status == LOCK_BUSY || status == LOCK_TIMEOUT)
        status = waits ? LOCK_TIMEOUT : LOCK_BUSY;
    atomic_fetch_add(&lock->figures.by_status[status], 1);
    if (status == LOCK_OK)
        atomic_fetch_add(&lock->figures.wait_ns, (uint64_t)(clock_mono_ns(&clock_system) - since_ns));
    return status;
}

enum lock_status lock_acquire(struct lock *lock, const char *key, int64_t deadline_ns,
                              struct lock_cancel *cancel, struct lock_grant *grant) {
    return acquire_counted(lock, key, true, deadline_ns, cancel, grant);
}

enum lock_status lock_try(struct lock *lock, const char *key, struct lock_grant *grant) {
    return acquire_counted(lock, key, false, INT64_MIN, NULL, grant);
}

static enum lock_status release(struct lock *lock, const struct lock_grant *grant, int64_t *since_ns) {
    struct lock_held held = {.fences = 0};
    if (!lock->lines)
        return give_back(lock, grant->key, grant->owner, grant->deadline_ns);
    bool pass = lock->backend->hands_over || !lock->store;
    enum lock_turn turn = lock_lines_leave(lock->lines, grant->key, grant->owner, pass, &held);
    if (turn == LOCK_TURN_OVER)
        return LOCK_NOT_OWNER;
    *since_ns = held.since_ns;
    if (turn != LOCK_TURN_LAST)
        return LOCK_OK;
    enum lock_status status = give_back(lock, grant->key, held.owner, held.deadline_ns);
    lock_lines_end(lock->lines, grant->key, grant->owner);
    return status;
}

enum lock_status lock_release(struct lock *lock, const struct lock_grant *grant) {
    int64_t now_ns = lock_now_ns(lock), since_ns = now_ns;
    lock->env.at_point(lock->env.ctx, "release", grant->key);
    enum lock_status status = release(lock, grant, &since_ns);
    lock->env.at_point(lock->env.ctx, "released", grant->key);
    if (status == LOCK_OK) {
        atomic_fetch_add(&lock->figures.released, 1);
        atomic_fetch_add(&lock->figures.hold_ns, (uint64_t)(now_ns - since_ns));
    }
    return status;
}

/* ---- while it is held ---- */

int64_t lock_remaining_ns(const struct lock *lock, const struct lock_grant *grant) {
    int64_t deadline_ns = lock->lines ? lock_lines_deadline(lock->lines, grant) : grant->deadline_ns;
    int64_t now_ns = lock_now_ns(lock);
    return deadline_ns > now_ns ? deadline_ns - now_ns : 0;
}

enum lock_status lock_progress(struct lock *lock, struct lock_grant *grant) {
    if (lock_remaining_ns(lock, grant) == 0)
        return LOCK_LOST;
    if (lock->lines) {
        lock_lines_progress(lock->lines, grant);
        grant->deadline_ns = lock_lines_deadline(lock->lines, grant);
    }
    return LOCK_OK;
}

enum lock_status lock_extend(struct lock *lock, struct lock_grant *grant) {
    struct lock_due held = {.grant = *grant};
    if (!lock->backend->extend)
        return LOCK_CONFIG;
    if (!lock_lines_find(lock->lines, &held))
        return LOCK_LOST;
    struct lock_grant longer = *grant;
    memcpy(longer.owner, held.held.owner, sizeof longer.owner);
    enum lock_status status = lock->backend->extend(lock->store, &longer);
    if (status == LOCK_NOT_OWNER)
        lock_lines_lost(lock->lines, &held, true);
    if (status != LOCK_OK)
        return status == LOCK_NOT_OWNER ? LOCK_LOST : status;
    if (!lock_lines_renewed(lock->lines, &held, longer.deadline_ns))
        return LOCK_LOST;
    lock_lines_progress(lock->lines, grant);
    atomic_fetch_add(&lock->figures.extended, 1);
    grant->deadline_ns = longer.deadline_ns;
    return LOCK_OK;
}

void lock_last_error(struct lock *lock, char *error, size_t error_size) {
    pthread_mutex_lock(&lock->error_mutex);
    snprintf(error, error_size, "%s", lock->last_error);
    pthread_mutex_unlock(&lock->error_mutex);
}

void lock_read_metrics(const struct lock *lock, struct lock_metrics *metrics) {
    uint64_t by_status[LOCK_STATUSES], all = 0;
    for (int i = 0; i < LOCK_STATUSES; i++)
        all += by_status[i] = atomic_load(&lock->figures.by_status[i]);
    *metrics = (struct lock_metrics){
        .acquired = by_status[LOCK_OK],
        .busy = by_status[LOCK_BUSY],
        .timeouts = by_status[LOCK_TIMEOUT],
        .cancelled = by_status[LOCK_CANCELLED],
        .failed = all - by_status[LOCK_OK] - by_status[LOCK_BUSY] - by_status[LOCK_TIMEOUT] -
                  by_status[LOCK_CANCELLED],
        .released = atomic_load(&lock->figures.released),
        .extended = atomic_load(&lock->figures.extended),
        .lost = atomic_load(&lock->figures.lost),
        .passed = atomic_load(&lock->figures.passed),
        .waiting = atomic_load(&lock->figures.waiting) + (lock->lines ? lock_lines_waiting(lock->lines) : 0),
        .wait_ns = atomic_load(&lock->figures.wait_ns),
        .hold_ns = atomic_load(&lock->figures.hold_ns),
    };
}
