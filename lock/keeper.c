#include "lock/keeper.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

/* A holder that reports no progress for so many times to live is not renewed any more. */
enum { SILENT_TTLS = 3 };

/* Between the tries to take something back; longer each time, since it may be the store that will not. */
static const int64_t undo_pause_ns = 100000000, undo_pause_most_ns = 1600000000;

struct undo {
    struct undo *next;
    int64_t until_ns;
    char owner[LOCK_OWNER_SIZE];
    char key[LOCK_KEY_MAX + 1];
};

struct lock_keeper {
    struct lock_keeper_config config;
    pthread_t thread;
    pthread_mutex_t mutex;
    pthread_cond_t cond;
    bool stop, roused;
    struct undo *undos;
    int64_t pause_ns;    /* after the last of them has failed */
    _Atomic bool asleep; /* until it is roused */
};

static int64_t now_ns(const struct lock_keeper *keeper) {
    return lock_env_now_ns(keeper->config.env);
}

/* ---- what is held ---- */

static void lose(struct lock_keeper *keeper, const struct lock_due *due, bool gone) {
    if (lock_lines_lost(keeper->config.lines, due, gone))
        keeper->config.on_lost(keeper->config.layer, &due->grant);
}

/* A renewal that failed is tried again until so little is left; then the holder is told, while it still has
 * the time to stop. A backend's calls take an eighth of the time to live, two where they have to connect
 * first, so as a rule a try that begins before this ends before the deadline. */
static bool is_late(const struct lock_keeper *keeper, const struct lock_due *due) {
    return due->held.deadline_ns - now_ns(keeper) < keeper->config.ttl_ns / 3;
}

static void look_after(struct lock_keeper *keeper, const struct lock_due *due) {
    const struct lock_backend *backend = keeper->config.backend;
    if (due->forgotten) {
        lock_keeper_undo(keeper, due->grant.key, due->held.owner);
        return;
    }
    bool renews = backend->renews && due->silent_ns <= SILENT_TTLS * keeper->config.ttl_ns;
    struct lock_grant held = due->grant;
    memcpy(held.owner, due->held.owner, sizeof held.owner);
    enum lock_status status = LOCK_OK;
    if (due->held.deadline_ns <= now_ns(keeper))
        status = LOCK_NOT_OWNER; /* this process was paused, or too busy */
    else if (renews)
        status = backend->extend(keeper->config.store, &held);
    else if (backend->look)
        status = backend->look(keeper->config.store, &held);
    if (status == LOCK_NOT_OWNER) {
        lose(keeper, due, true);
    } else if (backend->renews && !(renews && status == LOCK_OK)) {
        lock_lines_look_at(keeper->config.lines, due, now_ns(keeper) + keeper->config.ttl_ns / 12);
        if (is_late(keeper, due))
            lose(keeper, due, false);
    } else if (renews && lock_lines_renewed(keeper->config.lines, due, held.deadline_ns)) {
        keeper->config.on_renewed(keeper->config.layer);
    }
}

/* ---- what is left ---- */

/* The store has heard of it, or it is too late to matter. */
static bool take_back(struct lock_keeper *keeper, const struct undo *undo) {
    enum lock_status status = keeper->config.backend->withdraw(keeper->config.store, undo->key, undo->owner);
    return status == LOCK_OK || status == LOCK_NOT_OWNER || now_ns(keeper) >= undo->until_ns;
}

static void append_undo(struct lock_keeper *keeper, struct undo *undo) {
    struct undo **at = &keeper->undos;
    while (*at)
        at = &(*at)->next;
    undo->next = NULL;
    *at = undo;
}

/* Called, and returns, with the mutex held. False: something is left. Stops at the first that fails, as what
 * is held must be looked after meanwhile, and begins with another the next time. */
static bool take_all_back(struct lock_keeper *keeper) {
    while (keeper->undos) {
        struct undo *undo = keeper->undos;
        keeper->undos = undo->next;
        pthread_mutex_unlock(&keeper->mutex);
        bool done = take_back(keeper, undo);
        pthread_mutex_lock(&keeper->mutex);
        if (!done) {
            append_undo(keeper, undo);
            return false;
        }
        free(undo);
    }
    return true;
}

/* ---- the thread ---- */

/* Called, and returns, with the mutex held. */
static void sleep_until(struct lock_keeper *keeper, int64_t until_ns) {
    int64_t machine_ns = lock_env_machine_ns(keeper->config.env, until_ns);
    struct timespec until = {.tv_sec = machine_ns / 1000000000, .tv_nsec = machine_ns % 1000000000};
    int over = 0;
    while (!keeper->roused && !keeper->stop && !over)
        over = pthread_cond_clockwait(&keeper->cond, &keeper->mutex, CLOCK_MONOTONIC, &until);
    keeper->roused = false;
}

static void *run(void *arg) {
    struct lock_keeper *keeper = arg;
    pthread_mutex_lock(&keeper->mutex);
    while (!keeper->stop) {
        struct lock_due due;
        struct lock_scan scan = {.next_ns = INT64_MAX};
        /* Before the lines are looked through: who holds from now on sees it, and rouses. */
        atomic_store(&keeper->asleep, true);
        pthread_mutex_unlock(&keeper->mutex);
        while (lock_lines_due(keeper->config.lines, &scan, &due))
            look_after(keeper, &due);
        int64_t next_ns = scan.next_ns;
        if (next_ns != INT64_MAX)
            atomic_store(&keeper->asleep, false); /* what is held from now on is due later than that */
        pthread_mutex_lock(&keeper->mutex);
        if (take_all_back(keeper)) {
            keeper->pause_ns = undo_pause_ns;
        } else {
            if (next_ns > now_ns(keeper) + keeper->pause_ns)
                next_ns = now_ns(keeper) + keeper->pause_ns;
            if (keeper->pause_ns < undo_pause_most_ns)
                keeper->pause_ns *= 2;
        }
        sleep_until(keeper, next_ns);
    }
    take_all_back(keeper);
    pthread_mutex_unlock(&keeper->mutex);
    return NULL;
}

struct lock_keeper *lock_keeper_open(const struct lock_keeper_config *config) {
    struct lock_keeper *keeper = calloc(1, sizeof *keeper);
    if (!keeper)
        return NULL;
    keeper->config = *config;
    keeper->pause_ns = undo_pause_ns;
    pthread_mutex_init(&keeper->mutex, NULL);
    pthread_cond_init(&keeper->cond, NULL);
    if (lock_env_start_thread(&keeper->thread, run, keeper))
        return keeper;
    pthread_cond_destroy(&keeper->cond);
    pthread_mutex_destroy(&keeper->mutex);
    free(keeper);
    return NULL;
}

void lock_keeper_stop(struct lock_keeper *keeper) {
    pthread_mutex_lock(&keeper->mutex);
    keeper->stop = true;
    pthread_cond_signal(&keeper->cond);
    pthread_mutex_unlock(&keeper->mutex);
    pthread_join(keeper->thread, NULL);
}

void lock_keeper_free(struct lock_keeper *keeper) {
    if (!keeper)
        return;
    while (keeper->undos) {
        struct undo *next = keeper->undos->next;
        free(keeper->undos);
        keeper->undos = next;
    }
    pthread_cond_destroy(&keeper->cond);
    pthread_mutex_destroy(&keeper->mutex);
    free(keeper);
}

static void rouse(struct lock_keeper *keeper) {
    keeper->roused = true;
    pthread_cond_signal(&keeper->cond);
}

void lock_keeper_rouse(struct lock_keeper *keeper) {
    if (!atomic_exchange(&keeper->asleep, false))
        return;
    pthread_mutex_lock(&keeper->mutex);
    rouse(keeper);
    pthread_mutex_unlock(&keeper->mutex);
}

void lock_keeper_undo(struct lock_keeper *keeper, const char *key, const char *owner) {
    struct undo *undo = calloc(1, sizeof *undo);
    if (!undo)
        return;
    memcpy(undo->key, key, strlen(key) + 1);
    memcpy(undo->owner, owner, strlen(owner) + 1);
    undo->until_ns = keeper->config.backend->lasts ? INT64_MAX : now_ns(keeper) + 2 * keeper->config.ttl_ns;
    pthread_mutex_lock(&keeper->mutex);
    append_undo(keeper, undo);
    rouse(keeper);
    pthread_mutex_unlock(&keeper->mutex);
}
