/* Run control: one run at a time, and what the server threads and the main thread hand to each other. */
#include "loadtest/lab/serve/run_control.h"
#include "test/harness.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const struct run_order order = {.kind = RUN_LOCK, .seed = 7};
static const struct run_injection pause_a = {.fault = RUN_FAULT_PAUSE, .target = "client-a"};

static struct run_control *open_control(void) {
    struct run_control *control = run_control_open(harness_dir(), "cafe");
    CHECK(control != NULL);
    return control;
}

static void one_at_a_time(void) {
    struct run_control *control = open_control();
    struct lab_run first, second, taken;
    CHECK(!run_control_find(control, NULL, &first));
    CHECK_INT(run_control_begin(control, &order, &first), RUN_OK);
    CHECK_STR(first.id, "cafe-1");
    CHECK_INT(run_control_begin(control, &order, &second), RUN_BUSY);
    CHECK_STR(second.id, "cafe-1");
    run_control_take(control, &taken);
    CHECK_STR(taken.id, "cafe-1");
    CHECK_INT(taken.order.seed, 7);
    CHECK_INT(run_control_begin(control, &order, &second), RUN_BUSY);
    run_control_end(control);
    CHECK(run_control_find(control, "cafe-1", &first) && first.ended);
    CHECK_INT(run_control_begin(control, &order, &second), RUN_OK);
    CHECK_STR(second.id, "cafe-2");
    CHECK(run_control_find(control, NULL, &first) && strcmp(first.id, "cafe-2") == 0 && !first.ended);
    run_control_close(control);
}

/* The oldest makes room, with its events. */
static void runs_are_bounded(void) {
    struct run_control *control = open_control();
    struct lab_run first, run;
    CHECK_INT(run_control_begin(control, &order, &first), RUN_OK);
    FILE *events = fopen(first.events, "we");
    CHECK(events != NULL && fclose(events) == 0);
    for (int i = 0; i < RUNS_KEPT; i++) {
        run_control_take(control, &run);
        run_control_end(control);
        CHECK(run_control_find(control, first.id, &run) && access(first.events, F_OK) == 0);
        CHECK_INT(run_control_begin(control, &order, &run), RUN_OK);
    }
    CHECK(!run_control_find(control, first.id, &run));
    CHECK(access(first.events, F_OK) != 0);
    CHECK(!run_control_find(control, "cafe-", &run) && !run_control_find(control, "", &run));
    run_control_close(control);
}

static void stops(void) {
    struct run_control *control = open_control();
    struct lab_run run;
    struct run_injection what;
    CHECK_INT(run_control_stop(control, "cafe-1"), RUN_UNKNOWN);
    run_control_begin(control, &order, &run);
    run_control_take(control, &run);
    CHECK(!run_control_stopping(control));
    CHECK_INT(run_control_stop(control, run.id), RUN_OK);
    CHECK(run_control_stopping(control));
    CHECK(!run_control_next_injection(control, 600000, &what)); /* it does not wait for one any more */
    run_control_end(control);
    CHECK_INT(run_control_stop(control, run.id), RUN_ENDED);
    run_control_begin(control, &order, &run);
    CHECK(!run_control_stopping(control)); /* the next one is not stopped */
    run_control_close(control);
}

/* ---- breaking ---- */

/* The main thread: plays, and refuses each second fault. */
struct player {
    struct run_control *control;
    pthread_t thread;
    int taken;
    int stops_after; /* so many were taken, and then the run ends without an answer; 0: never */
};

static void *play(void *arg) {
    struct player *p = arg;
    struct run_injection what;
    while (!run_control_stopping(p->control)) {
        if (!run_control_next_injection(p->control, 10, &what))
            continue;
        if (what.fault != RUN_FAULT_PAUSE || strcmp(what.target, "client-a") != 0)
            FAIL("what was asked for is not what came");
        if (++p->taken == p->stops_after)
            break;
        run_control_answer(p->control, p->taken % 2 == 0 ? "every second one" : NULL);
    }
    run_control_end(p->control);
    return NULL;
}

static void start_player(struct player *p) {
    struct lab_run run;
    CHECK_INT(run_control_begin(p->control, &order, &run), RUN_OK);
    run_control_take(p->control, &run);
    CHECK_INT(pthread_create(&p->thread, NULL, play, p), 0);
}

static void breaks_are_answered(void) {
    struct player p = {.control = open_control()};
    char why[RUN_WHY_SIZE] = "";
    CHECK_INT(run_control_inject(p.control, "cafe-1", &pause_a, why), RUN_UNKNOWN);
    start_player(&p);
    CHECK_INT(run_control_inject(p.control, "cafe-1", &pause_a, why), RUN_OK);
    CHECK_STR(why, "");
    CHECK_INT(run_control_inject(p.control, "cafe-1", &pause_a, why), RUN_REFUSED);
    CHECK_STR(why, "every second one");
    run_control_stop(p.control, "cafe-1");
    pthread_join(p.thread, NULL);
    CHECK_INT(run_control_inject(p.control, "cafe-1", &pause_a, why), RUN_ENDED);
    run_control_close(p.control);
}

enum { ASKERS = 8, ASKED = 50 };

static void *ask(void *arg) {
    struct run_control *control = arg;
    char why[RUN_WHY_SIZE];
    size_t refused = 0;
    for (int i = 0; i < ASKED; i++) {
        enum run_status status = run_control_inject(control, "cafe-1", &pause_a, why);
        if (status != RUN_OK && status != RUN_REFUSED)
            FAIL("a fault is answered by %d", (int)status);
        refused += status == RUN_REFUSED;
    }
    return (void *)refused;
}

/* Each gets its own answer. */
static void many_askers(void) {
    struct player p = {.control = open_control()};
    pthread_t askers[ASKERS];
    size_t refused = 0;
    start_player(&p);
    for (int i = 0; i < ASKERS; i++)
        CHECK_INT(pthread_create(&askers[i], NULL, ask, p.control), 0);
    for (int i = 0; i < ASKERS; i++) {
        void *one;
        pthread_join(askers[i], &one);
        refused += (size_t)one;
    }
    CHECK_INT(p.taken, ASKERS * ASKED);
    CHECK_INT(refused, ASKERS * ASKED / 2);
    run_control_stop(p.control, "cafe-1");
    pthread_join(p.thread, NULL);
    run_control_close(p.control);
}

/* Who waits for an answer hears of the end. */
static void run_ends_meanwhile(void) {
    struct player p = {.control = open_control(), .stops_after = 1};
    char why[RUN_WHY_SIZE];
    start_player(&p);
    CHECK_INT(run_control_inject(p.control, "cafe-1", &pause_a, why), RUN_ENDED);
    pthread_join(p.thread, NULL);
    p.stops_after = 0; /* and the next run is not held up by it */
    start_player(&p);
    CHECK_INT(run_control_inject(p.control, "cafe-2", &pause_a, why), RUN_REFUSED);
    run_control_stop(p.control, "cafe-2");
    pthread_join(p.thread, NULL);
    run_control_close(p.control);
}

int main(int argc, char **argv) {
    harness_begin(argc, argv);
    harness_run("one run at a time", one_at_a_time);
    harness_run("runs are bounded", runs_are_bounded);
    harness_run("stopping", stops);
    harness_run("a fault is answered", breaks_are_answered);
    harness_run("many ask for faults", many_askers);
    harness_run("a run ends before its answer", run_ends_meanwhile);
    return harness_finish();
}
