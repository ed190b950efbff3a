/* Several keys at once. Everybody takes them in the order of their bytes, so that among those who wait for
 * each other there is always one who waits for nobody (E. G. Coffman et al., "System Deadlocks", 1971: no
 * circular wait). */
#include <stdlib.h>
#include <string.h>

#include "lock/internal.h"

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

/* A store that does not answer is not waited for with each key anew. */
static enum lock_status release_next(struct lock *lock, const struct lock_grant *grant, bool *fails) {
    enum lock_status status = *fails ? lock_release_later(lock, grant) : lock_release(lock, grant);
    *fails = *fails || status == LOCK_UNKNOWN || status == LOCK_UNAVAILABLE;
    return status;
}

static void give_back(struct lock *lock, const char *const *const sorted[], size_t done,
                      const char *const keys[], struct lock_grant had[], bool fails) {
    while (done-- > 0) {
        if (done == 0 || strcmp(*sorted[done], *sorted[done - 1]) != 0)
            release_next(lock, &had[sorted[done] - keys], &fails);
    }
}

/* While it waited for the later ones the earlier may have run out, or nearly. True: all are held, and none
 * has less than half of the time that the last has, if this lock can see to that. */
static bool freshen(struct lock *lock, const char *const *const sorted[], size_t count,
                    const char *const keys[], struct lock_grant had[]) {
    int64_t last_ns = count ? lock_remaining_ns(lock, &had[sorted[count - 1] - keys]) : 0;
    for (size_t i = 0; i < count; i++) {
        struct lock_grant *grant = &had[sorted[i] - keys];
        int64_t left_ns = lock_remaining_ns(lock, grant);
        if (left_ns < last_ns / 2 && lock_caps(lock) & LOCK_CAN_EXTEND && lock_extend(lock, grant) == LOCK_OK)
            left_ns = lock_remaining_ns(lock, grant);
        if (left_ns <= 0)
            return false;
    }
    return true;
}

enum lock_status lock_acquire_all(struct lock *lock, const char *const keys[], size_t count,
                                  int64_t deadline_ns, struct lock_cancel *cancel,
                                  struct lock_grant grants[]) {
    const char *const **sorted = sort(keys, count);
    struct lock_grant *had = malloc(sizeof *had * (count ? count : 1));
    enum lock_status status = sorted && had ? LOCK_OK : LOCK_NOMEM;
    bool all = status != LOCK_OK;
    while (!all && status == LOCK_OK) {
        size_t done = 0;
        for (; done < count; done++) {
            size_t at = (size_t)(sorted[done] - keys);
            if (done > 0 && strcmp(*sorted[done], *sorted[done - 1]) == 0)
                had[at] = had[sorted[done - 1] - keys];
            else if ((status = lock_acquire(lock, keys[at], deadline_ns, cancel, &had[at])) != LOCK_OK)
                break;
        }
        all = status == LOCK_OK && freshen(lock, sorted, count, keys, had);
        if (all)
            memcpy(grants, had, sizeof *had * count);
        else
            give_back(lock, sorted, done, keys, had, status == LOCK_UNKNOWN || status == LOCK_UNAVAILABLE);
        if (!all && status == LOCK_OK && lock_now_ns(lock) >= deadline_ns)
            status = LOCK_TIMEOUT;
    }
    free(had);
    free(sorted);
    return status;
}

static bool is_again(const struct lock_grant grants[], size_t i) {
    for (size_t k = 0; k < i; k++) {
        if (strcmp(grants[k].owner, grants[i].owner) == 0 && strcmp(grants[k].key, grants[i].key) == 0)
            return true;
    }
    return false;
}

enum lock_status lock_release_all(struct lock *lock, const struct lock_grant grants[], size_t count) {
    enum lock_status first = LOCK_OK;
    bool fails = false;
    for (size_t i = 0; i < count; i++) {
        enum lock_status status = is_again(grants, i) ? LOCK_OK : release_next(lock, &grants[i], &fails);
        if (first == LOCK_OK)
            first = status;
    }
    return first;
}
