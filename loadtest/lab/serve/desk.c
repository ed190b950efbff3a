#include "loadtest/lab/serve/desk.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"

enum { BREAK_MS = 10000, NAME_SIZE = 200 };

/* A break goes from one thread of the server to the main thread and back. Others wait for their turn. */
enum turn { TURN_FREE, TURN_ASKED, TURN_TAKEN, TURN_ANSWERED };

struct desk {
    char directory[NAME_SIZE], session[16];
    pthread_mutex_t mutex; /* of all that follows */
    pthread_cond_t changed;
    struct desk_run runs[DESK_RUNS]; /* run i is in place i % DESK_RUNS */
    unsigned count;                  /* of runs since the start; the newest is the last */
    bool ordered;                    /* the newest was not taken yet */
    bool stopping;
    enum turn turn;
    struct desk_break asked;
    bool abandoned; /* it was taken, and nobody waits for its answer any more */
    bool refused;
    char why[DESK_WHY_SIZE];
};

const char *const desk_fault_names[DESK_FAULTS] = {
    [DESK_PAUSE] = "pause",
    [DESK_RESUME] = "resume",
    [DESK_KILL] = "kill",
    [DESK_REVIVE] = "revive",
    [DESK_CUT] = "cut",
    [DESK_HEAL] = "heal",
    [DESK_KILL_MASTER] = "kill-master",
    [DESK_JUMP] = "jump",
};

struct desk *desk_open(const char *directory, const char *session) {
    struct desk *desk = calloc(1, sizeof *desk);
    pthread_condattr_t attributes;
    if (desk == NULL)
        return NULL;
    snprintf(desk->directory, sizeof desk->directory, "%s", directory);
    snprintf(desk->session, sizeof desk->session, "%s", session);
    pthread_mutex_init(&desk->mutex, NULL);
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&desk->changed, &attributes);
    pthread_condattr_destroy(&attributes);
    return desk;
}

void desk_close(struct desk *desk) {
    if (desk == NULL)
        return;
    pthread_cond_destroy(&desk->changed);
    pthread_mutex_destroy(&desk->mutex);
    free(desk);
}

/* ---- runs; under the mutex ---- */

/* NULL: there is none yet. */
static struct desk_run *newest(struct desk *desk) {
    return desk->count > 0 ? &desk->runs[(desk->count - 1) % DESK_RUNS] : NULL;
}

static struct desk_run *find(struct desk *desk, const char *id) {
    for (int i = 0; i < DESK_RUNS; i++) {
        if (desk->runs[i].id[0] != '\0' && strcmp(desk->runs[i].id, id) == 0)
            return &desk->runs[i];
    }
    return NULL;
}

/* DESK_OK: it is the newest, and goes on. */
static enum desk_status find_going(struct desk *desk, const char *id) {
    const struct desk_run *run = find(desk, id);
    return run == NULL ? DESK_UNKNOWN : run->ended ? DESK_ENDED : DESK_OK;
}

static struct desk_run *add(struct desk *desk, const struct desk_order *order) {
    struct desk_run run = {.order = *order};
    desk->count++;
    snprintf(run.id, sizeof run.id, "%s-%u", desk->session, desk->count);
    snprintf(run.events, sizeof run.events, "%s/%s-%u.jsonl", desk->directory, desk->session, desk->count);
    snprintf(run.logs, sizeof run.logs, "%s/%s-%u.logs", desk->directory, desk->session, desk->count);
    struct desk_run *place = newest(desk);
    if (place->id[0] != '\0')
        unlink(place->events);
    *place = run;
    return place;
}

/* ---- waiting; under the mutex ---- */

static void wake_all(struct desk *desk) {
    pthread_cond_broadcast(&desk->changed);
}

/* False: the time is up. */
static bool wait_until(struct desk *desk, int64_t deadline_ns) {
    const struct timespec until = {.tv_sec = deadline_ns / 1000000000, .tv_nsec = deadline_ns % 1000000000};
    return pthread_cond_timedwait(&desk->changed, &desk->mutex, &until) == 0;
}

static int64_t in_ms(int64_t ms) {
    return clock_now_ns() + ms * 1000000;
}

/* ---- the threads of the server ---- */

enum desk_status desk_begin(struct desk *desk, const struct desk_order *order, struct desk_run *run) {
    pthread_mutex_lock(&desk->mutex);
    const struct desk_run *last = newest(desk);
    bool busy = last != NULL && !last->ended;
    if (!busy) {
        last = add(desk, order);
        desk->ordered = true;
        desk->stopping = false;
        wake_all(desk);
    }
    *run = *last;
    pthread_mutex_unlock(&desk->mutex);
    return busy ? DESK_BUSY : DESK_OK;
}

bool desk_find(struct desk *desk, const char *id, struct desk_run *run) {
    pthread_mutex_lock(&desk->mutex);
    const struct desk_run *found = id != NULL ? find(desk, id) : newest(desk);
    if (found != NULL)
        *run = *found;
    pthread_mutex_unlock(&desk->mutex);
    return found != NULL;
}

/* Waits until the turn is `turn`; DESK_OK, or why it never will be. */
static enum desk_status await_turn(struct desk *desk, const char *id, enum turn turn, int64_t deadline_ns) {
    enum desk_status status = DESK_OK;
    bool in_time = true;
    while ((status = find_going(desk, id)) == DESK_OK && desk->turn != turn && in_time)
        in_time = wait_until(desk, deadline_ns);
    return status == DESK_OK && desk->turn != turn ? DESK_TIMED_OUT : status;
}

enum desk_status desk_break(struct desk *desk, const char *id, const struct desk_break *what,
                            char why[DESK_WHY_SIZE]) {
    int64_t deadline_ns = in_ms(BREAK_MS);
    pthread_mutex_lock(&desk->mutex);
    enum desk_status status = await_turn(desk, id, TURN_FREE, deadline_ns);
    if (status == DESK_OK) {
        desk->asked = *what;
        desk->turn = TURN_ASKED;
        wake_all(desk);
        status = await_turn(desk, id, TURN_ANSWERED, deadline_ns);
        if (status == DESK_OK && desk->refused) {
            status = DESK_REFUSED;
            memcpy(why, desk->why, DESK_WHY_SIZE);
        }
        desk->abandoned = desk->turn == TURN_TAKEN;
        if (!desk->abandoned)
            desk->turn = TURN_FREE;
        wake_all(desk);
    }
    pthread_mutex_unlock(&desk->mutex);
    return status;
}

enum desk_status desk_stop(struct desk *desk, const char *id) {
    pthread_mutex_lock(&desk->mutex);
    enum desk_status status = find_going(desk, id);
    desk->stopping = desk->stopping || status == DESK_OK;
    wake_all(desk);
    pthread_mutex_unlock(&desk->mutex);
    return status;
}

/* ---- the main thread ---- */

void desk_take(struct desk *desk, struct desk_run *run) {
    pthread_mutex_lock(&desk->mutex);
    while (!desk->ordered)
        pthread_cond_wait(&desk->changed, &desk->mutex);
    desk->ordered = false;
    *run = *newest(desk);
    pthread_mutex_unlock(&desk->mutex);
}

void desk_end(struct desk *desk) {
    pthread_mutex_lock(&desk->mutex);
    newest(desk)->ended = true;
    desk->turn = TURN_FREE;
    desk->abandoned = false;
    wake_all(desk);
    pthread_mutex_unlock(&desk->mutex);
}

bool desk_stopping(struct desk *desk) {
    pthread_mutex_lock(&desk->mutex);
    bool stopping = desk->stopping;
    pthread_mutex_unlock(&desk->mutex);
    return stopping;
}

bool desk_next_break(struct desk *desk, int64_t wait_ms, struct desk_break *what) {
    int64_t deadline_ns = in_ms(wait_ms);
    pthread_mutex_lock(&desk->mutex);
    while (desk->turn != TURN_ASKED && !desk->stopping && wait_until(desk, deadline_ns)) {
    }
    bool asked = desk->turn == TURN_ASKED;
    if (asked) {
        *what = desk->asked;
        desk->turn = TURN_TAKEN;
    }
    pthread_mutex_unlock(&desk->mutex);
    return asked;
}

void desk_answer(struct desk *desk, const char *why) {
    pthread_mutex_lock(&desk->mutex);
    desk->refused = why != NULL;
    snprintf(desk->why, sizeof desk->why, "%s", why != NULL ? why : "");
    desk->turn = desk->abandoned ? TURN_FREE : TURN_ANSWERED;
    desk->abandoned = false;
    wake_all(desk);
    pthread_mutex_unlock(&desk->mutex);
}
