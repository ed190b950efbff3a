#include "loadtest/lab/serve/run_control.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/waiter.h"

enum { INJECT_MS = 10000, NAME_SIZE = 200 };

/* An injection goes from one thread of the server to the main thread, and its answer comes back. Other
 * threads wait for their turn. */
enum turn { TURN_FREE, TURN_ASKED, TURN_TAKEN, TURN_ANSWERED };

struct run_control {
    char directory[NAME_SIZE], session[16];
    pthread_mutex_t mutex; /* guards all that follows */
    pthread_cond_t changed;
    struct lab_run runs[RUNS_KEPT]; /* run i is in place i % RUNS_KEPT */
    unsigned count;                 /* of runs since the start; the newest is the last */
    bool begun;                     /* the main thread has not taken the newest run yet */
    bool stopping;
    enum turn turn;
    struct run_injection asked;
    bool abandoned; /* the injection was taken, and nobody waits for its answer any more */
    bool refused;
    char why[RUN_WHY_SIZE];
};

const char *const run_fault_names[RUN_FAULTS] = {
    [RUN_FAULT_PAUSE] = "pause",
    [RUN_FAULT_RESUME] = "resume",
    [RUN_FAULT_KILL] = "kill",
    [RUN_FAULT_REVIVE] = "revive",
    [RUN_FAULT_CUT] = "cut",
    [RUN_FAULT_HEAL] = "heal",
    [RUN_FAULT_KILL_MASTER] = "kill-master",
    [RUN_FAULT_JUMP] = "jump",
};

struct run_control *run_control_open(const char *directory, const char *session) {
    struct run_control *control = calloc(1, sizeof *control);
    if (!control)
        return NULL;
    snprintf(control->directory, sizeof control->directory, "%s", directory);
    snprintf(control->session, sizeof control->session, "%s", session);
    pthread_mutex_init(&control->mutex, NULL);
    pthread_cond_init(&control->changed, NULL);
    return control;
}

void run_control_close(struct run_control *control) {
    if (!control)
        return;
    pthread_cond_destroy(&control->changed);
    pthread_mutex_destroy(&control->mutex);
    free(control);
}

/* ---- runs; the caller holds the mutex ---- */

/* Returns NULL if there is none yet. */
static struct lab_run *newest_run(struct run_control *control) {
    return control->count > 0 ? &control->runs[(control->count - 1) % RUNS_KEPT] : NULL;
}

static struct lab_run *find_run(struct run_control *control, const char *id) {
    for (int i = 0; i < RUNS_KEPT; i++) {
        if (control->runs[i].id[0] != '\0' && strcmp(control->runs[i].id, id) == 0)
            return &control->runs[i];
    }
    return NULL;
}

/* Returns RUN_OK if the run is going on; then it is the newest. */
static enum run_status find_going(struct run_control *control, const char *id) {
    const struct lab_run *run = find_run(control, id);
    if (!run)
        return RUN_UNKNOWN;
    return run->ended ? RUN_ENDED : RUN_OK;
}

static struct lab_run *add_run(struct run_control *control, const struct run_order *order) {
    struct lab_run run = {.order = *order};
    control->count++;
    snprintf(run.id, sizeof run.id, "%s-%u", control->session, control->count);
    snprintf(run.events, sizeof run.events, "%s/%s-%u.jsonl", control->directory, control->session,
             control->count);
    snprintf(run.logs, sizeof run.logs, "%s/%s-%u.logs", control->directory, control->session,
             control->count);
    struct lab_run *place = newest_run(control);
    if (place->id[0] != '\0')
        unlink(place->events);
    *place = run;
    return place;
}

/* ---- the threads of the server ---- */

enum run_status run_control_begin(struct run_control *control, const struct run_order *order,
                                  struct lab_run *run) {
    pthread_mutex_lock(&control->mutex);
    const struct lab_run *last = newest_run(control);
    bool busy = last && !last->ended;
    if (!busy) {
        last = add_run(control, order);
        control->begun = true;
        control->stopping = false;
        pthread_cond_broadcast(&control->changed);
    }
    *run = *last;
    pthread_mutex_unlock(&control->mutex);
    return busy ? RUN_BUSY : RUN_OK;
}

bool run_control_find(struct run_control *control, const char *id, struct lab_run *run) {
    pthread_mutex_lock(&control->mutex);
    const struct lab_run *found = id ? find_run(control, id) : newest_run(control);
    if (found)
        *run = *found;
    pthread_mutex_unlock(&control->mutex);
    return found;
}

/* Waits until the turn is `turn`. Returns RUN_OK, or why it did not become that. */
static enum run_status await_turn(struct run_control *control, const char *id, enum turn turn,
                                  int64_t deadline_ns) {
    enum run_status status = RUN_OK;
    bool in_time = true;
    while ((status = find_going(control, id)) == RUN_OK && control->turn != turn && in_time)
        in_time = cond_wait_until(&control->changed, &control->mutex, deadline_ns);
    return status == RUN_OK && control->turn != turn ? RUN_TIMED_OUT : status;
}

enum run_status run_control_inject(struct run_control *control, const char *id,
                                   const struct run_injection *what, char why[RUN_WHY_SIZE]) {
    int64_t deadline_ns = stage_in_ms(INJECT_MS);
    pthread_mutex_lock(&control->mutex);
    enum run_status status = await_turn(control, id, TURN_FREE, deadline_ns);
    if (status == RUN_OK) {
        control->asked = *what;
        control->turn = TURN_ASKED;
        pthread_cond_broadcast(&control->changed);
        status = await_turn(control, id, TURN_ANSWERED, deadline_ns);
        if (status == RUN_OK && control->refused) {
            status = RUN_REFUSED;
            memcpy(why, control->why, RUN_WHY_SIZE);
        }
        control->abandoned = control->turn == TURN_TAKEN;
        if (!control->abandoned)
            control->turn = TURN_FREE;
        pthread_cond_broadcast(&control->changed);
    }
    pthread_mutex_unlock(&control->mutex);
    return status;
}

enum run_status run_control_stop(struct run_control *control, const char *id) {
    pthread_mutex_lock(&control->mutex);
    enum run_status status = find_going(control, id);
    control->stopping = control->stopping || status == RUN_OK;
    pthread_cond_broadcast(&control->changed);
    pthread_mutex_unlock(&control->mutex);
    return status;
}

/* ---- the main thread ---- */

void run_control_take(struct run_control *control, struct lab_run *run) {
    pthread_mutex_lock(&control->mutex);
    while (!control->begun)
        pthread_cond_wait(&control->changed, &control->mutex);
    control->begun = false;
    *run = *newest_run(control);
    pthread_mutex_unlock(&control->mutex);
}

void run_control_end(struct run_control *control) {
    pthread_mutex_lock(&control->mutex);
    newest_run(control)->ended = true;
    control->turn = TURN_FREE;
    control->abandoned = false;
    pthread_cond_broadcast(&control->changed);
    pthread_mutex_unlock(&control->mutex);
}

bool run_control_stopping(struct run_control *control) {
    pthread_mutex_lock(&control->mutex);
    bool stopping = control->stopping;
    pthread_mutex_unlock(&control->mutex);
    return stopping;
}

bool run_control_next_injection(struct run_control *control, int64_t wait_ms, struct run_injection *what) {
    int64_t deadline_ns = stage_in_ms(wait_ms);
    pthread_mutex_lock(&control->mutex);
    while (control->turn != TURN_ASKED && !control->stopping &&
           cond_wait_until(&control->changed, &control->mutex, deadline_ns)) {
    }
    bool asked = control->turn == TURN_ASKED;
    if (asked) {
        *what = control->asked;
        control->turn = TURN_TAKEN;
    }
    pthread_mutex_unlock(&control->mutex);
    return asked;
}

void run_control_answer(struct run_control *control, const char *why) {
    pthread_mutex_lock(&control->mutex);
    control->refused = why;
    snprintf(control->why, sizeof control->why, "%s", why ? why : "");
    control->turn = control->abandoned ? TURN_FREE : TURN_ANSWERED;
    control->abandoned = false;
    pthread_cond_broadcast(&control->changed);
    pthread_mutex_unlock(&control->mutex);
}
