/* Run control: one run at a time, and what the server threads and the main thread hand to each other. */
#include "loadtest/lab/serve/run_control.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "test/harness.h"

static const struct run_order order = {.kind = RUN_LOCK, .seed = 7};
static const struct run_injection pause_a = {.fault = RUN_FAULT_PAUSE, .target = "client-a"};

static struct run_control *control; /* of the running test */
static struct lab_run run;

static void close_control(void *unused) {
    (void)unused;
    run_control_close(control);
}

static void open_control(void) {
    control = run_control_open(harness_dir(), "cafe");
    CHECK(control);
    harness_defer(close_control, NULL);
}

static void one_at_a_time(void) {
    open_control();
    CHECK(!run_control_find(control, NULL, &run));
    CHECK_INT(run_control_begin(control, &order, &run), RUN_OK);
    CHECK_STR(run.id, "cafe-1");
    CHECK_INT(run_control_begin(control, &order, &run), RUN_BUSY);
    CHECK_STR(run.id, "cafe-1");
    run_control_take(control, &run);
    CHECK_STR(run.id, "cafe-1");
    CHECK_INT(run.order.seed, 7);
    CHECK_INT(run_control_begin(control, &order, &run), RUN_BUSY);
    run_control_end(control);
    CHECK(run_control_find(control, "cafe-1", &run) && run.ended);
    CHECK_INT(run_control_begin(control, &order, &run), RUN_OK);
    CHECK_STR(run.id, "cafe-2");
    CHECK(run_control_find(control, NULL, &run) && strcmp(run.id, "cafe-2") == 0 && !run.ended);
}

/* The oldest makes room, with its events. */
static void runs_are_bounded(void) {
    struct lab_run first;
    open_control();
    CHECK_INT(run_control_begin(control, &order, &first), RUN_OK);
    FILE *events = fopen(first.events, "we");
    CHECK(events && fclose(events) == 0);
    for (int i = 0; i < RUNS_KEPT; i++) {
        run_control_take(control, &run);
        run_control_end(control);
        CHECK(run_control_find(control, first.id, &run) && access(first.events, F_OK) == 0);
        CHECK_INT(run_control_begin(control, &order, &run), RUN_OK);
    }
    CHECK(!run_control_find(control, first.id, &run));
    CHECK(access(first.events, F_OK) != 0);
    CHECK(!run_control_find(control, "cafe-", &run) && !run_control_find(control, "", &run));
}

static void stops(void) {
    struct run_injection what;
    open_control();
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
}

/* ---- breaking ---- */

/* The main thread: plays, and refuses each second fault. */
static pthread_t player;
static int taken;
static int stops_after; /* so many were taken, and then the run ends without an answer; 0: never */

static void *play(void *unused) {
    struct run_injection what;
    while (!run_control_stopping(control)) {
        if (!run_control_next_injection(control, 10, &what))
            continue;
        if (what.fault != RUN_FAULT_PAUSE || strcmp(what.target, "client-a") != 0)
            FAIL("what was asked for is not what came");
        if (++taken == stops_after)
            break;
        run_control_answer(control, taken % 2 == 0 ? "every second one" : NULL);
    }
    run_control_end(control);
    return unused;
}

static void start_player(int stop_after) {
    stops_after = stop_after;
    taken = 0;
    CHECK_INT(run_control_begin(control, &order, &run), RUN_OK);
    run_control_take(control, &run);
    CHECK_INT(pthread_create(&player, NULL, play, NULL), 0);
}

static void stop_player(void) {
    run_control_stop(control, run.id);
    pthread_join(player, NULL);
}

static void breaks_are_answered(void) {
    char why[RUN_WHY_SIZE] = "";
    open_control();
    CHECK_INT(run_control_inject(control, "cafe-1", &pause_a, why), RUN_UNKNOWN);
    start_player(0);
    CHECK_INT(run_control_inject(control, "cafe-1", &pause_a, why), RUN_OK);
    CHECK_STR(why, "");
    CHECK_INT(run_control_inject(control, "cafe-1", &pause_a, why), RUN_REFUSED);
    CHECK_STR(why, "every second one");
    stop_player();
    CHECK_INT(run_control_inject(control, "cafe-1", &pause_a, why), RUN_ENDED);
    /* Who waits for an answer hears of the end, and the next run is not held up by it. */
    start_player(1);
    CHECK_INT(run_control_inject(control, "cafe-2", &pause_a, why), RUN_ENDED);
    pthread_join(player, NULL);
    start_player(0);
    CHECK_INT(run_control_inject(control, "cafe-3", &pause_a, why), RUN_OK);
    stop_player();
}

enum { ASKERS = 8, ASKED = 50 };

static void *ask(void *unused) {
    char why[RUN_WHY_SIZE];
    size_t refused = 0;
    (void)unused;
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
    pthread_t askers[ASKERS];
    size_t refused = 0;
    open_control();
    start_player(0);
    for (int i = 0; i < ASKERS; i++)
        CHECK_INT(pthread_create(&askers[i], NULL, ask, NULL), 0);
    for (int i = 0; i < ASKERS; i++) {
        void *one;
        pthread_join(askers[i], &one);
        refused += (size_t)one;
    }
    stop_player();
    CHECK_INT(taken, ASKERS * ASKED);
    CHECK_INT(refused, ASKERS * ASKED / 2);
}

int main(int argc, char **argv) {
    harness_begin(argc, argv);
    harness_run("one run at a time", one_at_a_time);
    harness_run("runs are bounded", runs_are_bounded);
    harness_run("stopping", stops);
    harness_run("a fault is answered, or the run ends", breaks_are_answered);
    harness_run("many ask for faults", many_askers);
    return harness_finish();
}
