/* The desk: one run at a time, and what the threads of the server and the main thread hand to each other. */
#include "loadtest/lab/serve/desk.h"
#include "test/harness.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const struct desk_order order = {.kind = DESK_LOCK, .seed = 7};
static const struct desk_break pause_a = {.fault = DESK_PAUSE, .target = "client-a"};

static struct desk *open_desk(void) {
    struct desk *desk = desk_open(harness_dir(), "cafe");
    CHECK(desk != NULL);
    return desk;
}

static void one_at_a_time(void) {
    struct desk *desk = open_desk();
    struct desk_run first, second, taken;
    CHECK(!desk_find(desk, NULL, &first));
    CHECK_INT(desk_begin(desk, &order, &first), DESK_OK);
    CHECK_STR(first.id, "cafe-1");
    CHECK_INT(desk_begin(desk, &order, &second), DESK_BUSY);
    CHECK_STR(second.id, "cafe-1");
    desk_take(desk, &taken);
    CHECK_STR(taken.id, "cafe-1");
    CHECK_INT(taken.order.seed, 7);
    CHECK_INT(desk_begin(desk, &order, &second), DESK_BUSY);
    desk_end(desk);
    CHECK(desk_find(desk, "cafe-1", &first) && first.ended);
    CHECK_INT(desk_begin(desk, &order, &second), DESK_OK);
    CHECK_STR(second.id, "cafe-2");
    CHECK(desk_find(desk, NULL, &first) && strcmp(first.id, "cafe-2") == 0 && !first.ended);
    desk_close(desk);
}

/* The oldest makes room, with its events. */
static void runs_are_bounded(void) {
    struct desk *desk = open_desk();
    struct desk_run first, run;
    CHECK_INT(desk_begin(desk, &order, &first), DESK_OK);
    FILE *events = fopen(first.events, "we");
    CHECK(events != NULL && fclose(events) == 0);
    for (int i = 0; i < DESK_RUNS; i++) {
        desk_take(desk, &run);
        desk_end(desk);
        CHECK(desk_find(desk, first.id, &run) && access(first.events, F_OK) == 0);
        CHECK_INT(desk_begin(desk, &order, &run), DESK_OK);
    }
    CHECK(!desk_find(desk, first.id, &run));
    CHECK(access(first.events, F_OK) != 0);
    CHECK(!desk_find(desk, "cafe-", &run) && !desk_find(desk, "", &run));
    desk_close(desk);
}

static void stops(void) {
    struct desk *desk = open_desk();
    struct desk_run run;
    struct desk_break what;
    CHECK_INT(desk_stop(desk, "cafe-1"), DESK_UNKNOWN);
    desk_begin(desk, &order, &run);
    desk_take(desk, &run);
    CHECK(!desk_stopping(desk));
    CHECK_INT(desk_stop(desk, run.id), DESK_OK);
    CHECK(desk_stopping(desk));
    CHECK(!desk_next_break(desk, 600000, &what)); /* it does not wait for one any more */
    desk_end(desk);
    CHECK_INT(desk_stop(desk, run.id), DESK_ENDED);
    desk_begin(desk, &order, &run);
    CHECK(!desk_stopping(desk)); /* the next one is not stopped */
    desk_close(desk);
}

/* ---- breaking ---- */

/* The main thread: plays, and refuses each second fault. */
struct player {
    struct desk *desk;
    pthread_t thread;
    int taken;
    int stops_after; /* so many were taken, and then the run ends without an answer; 0: never */
};

static void *play(void *arg) {
    struct player *p = arg;
    struct desk_break what;
    while (!desk_stopping(p->desk)) {
        if (!desk_next_break(p->desk, 10, &what))
            continue;
        if (what.fault != DESK_PAUSE || strcmp(what.target, "client-a") != 0)
            FAIL("what was asked for is not what came");
        if (++p->taken == p->stops_after)
            break;
        desk_answer(p->desk, p->taken % 2 == 0 ? "every second one" : NULL);
    }
    desk_end(p->desk);
    return NULL;
}

static void start_player(struct player *p) {
    struct desk_run run;
    CHECK_INT(desk_begin(p->desk, &order, &run), DESK_OK);
    desk_take(p->desk, &run);
    CHECK_INT(pthread_create(&p->thread, NULL, play, p), 0);
}

static void breaks_are_answered(void) {
    struct player p = {.desk = open_desk()};
    char why[DESK_WHY_SIZE] = "";
    CHECK_INT(desk_break(p.desk, "cafe-1", &pause_a, why), DESK_UNKNOWN);
    start_player(&p);
    CHECK_INT(desk_break(p.desk, "cafe-1", &pause_a, why), DESK_OK);
    CHECK_STR(why, "");
    CHECK_INT(desk_break(p.desk, "cafe-1", &pause_a, why), DESK_REFUSED);
    CHECK_STR(why, "every second one");
    desk_stop(p.desk, "cafe-1");
    pthread_join(p.thread, NULL);
    CHECK_INT(desk_break(p.desk, "cafe-1", &pause_a, why), DESK_ENDED);
    desk_close(p.desk);
}

enum { ASKERS = 8, ASKED = 50 };

static void *ask(void *arg) {
    struct desk *desk = arg;
    char why[DESK_WHY_SIZE];
    size_t refused = 0;
    for (int i = 0; i < ASKED; i++) {
        enum desk_status status = desk_break(desk, "cafe-1", &pause_a, why);
        if (status != DESK_OK && status != DESK_REFUSED)
            FAIL("a fault is answered by %d", (int)status);
        refused += status == DESK_REFUSED;
    }
    return (void *)refused;
}

/* Each gets its own answer. */
static void many_askers(void) {
    struct player p = {.desk = open_desk()};
    pthread_t askers[ASKERS];
    size_t refused = 0;
    start_player(&p);
    for (int i = 0; i < ASKERS; i++)
        CHECK_INT(pthread_create(&askers[i], NULL, ask, p.desk), 0);
    for (int i = 0; i < ASKERS; i++) {
        void *one;
        pthread_join(askers[i], &one);
        refused += (size_t)one;
    }
    CHECK_INT(p.taken, ASKERS * ASKED);
    CHECK_INT(refused, ASKERS * ASKED / 2);
    desk_stop(p.desk, "cafe-1");
    pthread_join(p.thread, NULL);
    desk_close(p.desk);
}

/* Who waits for an answer hears of the end. */
static void run_ends_meanwhile(void) {
    struct player p = {.desk = open_desk(), .stops_after = 1};
    char why[DESK_WHY_SIZE];
    start_player(&p);
    CHECK_INT(desk_break(p.desk, "cafe-1", &pause_a, why), DESK_ENDED);
    pthread_join(p.thread, NULL);
    p.stops_after = 0; /* and the next run is not held up by it */
    start_player(&p);
    CHECK_INT(desk_break(p.desk, "cafe-2", &pause_a, why), DESK_REFUSED);
    desk_stop(p.desk, "cafe-2");
    pthread_join(p.thread, NULL);
    desk_close(p.desk);
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
