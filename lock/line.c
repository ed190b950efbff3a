#include "lock/line.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "lock/waiter.h"

enum { BUCKETS = 1024 };

/* One key. There is one as long as somebody has the turn or waits. */
struct line {
    struct line *chain;
    struct lock_waiter *head, *tail;
    int64_t deadline_ns; /* of the turn; INT64_MAX while its owner still asks the store */
    char owner[LOCK_OWNER_SIZE];
    char key[LOCK_KEY_MAX + 1];
};

struct lock_lines {
    const struct lock_env *env;
    pthread_mutex_t mutex;
    struct line *buckets[BUCKETS];
};

struct lock_lines *lock_lines_new(const struct lock_env *env) {
    struct lock_lines *lines = calloc(1, sizeof *lines);
    if (!lines)
        return NULL;
    lines->env = env;
    pthread_mutex_init(&lines->mutex, NULL);
    return lines;
}

void lock_lines_free(struct lock_lines *lines) {
    if (!lines)
        return;
    for (int i = 0; i < BUCKETS; i++) {
        while (lines->buckets[i]) {
            struct line *next = lines->buckets[i]->chain;
            free(lines->buckets[i]);
            lines->buckets[i] = next;
        }
    }
    pthread_mutex_destroy(&lines->mutex);
    free(lines);
}

static int64_t now_ns(const struct lock_lines *lines) {
    return lines->env->now_ns(lines->env->ctx);
}

static struct line **find(struct lock_lines *lines, const char *key) {
    uint32_t hash = 2166136261U; /* FNV-1a */
    for (const char *c = key; *c; c++)
        hash = (hash ^ (unsigned char)*c) * 16777619U;
    struct line **at = &lines->buckets[hash % BUCKETS];
    while (*at && strcmp((*at)->key, key) != 0)
        at = &(*at)->chain;
    return at;
}

static void give_turn(struct line *line, const char *owner) {
    memcpy(line->owner, owner, sizeof line->owner);
    line->deadline_ns = INT64_MAX;
}

static void append(struct line *line, struct lock_waiter *waiter) {
    waiter->next = NULL;
    if (line->head)
        line->tail->next = waiter;
    else
        line->head = waiter;
    line->tail = waiter;
}

static void take_out(struct line *line, struct lock_waiter *waiter) {
    struct lock_waiter *before = NULL;
    for (struct lock_waiter *each = line->head; each != waiter; each = each->next)
        before = each;
    if (before)
        before->next = waiter->next;
    else
        line->head = waiter->next;
    if (line->tail == waiter)
        line->tail = before;
}

/* Frees a line that is of no use to anybody. */
static void drop(struct line **at) {
    struct line *line = *at;
    if (line->head || line->owner[0])
        return;
    *at = line->chain;
    free(line);
}

/* Free, or held for longer than its grant was good for; and nobody came before `waiter`. */
static bool is_turn(const struct lock_lines *lines, const struct line *line,
                    const struct lock_waiter *waiter) {
    return line->head == waiter && (!line->owner[0] || now_ns(lines) >= line->deadline_ns);
}

/* CLOCK_MONOTONIC for a time of the lock's own clock. */
static int64_t machine_ns(const struct lock_lines *lines, int64_t until_ns) {
    int64_t machine = clock_mono_ns(&clock_system), own = now_ns(lines);
    return until_ns - own > INT64_MAX - machine ? INT64_MAX : machine + (until_ns - own);
}

/* Called, and returns, with the mutex held. `line` stays as long as its waiter is in it. */
static enum lock_status wait_for_turn(struct lock_lines *lines, struct line *line, struct lock_waiter *waiter,
                                      int64_t deadline_ns, struct lock_cancel *cancel) {
    enum lock_status status = LOCK_OK;
    while (!is_turn(lines, line, waiter)) {
        if (status == LOCK_CANCELLED || now_ns(lines) >= deadline_ns)
            return status == LOCK_CANCELLED ? status : LOCK_TIMEOUT;
        bool next = line->head == waiter && line->deadline_ns < deadline_ns;
        int64_t until_ns = machine_ns(lines, next ? line->deadline_ns : deadline_ns);
        pthread_mutex_unlock(&lines->mutex);
        status = lock_waiter_wait(waiter, until_ns, cancel);
        pthread_mutex_lock(&lines->mutex);
    }
    return LOCK_OK;
}

enum lock_status lock_lines_enter(struct lock_lines *lines, const char *key, const char *owner,
                                  int64_t deadline_ns, struct lock_cancel *cancel) {
    enum lock_status status = LOCK_NOMEM;
    pthread_mutex_lock(&lines->mutex);
    struct line **at = find(lines, key);
    struct line *line = *at ? *at : (*at = calloc(1, sizeof *line));
    if (!line)
        goto unlock;
    if (!line->key[0])
        memcpy(line->key, key, strlen(key) + 1);
    struct lock_waiter waiter;
    lock_waiter_init(&waiter);
    append(line, &waiter);
    status = wait_for_turn(lines, line, &waiter, deadline_ns, cancel);
    bool was_first = line->head == &waiter;
    take_out(line, &waiter);
    if (status == LOCK_OK)
        give_turn(line, owner);
    else if (was_first && line->head)
        lock_waiter_wake(line->head); /* it is first now: to see whether its turn has come */
    drop(find(lines, key));
    lock_waiter_destroy(&waiter);
unlock:
    pthread_mutex_unlock(&lines->mutex);
    return status;
}

void lock_lines_hold(struct lock_lines *lines, const char *key, const char *owner, int64_t deadline_ns) {
    pthread_mutex_lock(&lines->mutex);
    struct line *line = *find(lines, key);
    if (line && strcmp(line->owner, owner) == 0) {
        line->deadline_ns = deadline_ns;
        if (line->head)
            lock_waiter_wake(line->head); /* to wait no longer than that */
    }
    pthread_mutex_unlock(&lines->mutex);
}

bool lock_lines_leave(struct lock_lines *lines, const char *key, const char *owner) {
    pthread_mutex_lock(&lines->mutex);
    struct line **at = find(lines, key);
    bool had = *at && strcmp((*at)->owner, owner) == 0;
    if (had) {
        (*at)->owner[0] = '\0';
        if ((*at)->head)
            lock_waiter_wake((*at)->head);
        drop(at);
    }
    pthread_mutex_unlock(&lines->mutex);
    return had;
}
