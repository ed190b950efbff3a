#include "lock/core/local_queue.h"

#include <stdlib.h>
#include <string.h>

enum { BUCKETS = 1024, EARLY = 16 };

/* The queue of one key. It exists as long as the key has a local holder or waiters. */
struct key_queue {
    LIST_ENTRY(key_queue) next; /* in its bucket */
    TAILQ_HEAD(key_waiters, waiter) waiters;
    struct waiter *store_waiter;     /* the holder's, until it has its grant */
    struct lock_grant grant;         /* the holder's; owner "": there is no holder. The deadline is INT64_MAX
                                        until the store has granted */
    struct lock_store_grant granted; /* passes from one holder to the next */
    uint64_t thread;
    unsigned reentries;
    bool lost; /* the holder's grant; or, until the holder has one, what the last holder passed on */
    int64_t progress_ns;
};

LIST_HEAD(key_queues, key_queue);

struct lock_local_queue {
    const struct lock_env *env;
    int64_t ttl_ns;
    bool renews, outlives_deadline;
    pthread_mutex_t mutex;
    uint64_t waiting;
    struct key_queues buckets[BUCKETS];
};

struct lock_local_queue *lock_local_queue_new(const struct lock_env *env, int64_t ttl_ns, bool renews,
                                              bool outlives_deadline) {
    struct lock_local_queue *queue = calloc(1, sizeof *queue);
    if (!queue)
        return NULL;
    queue->env = env;
    queue->ttl_ns = ttl_ns;
    queue->renews = renews;
    queue->outlives_deadline = outlives_deadline;
    pthread_mutex_init(&queue->mutex, NULL);
    return queue;
}

static void free_key_queue(struct key_queue *each) {
    LIST_REMOVE(each, next);
    free(each->granted.pending);
    free(each);
}

void lock_local_queue_free(struct lock_local_queue *queue) {
    if (!queue)
        return;
    for (int i = 0; i < BUCKETS; i++) {
        for (struct key_queue *each = LIST_FIRST(&queue->buckets[i]), *after; each; each = after) {
            after = LIST_NEXT(each, next);
            free_key_queue(each);
        }
    }
    pthread_mutex_destroy(&queue->mutex);
    free(queue);
}

/* ---- helpers, called with the mutex held ---- */

/* Unlike a pthread_t this number is not used again after the thread has ended. */
static uint64_t this_thread(void) {
    static _Atomic uint64_t newest;
    static _Thread_local uint64_t number;
    if (number == 0)
        number = ++newest;
    return number;
}

static int64_t now_ns(const struct lock_local_queue *queue) {
    return lock_env_now_ns(queue->env);
}

/* Call it when the deadline has changed. */
static void set_third(const struct lock_local_queue *queue, struct key_queue *each) {
    int64_t left_ns = each->grant.deadline_ns - now_ns(queue);
    each->granted.third_ns = (left_ns < queue->ttl_ns ? left_ns : queue->ttl_ns) / 3;
}

static struct key_queues *bucket_of(struct lock_local_queue *queue, const char *key) {
    return &queue->buckets[lock_hash_text(key) % BUCKETS];
}

/* NULL: it has no holder and no waiters. */
static struct key_queue *find(struct lock_local_queue *queue, const char *key) {
    struct key_queue *each = LIST_FIRST(bucket_of(queue, key));
    while (each && strcmp(each->grant.key, key) != 0)
        each = LIST_NEXT(each, next);
    return each;
}

/* NULL when out of memory. */
static struct key_queue *find_or_add(struct lock_local_queue *queue, const char *key) {
    struct key_queue *each = find(queue, key);
    if (each || !(each = calloc(1, sizeof *each)))
        return each;
    memcpy(each->grant.key, key, strlen(key) + 1);
    TAILQ_INIT(&each->waiters);
    LIST_INSERT_HEAD(bucket_of(queue, key), each, next);
    return each;
}

/* NULL: `owner` is not the holder. */
static struct key_queue *find_held_by(struct lock_local_queue *queue, const char *key, const char *owner) {
    struct key_queue *each = find(queue, key);
    return each && strcmp(each->grant.owner, owner) == 0 ? each : NULL;
}

static bool is_free(const struct lock_local_queue *queue, const struct key_queue *each) {
    return !each->grant.owner[0] || now_ns(queue) >= each->grant.deadline_ns;
}

/* When a grant counts as lost that is not renewed before: a third of its time is left then. It does so
 * whether or not its holder was told yet. INT64_MAX: never. */
static int64_t late_ns(const struct lock_local_queue *queue, const struct key_queue *each) {
    return queue->renews && each->grant.deadline_ns != INT64_MAX
               ? each->grant.deadline_ns - each->granted.third_ns
               : INT64_MAX;
}

static bool is_lost(const struct lock_local_queue *queue, const struct key_queue *each) {
    return each->lost || now_ns(queue) >= late_ns(queue, each);
}

static void wake_first(struct key_queue *each) {
    if (!TAILQ_EMPTY(&each->waiters))
        waiter_wake(TAILQ_FIRST(&each->waiters));
}

static void set_holder(struct key_queue *each, const char *owner, struct waiter *waiter) {
    memcpy(each->grant.owner, owner, sizeof each->grant.owner);
    each->grant.deadline_ns = INT64_MAX;
    each->thread = this_thread();
    each->reentries = 0;
    each->lost = false;
    each->store_waiter = waiter;
    waiter->woken = false; /* in the queue; now it is the store that wakes it */
}

static void free_if_unused(struct key_queue *each) {
    if (TAILQ_EMPTY(&each->waiters) && !each->grant.owner[0])
        free_key_queue(each);
}

/* The caller is responsible for the release from then on. */
static struct lock_store_grant take_granted(struct key_queue *each) {
    struct lock_store_grant granted = each->granted;
    each->granted.pending = NULL;
    return granted;
}

/* ---- entering and leaving ---- */

/* Waits until `waiter` is the first and the key has no holder, or its holder's deadline has passed. Called,
 * and returns, with the mutex held. `each` exists as long as its waiter is in it. */
static enum lock_status wait_until_free(struct lock_local_queue *queue, struct key_queue *each,
                                        struct waiter *waiter, int64_t deadline_ns, struct cancel *cancel) {
    enum waiter_end end = WAITER_WOKEN;
    while (TAILQ_FIRST(&each->waiters) != waiter || !is_free(queue, each)) {
        if (end == WAITER_CANCELLED || now_ns(queue) >= deadline_ns)
            return end == WAITER_CANCELLED ? LOCK_CANCELLED : LOCK_TIMEOUT;
        bool next = TAILQ_FIRST(&each->waiters) == waiter && each->grant.deadline_ns < deadline_ns;
        int64_t until_ns = lock_env_machine_ns(queue->env, next ? each->grant.deadline_ns : deadline_ns);
        pthread_mutex_unlock(&queue->mutex);
        end = waiter_wait(waiter, until_ns, cancel);
        pthread_mutex_lock(&queue->mutex);
    }
    return LOCK_OK;
}

enum lock_status lock_local_queue_enter(struct lock_local_queue *queue, const char *key, const char *owner,
                                        int64_t deadline_ns, struct cancel *cancel, struct waiter *waiter,
                                        struct lock_store_grant *granted) {
    enum lock_status status = LOCK_NOMEM;
    pthread_mutex_lock(&queue->mutex);
    struct key_queue *each = find_or_add(queue, key);
    if (!each)
        goto unlock;
    TAILQ_INSERT_TAIL(&each->waiters, waiter, queued);
    queue->waiting++;
    status = wait_until_free(queue, each, waiter, deadline_ns, cancel);
    queue->waiting--;
    bool was_first = TAILQ_FIRST(&each->waiters) == waiter;
    TAILQ_REMOVE(&each->waiters, waiter, queued);
    if (status == LOCK_OK) {
        set_holder(each, owner, waiter);
        *granted = take_granted(each);
    } else if (was_first) {
        wake_first(each); /* the new first thread must wait for the holder's deadline now */
    }
    free_if_unused(each);
unlock:
    pthread_mutex_unlock(&queue->mutex);
    return status;
}

uint64_t lock_local_queue_count_waiting(struct lock_local_queue *queue) {
    pthread_mutex_lock(&queue->mutex);
    uint64_t waiting = queue->waiting;
    pthread_mutex_unlock(&queue->mutex);
    return waiting;
}

bool lock_local_queue_set_grant(struct lock_local_queue *queue, const struct lock_grant *grant,
                                const struct lock_store_grant *granted) {
    pthread_mutex_lock(&queue->mutex);
    struct key_queue *each = find_held_by(queue, grant->key, grant->owner);
    bool lost = each && each->lost && strcmp(each->granted.owner, granted->owner) == 0;
    if (each && !lost) {
        each->lost = false;
        each->grant = *grant;
        each->granted = *granted;
        each->store_waiter = NULL;
        each->progress_ns = each->granted.since_ns = now_ns(queue);
        if (each->granted.verify_ns == 0) {
            set_third(queue, each);
            each->granted.verify_ns = each->progress_ns + each->granted.third_ns;
        }
        wake_first(each); /* the first thread must wait no longer than this deadline */
    }
    pthread_mutex_unlock(&queue->mutex);
    return !lost;
}

enum lock_local_release lock_local_queue_leave(struct lock_local_queue *queue, const char *key,
                                               const char *owner, bool may_pass_on,
                                               struct lock_store_grant *granted) {
    enum lock_local_release result = LOCK_LOCAL_NOT_HOLDER;
    pthread_mutex_lock(&queue->mutex);
    struct key_queue *each = find_held_by(queue, key, owner);
    if (!each)
        goto unlock;
    *granted = each->granted;
    granted->pending = NULL;
    if (each->reentries > 0) {
        each->reentries--;
        result = LOCK_LOCAL_STILL_HELD;
    } else if (TAILQ_EMPTY(&each->waiters) || !may_pass_on) {
        each->grant.deadline_ns = INT64_MAX; /* no thread enters before lock_local_queue_end() */
        *granted = take_granted(each);
        result = LOCK_LOCAL_TO_STORE;
    } else if (!is_free(queue, each)) {
        each->grant.owner[0] = '\0';
        wake_first(each);
        result = LOCK_LOCAL_PASSED_ON;
    }
unlock:
    pthread_mutex_unlock(&queue->mutex);
    return result;
}

void lock_local_queue_end(struct lock_local_queue *queue, const char *key, const char *owner) {
    pthread_mutex_lock(&queue->mutex);
    struct key_queue *each = find_held_by(queue, key, owner);
    if (each) {
        each->grant.owner[0] = '\0';
        each->granted = (struct lock_store_grant){.holders_left = 0};
        each->store_waiter = NULL;
        wake_first(each);
        free_if_unused(each);
    }
    pthread_mutex_unlock(&queue->mutex);
}

bool lock_local_queue_reenter(struct lock_local_queue *queue, const char *key, struct lock_grant *grant) {
    pthread_mutex_lock(&queue->mutex);
    struct key_queue *each = find(queue, key);
    bool holds = each && !is_lost(queue, each) && !is_free(queue, each) &&
                 each->grant.deadline_ns != INT64_MAX && each->thread == this_thread();
    if (holds) {
        each->reentries++;
        each->progress_ns = now_ns(queue);
        *grant = each->grant;
    }
    pthread_mutex_unlock(&queue->mutex);
    return holds;
}

/* ---- waiting for the store ---- */

bool lock_local_queue_wake(struct lock_local_queue *queue, const char *key, const char *owner) {
    pthread_mutex_lock(&queue->mutex);
    struct key_queue *each = find(queue, key);
    bool is_holder = each && strcmp(each->grant.owner, owner) == 0;
    if (is_holder && each->store_waiter)
        waiter_wake(each->store_waiter);
    bool known = is_holder || (each && strcmp(each->granted.owner, owner) == 0);
    pthread_mutex_unlock(&queue->mutex);
    return known;
}

void lock_local_queue_wake_all(struct lock_local_queue *queue) {
    pthread_mutex_lock(&queue->mutex);
    for (int i = 0; i < BUCKETS; i++) {
        for (struct key_queue *each = LIST_FIRST(&queue->buckets[i]); each; each = LIST_NEXT(each, next)) {
            if (each->store_waiter)
                waiter_wake(each->store_waiter);
        }
    }
    pthread_mutex_unlock(&queue->mutex);
}

/* ---- grants ---- */

int64_t lock_local_queue_deadline_ns(struct lock_local_queue *queue, const struct lock_grant *grant,
                                     bool progresses) {
    pthread_mutex_lock(&queue->mutex);
    struct key_queue *each = find_held_by(queue, grant->key, grant->owner);
    int64_t deadline_ns = each && !is_lost(queue, each) ? each->grant.deadline_ns : 0;
    if (each && progresses)
        each->progress_ns = now_ns(queue);
    pthread_mutex_unlock(&queue->mutex);
    return deadline_ns;
}

/* The store has granted it, and it was not marked as lost. */
static bool is_granted(const struct key_queue *each) {
    return each->grant.owner[0] && each->granted.owner[0] && each->grant.deadline_ns != INT64_MAX &&
           !each->lost;
}

/* A grant that outlives its deadline in the store must be released soon after it: others wait for it. */
static int64_t due_ns(const struct lock_local_queue *queue, const struct key_queue *each) {
    return queue->outlives_deadline && each->grant.deadline_ns < each->granted.verify_ns
               ? each->grant.deadline_ns
               : each->granted.verify_ns;
}

/* The first of one bucket that is due, or NULL. */
static struct key_queue *find_due(struct lock_local_queue *queue, struct key_queues *bucket, int64_t *next_ns,
                                  bool *forgotten) {
    for (struct key_queue *each = LIST_FIRST(bucket), *after; each; each = after) {
        bool over = is_free(queue, each);
        after = LIST_NEXT(each, next);
        if (is_granted(each) && (!over || queue->renews)) {
            if (over || each->granted.verify_ns - each->granted.third_ns / EARLY <= now_ns(queue))
                return each;
            if (due_ns(queue, each) < *next_ns)
                *next_ns = due_ns(queue, each);
        } else if (over && TAILQ_EMPTY(&each->waiters)) {
            *forgotten = queue->outlives_deadline && each->granted.owner[0];
            if (*forgotten)
                return each;
            free_key_queue(each);
        }
    }
    return NULL;
}

bool lock_local_queue_next_due(struct lock_local_queue *queue, struct lock_scan *scan, struct lock_due *due) {
    bool forgotten = false;
    struct key_queue *each = NULL;
    pthread_mutex_lock(&queue->mutex);
    for (; scan->bucket < BUCKETS && !each; scan->bucket += each == NULL)
        each = find_due(queue, &queue->buckets[scan->bucket], &scan->next_ns, &forgotten);
    if (each) {
        int64_t now = now_ns(queue);
        each->granted.verify_ns = now + each->granted.third_ns;
        *due = (struct lock_due){each->grant, each->granted, now - each->progress_ns, forgotten};
        if (forgotten) {
            each->granted.pending = NULL; /* it is the caller's now */
            free_key_queue(each);
        } else {
            due->granted.pending = NULL;
        }
    }
    pthread_mutex_unlock(&queue->mutex);
    return scan->bucket < BUCKETS;
}

bool lock_local_queue_next_late(struct lock_local_queue *queue, struct lock_scan *scan,
                                struct lock_due *due) {
    bool found = false;
    pthread_mutex_lock(&queue->mutex);
    for (; scan->bucket < BUCKETS && !found; scan->bucket += !found) {
        struct key_queue *each = LIST_FIRST(&queue->buckets[scan->bucket]);
        for (; each && !found; each = LIST_NEXT(each, next)) {
            if (!is_granted(each))
                continue;
            found = is_lost(queue, each);
            if (found)
                *due = (struct lock_due){.grant = each->grant, .granted = each->granted};
            else if (late_ns(queue, each) < scan->next_ns)
                scan->next_ns = late_ns(queue, each);
        }
    }
    pthread_mutex_unlock(&queue->mutex);
    due->granted.pending = NULL;
    return found;
}

/* NULL: it is not held any more, or it was marked as lost. */
static struct key_queue *find_granted(struct lock_local_queue *queue, const struct lock_due *due) {
    struct key_queue *each = find_held_by(queue, due->grant.key, due->grant.owner);
    return each && is_granted(each) ? each : NULL;
}

/* As find_granted(), but NULL also after the deadline, and if the grant was not renewed in time. */
static struct key_queue *find_valid(struct lock_local_queue *queue, const struct lock_due *due) {
    struct key_queue *each = find_granted(queue, due);
    return each && !is_free(queue, each) && !is_lost(queue, each) ? each : NULL;
}

bool lock_local_queue_find(struct lock_local_queue *queue, struct lock_due *due) {
    pthread_mutex_lock(&queue->mutex);
    const struct key_queue *each = find_valid(queue, due);
    if (each)
        due->granted = each->granted;
    pthread_mutex_unlock(&queue->mutex);
    return each != NULL;
}

bool lock_local_queue_update(struct lock_local_queue *queue, const struct lock_due *due, int64_t deadline_ns,
                             int64_t verify_ns) {
    pthread_mutex_lock(&queue->mutex);
    struct key_queue *each = find_valid(queue, due);
    if (each && deadline_ns) {
        bool is_renewed = deadline_ns > each->grant.deadline_ns;
        each->grant.deadline_ns = each->granted.deadline_ns = deadline_ns;
        if (is_renewed)
            set_third(queue, each);
    }
    if (each && verify_ns && verify_ns < each->granted.verify_ns)
        each->granted.verify_ns = verify_ns;
    if (each && due->granted.moves > each->granted.moves)
        each->granted.moves = due->granted.moves;
    pthread_mutex_unlock(&queue->mutex);
    return each != NULL;
}

void lock_local_queue_doubt_all(struct lock_local_queue *queue) {
    pthread_mutex_lock(&queue->mutex);
    for (int i = 0; i < BUCKETS; i++) {
        for (struct key_queue *each = LIST_FIRST(&queue->buckets[i]); each; each = LIST_NEXT(each, next))
            each->granted.verify_ns = now_ns(queue);
    }
    pthread_mutex_unlock(&queue->mutex);
}

bool lock_local_queue_set_lost(struct lock_local_queue *queue, const struct lock_due *due, bool gone) {
    pthread_mutex_lock(&queue->mutex);
    struct key_queue *each = find_granted(queue, due), *any = find(queue, due->grant.key);
    if (any && strcmp(any->granted.owner, due->granted.owner) == 0) {
        any->granted.holders_left = 0; /* it is not passed on any more, whoever holds it now */
        if (any->grant.deadline_ns == INT64_MAX)
            any->lost = true; /* nor does the thread get it that is about to take it over */
    }
    if (each) {
        each->lost = true;
        if (gone && !is_free(queue, each))
            each->grant.deadline_ns = each->granted.deadline_ns = now_ns(queue);
        wake_first(each);
    }
    pthread_mutex_unlock(&queue->mutex);
    return each != NULL;
}

bool lock_local_queue_find_successor(struct lock_local_queue *queue, struct lock_due *due) {
    pthread_mutex_lock(&queue->mutex);
    const struct key_queue *each = find(queue, due->grant.key);
    bool has_successor = each && is_granted(each) && strcmp(each->granted.owner, due->granted.owner) == 0;
    if (has_successor)
        due->grant = each->grant;
    pthread_mutex_unlock(&queue->mutex);
    return has_successor;
}
