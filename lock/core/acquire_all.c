/* Several keys at once. Every caller takes them in the order of their bytes, so no callers can wait for each
 * other in a circle (E. G. Coffman et al., "System Deadlocks", 1971). */
#include <stdlib.h>
#include <string.h>

#include "lock/core/handle.h"

static int by_key(const void *a, const void *b) {
    return strcmp(**(const char *const *const *)a, **(const char *const *const *)b);
}

/* Pointers to the elements of `keys`, in the order of the keys; NULL when out of memory. */
static const char *const **sort(const char *const keys[], size_t count) {
    const char *const **sorted = malloc(sizeof *sorted * (count ? count : 1));
    if (!sorted)
        return NULL;
    for (size_t i = 0; i < count; i++)
        sorted[i] = &keys[i];
    qsort(sorted, count, sizeof *sorted, by_key);
    return sorted;
}

/* No key is acquired or extended later than so long after the deadline. The last call may take another
 * second: lock.h allows two. */
static const int64_t grace_ns = 1000000000;

/* The time of CLOCK_MONOTONIC after which no more calls are made. */
static int64_t last_call_ns(const struct lock *lock, int64_t deadline_ns) {
    int64_t until_ns = lock_env_machine_ns(&lock->env, deadline_ns);
    return until_ns > INT64_MAX - grace_ns ? INT64_MAX : until_ns + grace_ns;
}

static bool is_late(int64_t until_ns) {
    return clock_now_ns() >= until_ns;
}

/* `*later` becomes true once the store has failed, or time is up: then the store is not asked any more. */
static enum lock_status release_next(struct lock *lock, const struct lock_grant *grant, int64_t until_ns,
                                     bool *later) {
    *later = *later || is_late(until_ns);
    enum lock_status status = *later ? lock_release_later(lock, grant) : lock_release(lock, grant);
    *later = *later || status == LOCK_UNKNOWN || status == LOCK_UNAVAILABLE;
    return status;
}

struct many {
    struct lock *lock;
    const char *const *keys;
    const char *const **sorted;
    struct lock_grant *grants; /* in the order of `keys` */
    size_t count, done;        /* the first `done` of `sorted` are acquired */
    int64_t deadline_ns, last_call_ns;
    struct lock_cancel *cancel;
};

static struct lock_grant *grant_of(const struct many *many, size_t i) {
    return &many->grants[many->sorted[i] - many->keys];
}

static bool is_repeated(const struct many *many, size_t i) {
    return i > 0 && strcmp(*many->sorted[i], *many->sorted[i - 1]) == 0;
}

static void release_done(struct many *many, bool later) {
    while (many->done-- > 0) {
        if (!is_repeated(many, many->done))
            release_next(many->lock, grant_of(many, many->done), many->last_call_ns, &later);
    }
}

/* While this call waited for later keys, earlier grants may have expired, or nearly so. True: all are held,
 * and if this lock can extend, none has less than half of the time that the last one has. Nothing is extended
 * after the store has failed, the call was cancelled, or its time is up. */
static bool extend_early_grants(const struct many *many) {
    struct lock *lock = many->lock;
    int64_t last_ns = many->count ? lock_remaining_ns(lock, grant_of(many, many->count - 1)) : 0;
    bool extends = lock_caps(lock) & LOCK_CAN_EXTEND;
    for (size_t i = 0; i < many->count; i++) {
        struct lock_grant *grant = grant_of(many, i);
        int64_t left_ns = lock_remaining_ns(lock, grant);
        extends = extends && !cancel_called(lock_cancel_of(many->cancel)) && !is_late(many->last_call_ns);
        if (left_ns < last_ns / 2 && extends) {
            extends = lock_extend(lock, grant) == LOCK_OK;
            left_ns = lock_remaining_ns(lock, grant);
        }
        if (left_ns <= 0)
            return false;
    }
    return true;
}

static enum lock_status acquire_each(struct many *many) {
    enum lock_status status = LOCK_OK;
    for (many->done = 0; many->done < many->count; many->done++) {
        const char *key = *many->sorted[many->done];
        struct lock_grant *grant = grant_of(many, many->done);
        if (is_repeated(many, many->done))
            *grant = *grant_of(many, many->done - 1);
        else if (many->done > 0 && is_late(many->last_call_ns))
            return LOCK_TIMEOUT;
        else if ((status = lock_acquire(many->lock, key, many->deadline_ns, many->cancel, grant)) != LOCK_OK)
            return status;
    }
    return LOCK_OK;
}

/* A store that failed is not asked again. A call that is cancelled, or may yet be cancelled, leaves the
 * release to the background thread, since the store may hang. */
static bool releases_later(const struct lock *lock, enum lock_status status) {
    bool has_failed = status == LOCK_UNKNOWN || status == LOCK_UNAVAILABLE;
    return has_failed || (lock->maintenance && (status == LOCK_OK || status == LOCK_CANCELLED));
}

static enum lock_status acquire_all(struct many *many) {
    for (;;) {
        enum lock_status status = acquire_each(many);
        if (status == LOCK_OK && extend_early_grants(many))
            return LOCK_OK;
        release_done(many, releases_later(many->lock, status));
        if (status == LOCK_OK && lock_now_ns(many->lock) >= many->deadline_ns)
            status = LOCK_TIMEOUT;
        if (status != LOCK_OK)
            return status;
    }
}

enum lock_status lock_acquire_all(struct lock *lock, const char *const keys[], size_t count,
                                  int64_t deadline_ns, struct lock_cancel *cancel,
                                  struct lock_grant grants[]) {
    struct many many = {.lock = lock,
                        .keys = keys,
                        .sorted = sort(keys, count),
                        .grants = malloc(sizeof *many.grants * (count ? count : 1)),
                        .count = count,
                        .deadline_ns = deadline_ns,
                        .last_call_ns = last_call_ns(lock, deadline_ns),
                        .cancel = cancel};
    enum lock_status status = many.sorted && many.grants ? acquire_all(&many) : LOCK_NOMEM;
    if (status == LOCK_OK)
        memcpy(grants, many.grants, sizeof *grants * count);
    free(many.grants);
    free(many.sorted);
    return status;
}

static bool was_released(const struct lock_grant grants[], size_t i) {
    for (size_t k = 0; k < i; k++) {
        if (strcmp(grants[k].owner, grants[i].owner) == 0 && strcmp(grants[k].key, grants[i].key) == 0)
            return true;
    }
    return false;
}

enum lock_status lock_release_all(struct lock *lock, const struct lock_grant grants[], size_t count) {
    enum lock_status first = LOCK_OK;
    int64_t until_ns = clock_now_ns() + grace_ns;
    bool later = false;
    for (size_t i = 0; i < count; i++) {
        enum lock_status status =
            was_released(grants, i) ? LOCK_OK : release_next(lock, &grants[i], until_ns, &later);
        if (first == LOCK_OK)
            first = status;
    }
    return first;
}
