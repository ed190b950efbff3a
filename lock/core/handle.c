/* The functions of lock.h that ask about an open lock, or about a grant that is held; and lock_extend(). */
#include "lock/core/handle.h"

#include <stdio.h>
#include <string.h>

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
    return lock->backend->caps | (lock->renews ? LOCK_RENEWS : 0U);
}

int64_t lock_ttl_ns(const struct lock *lock) {
    return lock->ttl_ns;
}

int64_t lock_now_ns(const struct lock *lock) {
    return lock_env_now_ns(&lock->env);
}

void lock_last_error(struct lock *lock, char *error, size_t error_size) {
    pthread_mutex_lock(&lock->error_mutex);
    snprintf(error, error_size, "%s", lock->last_error);
    pthread_mutex_unlock(&lock->error_mutex);
}

void lock_read_metrics(const struct lock *lock, struct lock_metrics *metrics) {
    uint64_t by_status[LOCK_STATUSES], all = 0;
    for (int i = 0; i < LOCK_STATUSES; i++)
        all += by_status[i] = atomic_load(&lock->metrics.by_status[i]);
    *metrics = (struct lock_metrics){
        .acquired = by_status[LOCK_OK],
        .busy = by_status[LOCK_BUSY],
        .timeouts = by_status[LOCK_TIMEOUT],
        .cancelled = by_status[LOCK_CANCELLED],
        .failed = all - by_status[LOCK_OK] - by_status[LOCK_BUSY] - by_status[LOCK_TIMEOUT] -
                  by_status[LOCK_CANCELLED],
        .released = atomic_load(&lock->metrics.released),
        .extended = atomic_load(&lock->metrics.extended),
        .lost = atomic_load(&lock->metrics.lost),
        .passed = atomic_load(&lock->metrics.passed),
        .waiting = atomic_load(&lock->metrics.waiting) +
                   (lock->queue ? lock_local_queue_count_waiting(lock->queue) : 0),
        .wait_ns = atomic_load(&lock->metrics.wait_ns),
        .hold_ns = atomic_load(&lock->metrics.hold_ns),
        .requests = atomic_load(&lock->metrics.requests),
    };
}

/* ---- while a grant is held ---- */

int64_t lock_remaining_ns(const struct lock *lock, const struct lock_grant *grant) {
    int64_t deadline_ns =
        lock->queue ? lock_local_queue_deadline_ns(lock->queue, grant, false) : grant->deadline_ns;
    int64_t now_ns = lock_now_ns(lock);
    return deadline_ns > now_ns ? deadline_ns - now_ns : 0;
}

enum lock_status lock_progress(struct lock *lock, struct lock_grant *grant) {
    int64_t deadline_ns =
        lock->queue ? lock_local_queue_deadline_ns(lock->queue, grant, true) : grant->deadline_ns;
    if (deadline_ns <= lock_now_ns(lock))
        return LOCK_LOST;
    grant->deadline_ns = deadline_ns;
    return LOCK_OK;
}

enum lock_status lock_extend(struct lock *lock, struct lock_grant *grant) {
    struct lock_due due = {.grant = *grant};
    if (!(lock->backend->caps & LOCK_CAN_EXTEND))
        return LOCK_CONFIG;
    if (!lock_local_queue_find(lock->queue, &due))
        return LOCK_LOST;
    struct lock_check check = {.grant = *grant, .extends = true};
    memcpy(check.grant.owner, due.granted.owner, sizeof check.grant.owner);
    uint64_t moves = atomic_load(&lock->moves);
    lock->backend->check(lock->store, &check, 1);
    if (check.status == LOCK_NOT_OWNER && !lock_local_queue_set_lost(lock->queue, &due, true) &&
        lock_local_queue_find_successor(lock->queue, &due))
        lock_maintenance_doubt(lock->maintenance); /* on_lost() is called by its thread only */
    if (check.status != LOCK_OK)
        return check.status == LOCK_NOT_OWNER ? LOCK_LOST : check.status;
    due.granted.moves = moves;
    if (!lock_local_queue_update(lock->queue, &due, check.grant.deadline_ns, 0))
        return LOCK_LOST;
    lock_maintenance_wake(lock->maintenance, check.grant.deadline_ns);
    if (atomic_load(&lock->moves) != moves) /* a server may have extended it that is not the store any more */
        lock_maintenance_doubt(lock->maintenance);
    lock_local_queue_deadline_ns(lock->queue, grant, true);
    atomic_fetch_add(&lock->metrics.extended, 1);
    grant->deadline_ns = check.grant.deadline_ns;
    return LOCK_OK;
}
