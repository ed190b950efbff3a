#include "lock/core/local_queue.h"

#include <stdlib.h>
#include <string.h>

enum { BUCKETS = 1024, LOOKS = 3 /* at what is held, in each time to live */, EARLY = 16 * LOOKS };

/* One key. There is one as long as somebody has the turn or waits. */
struct line {
    struct line *chain;
    struct lock_waiter *head, *tail;
    struct lock_waiter *asker; /* who has the turn, while it waits for the store */
    struct lock_grant grant;   /* the turn's; owner "": nobody has it. Until the lock is had its deadline is
                                  INT64_MAX */
    struct lock_held held;     /* stays from one turn to the next */
    uint64_t thread;
    unsigned depth; /* how often it acquired again */
    bool lost;
    int64_t look_ns, progress_ns;
};

struct lock_lines {
    const struct lock_env *env;
    int64_t ttl_ns;
    bool renews, lasts;
    pthread_mutex_t mutex;
    uint64_t waiting;
    struct line *buckets[BUCKETS];
};

struct lock_lines *lock_lines_new(const struct lock_env *env, int64_t ttl_ns, bool renews, bool lasts) {
    struct lock_lines *lines = calloc(1, sizeof *lines);
    if (!lines)
        return NULL;
    lines->env = env;
    lines->ttl_ns = ttl_ns;
    lines->renews = renews;
    lines->lasts = lasts;
    pthread_mutex_init(&lines->mutex, NULL);
    return lines;
}

void lock_lines_free(struct lock_lines *lines) {
    if (!lines)
        return;
    for (int i = 0; i < BUCKETS; i++) {
        while (lines->buckets[i]) {
            struct line *next = lines->buckets[i]->chain;
            free(lines->buckets[i]->held.pending);
            free(lines->buckets[i]);
            lines->buckets[i] = next;
        }
    }
    pthread_mutex_destroy(&lines->mutex);
    free(lines);
}

/* ---- all below, up to the functions of line.h: with the mutex held ---- */

/* Unlike a pthread_t it is not given to another thread once this one has ended. */
static uint64_t this_thread(void) {
    static _Atomic uint64_t newest;
    static _Thread_local uint64_t number;
    if (number == 0)
        number = ++newest;
    return number;
}

static int64_t now_ns(const struct lock_lines *lines) {
    return lock_env_now_ns(lines->env);
}

static struct line **find(struct lock_lines *lines, const char *key) {
    uint32_t hash = 2166136261U; /* FNV-1a */
    for (const char *c = key; *c; c++)
        hash = (hash ^ (unsigned char)*c) * 16777619U;
    struct line **at = &lines->buckets[hash % BUCKETS];
    while (*at && strcmp((*at)->grant.key, key) != 0)
        at = &(*at)->chain;
    return at;
}

/* The line in which `owner` has the turn. */
static struct line *find_turn(struct lock_lines *lines, const char *key, const char *owner) {
    struct line *line = *find(lines, key);
    return line && strcmp(line->grant.owner, owner) == 0 ? line : NULL;
}

static bool is_over(const struct lock_lines *lines, const struct line *line) {
    return !line->grant.owner[0] || now_ns(lines) >= line->grant.deadline_ns;
}

static void wake_head(struct line *line) {
    if (line->head)
        lock_waiter_wake(line->head);
}

static void give_turn(struct line *line, const char *owner) {
    memcpy(line->grant.owner, owner, sizeof line->grant.owner);
    line->grant.deadline_ns = INT64_MAX;
    line->thread = this_thread();
    line->depth = 0;
    line->lost = false;
    line->asker = NULL;
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
    if (line->head || line->grant.owner[0])
        return;
    *at = line->chain;
    free(line->held.pending);
    free(line);
}

/* What is held goes to whoever has to give it back. */
static struct lock_held take_held(struct line *line) {
    struct lock_held held = line->held;
    line->held.pending = NULL;
    return held;
}

/* Until it is free, or held for longer than its grant was good for, and nobody came before `waiter`. Called,
 * and returns, with the mutex held. `line` stays as long as its waiter is in it. */
static enum lock_status wait_for_turn(struct lock_lines *lines, struct line *line, struct lock_waiter *waiter,
                                      int64_t deadline_ns, struct lock_cancel *cancel) {
    enum lock_status status = LOCK_OK;
    while (line->head != waiter || !is_over(lines, line)) {
        if (status == LOCK_CANCELLED || now_ns(lines) >= deadline_ns)
            return status == LOCK_CANCELLED ? status : LOCK_TIMEOUT;
        bool next = line->head == waiter && line->grant.deadline_ns < deadline_ns;
        int64_t until_ns = lock_env_machine_ns(lines->env, next ? line->grant.deadline_ns : deadline_ns);
        pthread_mutex_unlock(&lines->mutex);
        status = lock_waiter_wait(waiter, until_ns, cancel);
        pthread_mutex_lock(&lines->mutex);
    }
    return LOCK_OK;
}

enum lock_status lock_lines_enter(struct lock_lines *lines, const char *key, const char *owner,
                                  int64_t deadline_ns, struct lock_cancel *cancel, struct lock_held *held) {
    enum lock_status status = LOCK_NOMEM;
    pthread_mutex_lock(&lines->mutex);
    struct line **at = find(lines, key);
    struct line *line = *at ? *at : (*at = calloc(1, sizeof *line));
    if (!line)
        goto unlock;
    if (!line->grant.key[0])
        memcpy(line->grant.key, key, strlen(key) + 1);
    struct lock_waiter waiter;
    lock_waiter_init(&waiter);
    append(line, &waiter);
    lines->waiting++;
    status = wait_for_turn(lines, line, &waiter, deadline_ns, cancel);
    lines->waiting--;
    bool was_first = line->head == &waiter;
    take_out(line, &waiter);
    if (status == LOCK_OK) {
        give_turn(line, owner);
        *held = take_held(line);
    } else if (was_first) {
        wake_head(line); /* it is first now: to see whether its turn has come */
    }
    drop(find(lines, key));
    lock_waiter_destroy(&waiter);
unlock:
    pthread_mutex_unlock(&lines->mutex);
    return status;
}

uint64_t lock_lines_waiting(struct lock_lines *lines) {
    pthread_mutex_lock(&lines->mutex);
    uint64_t waiting = lines->waiting;
    pthread_mutex_unlock(&lines->mutex);
    return waiting;
}

void lock_lines_hold(struct lock_lines *lines, const struct lock_grant *grant, const struct lock_held *held) {
    pthread_mutex_lock(&lines->mutex);
    struct line *line = find_turn(lines, grant->key, grant->owner);
    if (line) {
        line->grant = *grant;
        line->held = *held;
        line->progress_ns = line->held.since_ns = now_ns(lines);
        line->look_ns = line->progress_ns + lines->ttl_ns / LOOKS;
        wake_head(line); /* to wait no longer than the deadline */
    }
    pthread_mutex_unlock(&lines->mutex);
}

enum lock_turn lock_lines_leave(struct lock_lines *lines, const char *key, const char *owner, bool pass,
                                struct lock_held *held) {
    enum lock_turn turn = LOCK_TURN_OVER;
    pthread_mutex_lock(&lines->mutex);
    struct line *line = find_turn(lines, key, owner);
    if (!line)
        goto unlock;
    *held = line->held;
    held->pending = NULL;
    if (line->depth > 0) {
        line->depth--;
        turn = LOCK_TURN_INNER;
    } else if (!line->head || !pass) {
        line->grant.deadline_ns = INT64_MAX; /* nobody comes in before lock_lines_end() */
        *held = take_held(line);
        turn = LOCK_TURN_LAST;
    } else if (!is_over(lines, line)) {
        line->grant.owner[0] = '\0';
        wake_head(line);
        turn = LOCK_TURN_PASSED;
    }
unlock:
    pthread_mutex_unlock(&lines->mutex);
    return turn;
}

void lock_lines_end(struct lock_lines *lines, const char *key, const char *owner) {
    pthread_mutex_lock(&lines->mutex);
    struct line *line = find_turn(lines, key, owner);
    if (line) {
        line->grant.owner[0] = '\0';
        line->held = (struct lock_held){.fences = 0};
        wake_head(line);
        drop(find(lines, key));
    }
    pthread_mutex_unlock(&lines->mutex);
}

bool lock_lines_reenter(struct lock_lines *lines, const char *key, struct lock_grant *grant) {
    pthread_mutex_lock(&lines->mutex);
    struct line *line = *find(lines, key);
    bool has = line && !line->lost && !is_over(lines, line) && line->grant.deadline_ns != INT64_MAX &&
               line->thread == this_thread();
    if (has) {
        line->depth++;
        line->progress_ns = now_ns(lines);
        *grant = line->grant;
    }
    pthread_mutex_unlock(&lines->mutex);
    return has;
}

/* ---- waiting for the store ---- */

void lock_lines_ask(struct lock_lines *lines, const char *key, const char *owner, struct lock_waiter *asker) {
    pthread_mutex_lock(&lines->mutex);
    struct line *line = find_turn(lines, key, owner);
    if (line)
        line->asker = asker;
    pthread_mutex_unlock(&lines->mutex);
}

bool lock_lines_wake(struct lock_lines *lines, const char *key, const char *owner) {
    pthread_mutex_lock(&lines->mutex);
    struct line *line = *find(lines, key);
    bool asks = line && strcmp(line->grant.owner, owner) == 0;
    if (asks && line->asker)
        lock_waiter_wake(line->asker);
    bool known = asks || (line && strcmp(line->held.owner, owner) == 0);
    pthread_mutex_unlock(&lines->mutex);
    return known;
}

void lock_lines_wake_all(struct lock_lines *lines) {
    pthread_mutex_lock(&lines->mutex);
    for (int i = 0; i < BUCKETS; i++) {
        for (struct line *line = lines->buckets[i]; line; line = line->chain) {
            if (line->asker)
                lock_waiter_wake(line->asker);
        }
    }
    pthread_mutex_unlock(&lines->mutex);
}

/* ---- what is held ---- */

int64_t lock_lines_deadline(struct lock_lines *lines, const struct lock_grant *grant) {
    pthread_mutex_lock(&lines->mutex);
    const struct line *line = find_turn(lines, grant->key, grant->owner);
    int64_t deadline_ns = line && !line->lost ? line->grant.deadline_ns : 0;
    pthread_mutex_unlock(&lines->mutex);
    return deadline_ns;
}

void lock_lines_progress(struct lock_lines *lines, const struct lock_grant *grant) {
    pthread_mutex_lock(&lines->mutex);
    struct line *line = find_turn(lines, grant->key, grant->owner);
    if (line)
        line->progress_ns = now_ns(lines);
    pthread_mutex_unlock(&lines->mutex);
}

/* Had from the store, and its holder has not heard otherwise. */
static bool is_had(const struct line *line) {
    return line->grant.owner[0] && line->held.owner[0] && line->grant.deadline_ns != INT64_MAX && !line->lost;
}

/* When to look at what is held. What lasts must be taken back once it has run out: others wait for it. */
static int64_t wake_at_ns(const struct lock_lines *lines, const struct line *line) {
    return lines->lasts && line->grant.deadline_ns < line->look_ns ? line->grant.deadline_ns : line->look_ns;
}

/* Looks through one bucket. */
static struct line **find_due(struct lock_lines *lines, struct line **at, int64_t *next_ns, bool *forgotten) {
    while (*at) {
        struct line *line = *at;
        bool over = is_over(lines, line);
        if (is_had(line) && (!over || lines->renews)) {
            if (over || line->look_ns - lines->ttl_ns / EARLY <= now_ns(lines))
                return at;
            if (wake_at_ns(lines, line) < *next_ns)
                *next_ns = wake_at_ns(lines, line);
        } else if (over && !line->head) {
            *forgotten = lines->lasts && line->held.owner[0];
            if (*forgotten)
                return at;
            line->grant.owner[0] = '\0';
            drop(at);
            continue;
        }
        at = &line->chain;
    }
    return NULL;
}

bool lock_lines_due(struct lock_lines *lines, struct lock_scan *scan, struct lock_due *due) {
    bool forgotten = false;
    struct line **at = NULL;
    pthread_mutex_lock(&lines->mutex);
    for (; scan->bucket < BUCKETS && !at; scan->bucket += at == NULL)
        at = find_due(lines, &lines->buckets[scan->bucket], &scan->next_ns, &forgotten);
    if (at) {
        struct line *line = *at;
        int64_t now = now_ns(lines);
        line->look_ns = now + lines->ttl_ns / LOOKS;
        *due = (struct lock_due){line->grant, line->held, now - line->progress_ns, forgotten};
        due->held.pending = NULL;
        if (forgotten) {
            due->held = take_held(line);
            line->grant.owner[0] = '\0';
            drop(at);
        }
    }
    pthread_mutex_unlock(&lines->mutex);
    return at != NULL;
}

static struct line *find_had(struct lock_lines *lines, const struct lock_due *due) {
    struct line *line = find_turn(lines, due->grant.key, due->grant.owner);
    return line && is_had(line) ? line : NULL;
}

static struct line *find_held(struct lock_lines *lines, const struct lock_due *due) {
    struct line *line = find_had(lines, due);
    return line && !is_over(lines, line) ? line : NULL;
}

bool lock_lines_find(struct lock_lines *lines, struct lock_due *due) {
    pthread_mutex_lock(&lines->mutex);
    const struct line *line = find_held(lines, due);
    if (line)
        due->held = line->held;
    pthread_mutex_unlock(&lines->mutex);
    return line != NULL;
}

void lock_lines_look_at(struct lock_lines *lines, const struct lock_due *due, int64_t look_ns) {
    pthread_mutex_lock(&lines->mutex);
    struct line *line = find_held(lines, due);
    if (line)
        line->look_ns = look_ns;
    pthread_mutex_unlock(&lines->mutex);
}

bool lock_lines_renewed(struct lock_lines *lines, const struct lock_due *due, int64_t deadline_ns) {
    pthread_mutex_lock(&lines->mutex);
    struct line *line = find_held(lines, due);
    if (line)
        line->grant.deadline_ns = line->held.deadline_ns = deadline_ns;
    pthread_mutex_unlock(&lines->mutex);
    return line != NULL;
}

bool lock_lines_lost(struct lock_lines *lines, const struct lock_due *due, bool gone) {
    pthread_mutex_lock(&lines->mutex);
    struct line *line = find_had(lines, due), *any = *find(lines, due->grant.key);
    if (any && strcmp(any->held.owner, due->held.owner) == 0)
        any->held.fences = 0; /* whoever has the turn meanwhile, nobody gets one on it any more */
    if (line) {
        line->lost = true;
        if (gone && !is_over(lines, line))
            line->grant.deadline_ns = now_ns(lines);
        wake_head(line);
    }
    pthread_mutex_unlock(&lines->mutex);
    return line != NULL;
}
