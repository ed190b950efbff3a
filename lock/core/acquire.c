/* The layer: what is the same for all locks. */
#include "lock/lock.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "lock/core/handle.h"

/* So long a store may fail before who waits is told; then, too, a broken connection is soon made anew. */
static const int64_t failing_ns = 1000000000, failing_pause_ns = 20000000;

/* An attempt waits for the store's answer until `late_ns` after the deadline, or `least_ns` after it began
 * where that is later. What it has left is released then, or by the keeper; of one that was cancelled the
 * keeper does it, and is waited for during `cancelled_ns`. So nobody waits for longer than lock.h says. */
static const int64_t late_ns = LOCK_TIMEOUT_MAX_MS * INT64_C(1000000), least_ns = 850000000,
                     withdraw_ns = 300000000, cancelled_ns = 40000000;

/* A release whose reply was lost is repeated once, and again and again until so long after it began. */
static const int64_t release_again_ns = 500000000;

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
    if (!key) {
        lock_lines_wake_all(lock->lines);
    } else if (!lock_lines_wake(lock->lines, key, owner)) {
        /* It has given up, and the store did not know yet. Where it cannot be noted it runs out. */
        bool full = lock_keeper_is_full(lock->keeper);
        struct lock_pending *pending = full ? NULL : lock_pending_new(key, owner);
        if (pending)
            lock_keeper_release(lock->keeper, pending);
    }
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

/* By the answer to a release. */
static bool is_gone(enum lock_status status) {
    return status == LOCK_OK || status == LOCK_NOT_OWNER;
}

/* Gives up an attempt of which the store may know. True: it is sure that nothing is left. */
static bool withdraw(struct lock *lock, const struct lock_attempt *attempt) {
    const struct lock_backend *backend = lock->backend;
    const struct lock_grant *grant = &attempt->grant;
    int64_t until_ns = attempt->limit.until_ns, now_ns = clock_mono_ns(&clock_system);
    if (now_ns + withdraw_ns < until_ns)
        until_ns = now_ns + withdraw_ns;
    return backend->withdraw && now_ns < until_ns &&
           is_gone(backend->withdraw(lock->store, grant->key, grant->owner, until_ns));
}

/* For what may be left in the store, or not; `pending` may be NULL, where there is no keeper. */
static void settle(struct lock *lock, struct lock_pending *pending, bool left) {
    if (pending && left)
        lock_keeper_release(lock->keeper, pending);
    else
        free(pending);
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

/* What is asked for, and what it has left in the store. */
struct asking {
    struct lock_attempt attempt;
    bool left;  /* something, or it is not known */
    bool fails; /* the store did, the last time */
};

static enum lock_status attempt(struct lock *lock, struct asking *asking) {
    asking->attempt.clean = false;
    enum lock_status status = lock->backend->attempt(lock->store, &asking->attempt);
    asking->left = asking->left || status == LOCK_UNKNOWN ||
                   (status != LOCK_OK && asking->attempt.waits && !asking->attempt.clean);
    asking->fails = fails(status);
    return status;
}

/* One attempt, and one more where the reply is lost: an attempt finds what an earlier one with the same owner
 * was given. */
static enum lock_status ask_once(struct lock *lock, struct asking *asking) {
    const struct lock_limit *limit = &asking->attempt.limit;
    enum lock_status status = attempt(lock, asking);
    if (status != LOCK_UNKNOWN || lock_cancel_called(limit->cancel) ||
        clock_mono_ns(&clock_system) >= limit->until_ns)
        return status;
    status = attempt(lock, asking);
    return status == LOCK_OK || status == LOCK_BUSY ? status : LOCK_UNKNOWN;
}

/* Asks until the lock is had or there is a reason to stop. */
static enum lock_status ask_until(struct lock *lock, struct asking *asking, int64_t deadline_ns,
                                  struct lock_cancel *cancel, struct lock_waiter *waiter) {
    const struct lock_attempt *attempt = &asking->attempt;
    int64_t failed_ns = 0; /* since when; 0: the store answers */
    bool unknown = false;
    for (;;) {
        enum lock_status status = ask_once(lock, asking);
        int64_t now_ns = lock_now_ns(lock), until_ns = attempt->again_ns;
        if (!fails(status) && (status != LOCK_BUSY || !attempt->waits))
            return status;
        failed_ns = !fails(status) ? 0 : failed_ns ? failed_ns : now_ns;
        unknown = fails(status) && (unknown || status == LOCK_UNKNOWN);
        if (fails(status)) {
            if (lock_cancel_called(cancel))
                return LOCK_CANCELLED;
            if (!attempt->waits || now_ns >= deadline_ns || now_ns - failed_ns >= failing_ns)
                return unknown ? LOCK_UNKNOWN : status;
            until_ns = now_ns + failing_pause_ns;
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

static enum lock_status ask(struct lock *lock, struct asking *asking, int64_t deadline_ns,
                            struct lock_cancel *cancel) {
    struct lock_attempt *attempt = &asking->attempt;
    const struct lock_grant *grant = &attempt->grant;
    struct lock_waiter waiter;
    if (!lock->store) {
        attempt->grant.fence = 0;
        attempt->grant.deadline_ns = INT64_MAX;
        return LOCK_OK;
    }
    attempt->limit = limit_of(lock, deadline_ns, cancel);
    if (attempt->giving[0] && !lock->backend->hands_over && /* its turn was forgotten */
        (is_gone(lock->backend->release(lock->store, grant->key, attempt->giving)) || !lock->backend->lasts))
        attempt->giving[0] = '\0';
    lock_waiter_init(&waiter);
    if (lock->lines)
        lock_lines_ask(lock->lines, grant->key, grant->owner, &waiter);
    enum lock_status status = ask_until(lock, asking, deadline_ns, cancel, &waiter);
    if (lock->lines)
        lock_lines_ask(lock->lines, grant->key, grant->owner, NULL);
    lock_waiter_destroy(&waiter);
    if (status == LOCK_OK)
        asking->left = false;
    else if (asking->left && status != LOCK_CANCELLED)
        asking->left = !withdraw(lock, attempt);
    if (status == LOCK_UNKNOWN && !asking->left)
        status = LOCK_UNAVAILABLE; /* it is known now: not had */
    return status;
}

static void pause_before_again(void) {
    nanosleep(&(struct timespec){.tv_nsec = failing_pause_ns}, NULL);
}

/* Asks again what came of a release whose reply was lost. LOCK_UNKNOWN: the store could not be asked; or the
 * grant is not there, and has run out meanwhile, so nobody knows which came first. */
static enum lock_status release_again(struct lock *lock, const char *key, const struct lock_held *held,
                                      int64_t until_ns, bool *gone) {
    enum lock_status status = LOCK_UNKNOWN;
    for (int tries = 0; tries == 0 || (!is_gone(status) && clock_mono_ns(&clock_system) < until_ns);
         tries++) {
        if (tries > 0)
            pause_before_again();
        status = lock->backend->release(lock->store, key, held->owner);
    }
    *gone = is_gone(status);
    if (status == LOCK_NOT_OWNER && lock_now_ns(lock) < held->deadline_ns)
        return LOCK_OK; /* the first one did it */
    return status == LOCK_OK ? LOCK_OK : LOCK_UNKNOWN;
}

/* Gives a grant back. What is left then is the keeper's. Takes `held->pending`. */
static enum lock_status give_back(struct lock *lock, const char *key, const struct lock_held *held) {
    if (!lock->store)
        return LOCK_OK;
    int64_t until_ns = clock_mono_ns(&clock_system) + release_again_ns;
    enum lock_status status = lock->backend->release(lock->store, key, held->owner);
    bool gone = is_gone(status);
    if (status == LOCK_UNKNOWN)
        status = release_again(lock, key, held, until_ns, &gone);
    settle(lock, held->pending, !gone);
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

/* The store is asked, with what has to be released should that come to nothing. `*held` is what it has
 * granted then; what was held before is given back. */
static enum lock_status take_anew(struct lock *lock, struct asking *asking, struct lock_held *held,
                                  int64_t deadline_ns, struct lock_cancel *cancel) {
    const struct lock_grant *grant = &asking->attempt.grant;
    struct lock_pending *pending = NULL;
    enum lock_status status = LOCK_OK;
    memcpy(asking->attempt.giving, held->owner, sizeof asking->attempt.giving);
    if (lock->keeper && lock_keeper_is_full(lock->keeper))
        status = LOCK_UNAVAILABLE;
    else if (lock->keeper && !(pending = lock_pending_new(grant->key, grant->owner)))
        status = LOCK_NOMEM;
    if (status == LOCK_OK)
        status = ask(lock, asking, deadline_ns, cancel);
    settle(lock, held->pending, asking->attempt.giving[0]);
    if (status != LOCK_OK) {
        if (pending && status == LOCK_CANCELLED && asking->left && !asking->fails)
            lock_keeper_release_within(lock->keeper, pending, clock_mono_ns(&clock_system) + cancelled_ns);
        else
            settle(lock, pending, asking->left);
        return status;
    }
    *held = (struct lock_held){.fences = lock->backend->fences ? lock->backend->fences : 1,
                               .fence = grant->fence,
                               .pass_until_ns = grant->deadline_ns - lock->ttl_ns / 8 * 7,
                               .deadline_ns = grant->deadline_ns,
                               .pending = pending};
    if (lock->store)
        memcpy(held->owner, grant->owner, sizeof held->owner);
    return LOCK_OK;
}

/* What the store has granted serves another turn, or it is asked. */
static enum lock_status take(struct lock *lock, struct asking *asking, struct lock_held *held,
                             int64_t deadline_ns, struct lock_cancel *cancel) {
    struct lock_grant *grant = &asking->attempt.grant;
    if (held->fences > 0 && lock_now_ns(lock) < held->pass_until_ns) {
        atomic_fetch_add(&lock->figures.passed, 1);
        grant->deadline_ns = held->deadline_ns;
    } else {
        enum lock_status status = take_anew(lock, asking, held, deadline_ns, cancel);
        if (status != LOCK_OK)
            return status;
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
    struct asking asking = {.attempt.waits = waits};
    struct lock_held held = {.fences = 0};
    struct lock_grant *grant = &asking.attempt.grant;
    if (lock->backend->caps & LOCK_IS_REENTRANT && lock_lines_reenter(lock->lines, key, out))
        return LOCK_OK;
    memcpy(grant->key, key, strlen(key) + 1);
    make_owner(lock, grant->owner);
    enum lock_status status = LOCK_OK;
    if (lock->lines)
        status = lock_lines_enter(lock->lines, key, grant->owner, deadline_ns, cancel, &held);
    if (status != LOCK_OK)
        return status;
    status = take(lock, &asking, &held, deadline_ns, cancel);
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

static enum lock_status release(struct lock *lock, const struct lock_grant *grant, bool later,
                                int64_t *since_ns) {
    struct lock_held held = {.deadline_ns = grant->deadline_ns};
    memcpy(held.owner, grant->owner, sizeof held.owner);
    if (!lock->lines)
        return later ? LOCK_UNAVAILABLE : give_back(lock, grant->key, &held);
    bool pass = lock->backend->hands_over || !lock->store;
    enum lock_turn turn = lock_lines_leave(lock->lines, grant->key, grant->owner, pass, &held);
    if (turn == LOCK_TURN_OVER)
        return LOCK_NOT_OWNER;
    *since_ns = held.since_ns;
    if (turn != LOCK_TURN_LAST)
        return LOCK_OK;
    enum lock_status status = LOCK_UNAVAILABLE;
    if (later && held.pending)
        settle(lock, held.pending, true);
    else
        status = give_back(lock, grant->key, &held);
    lock_lines_end(lock->lines, grant->key, grant->owner);
    return status;
}

static enum lock_status release_counted(struct lock *lock, const struct lock_grant *grant, bool later) {
    int64_t now_ns = lock_now_ns(lock), since_ns = now_ns;
    lock->env.at_point(lock->env.ctx, "release", grant->key);
    enum lock_status status = release(lock, grant, later, &since_ns);
    lock->env.at_point(lock->env.ctx, "released", grant->key);
    if (status == LOCK_OK) {
        atomic_fetch_add(&lock->figures.released, 1);
        atomic_fetch_add(&lock->figures.hold_ns, (uint64_t)(now_ns - since_ns));
    }
    return status;
}

enum lock_status lock_release(struct lock *lock, const struct lock_grant *grant) {
    return release_counted(lock, grant, false);
}

enum lock_status lock_release_later(struct lock *lock, const struct lock_grant *grant) {
    return release_counted(lock, grant, true);
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
