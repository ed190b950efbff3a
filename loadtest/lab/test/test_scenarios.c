/* All scenarios, with real servers: the fault shows when broken, and the fix holds. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "loadtest/lab/play.h"
#include "test/harness.h"

static const struct scenario *current;

/* ---- texts ---- */

static int count_lines(const char *text) {
    int count = 1;
    for (; *text != '\0'; text++)
        count += *text == '\n';
    return count;
}

static void check_lines(const char *name, const int lines[REPORT_LINES], const char *code) {
    CHECK_INT(lines[REPORT_LINES - 1], 0);
    if (lines[0] < 1)
        FAIL("%s: no line is marked", name);
    for (int i = 0; lines[i] != 0; i++) {
        if (lines[i] > count_lines(code) || (i > 0 && lines[i] <= lines[i - 1]))
            FAIL("%s: there is no line %d, or it comes too late", name, lines[i]);
    }
}

/* Each asks first, and shows where it goes wrong. */
static void texts(void) {
    for (int i = 0; scenarios[i] != NULL; i++) {
        const struct report_text *text = &scenarios[i]->text;
        for (int k = 0; k < REPORT_ANSWERS; k++) {
            if (text->answers[k] == NULL || (k > 0 && strcmp(text->answers[k], text->answers[k - 1]) == 0))
                FAIL("%s: answer %d is missing, or the one before", scenarios[i]->name, k);
        }
        CHECK(text->right >= 0 && text->right < REPORT_ANSWERS);
        check_lines(scenarios[i]->name, text->broken_lines, text->broken_code);
        check_lines(scenarios[i]->name, text->fixed_lines, text->fixed_code);
    }
}

/* ---- plays ---- */

/* Plays it, and leaves the events in harness_dir()/NAME-PLAY.jsonl. */
static const char *play(const struct scenario *scenario, bool broken, bool fixed_way,
                        struct judged_play *played) {
    char error[300] = "";
    const char *events =
        harness_format("%s/%s-%s.jsonl", harness_dir(), scenario->name, broken ? "broken" : "fixed");
    const struct play_plan plan = {.scenario = scenario,
                                   .broken = broken,
                                   .fixed_way = fixed_way,
                                   .seed = (int64_t)(harness_seed() % 1000000),
                                   .work = harness_dir(),
                                   .programs = harness_build(),
                                   .logs = harness_dir(),
                                   .events = events};
    if (!play_run(&plan, played, error, sizeof error))
        FAIL("%s", error);
    return events;
}

/* It counts by itself what the verdict says. */
static void recount(const char *events) {
    struct proc script;
    int status;
    const char *argv[] = {"python3", "loadtest/lab/test/recount.py", events, NULL};
    proc_spawn(&script, argv, NULL, harness_format("%s.recount", events));
    CHECK(proc_wait(&script, 20000, &status));
    if (status != 0)
        FAIL("%s", proc_output(&script));
}

static void check_outcome(const struct judged_play *played, const char *outcome) {
    if (strcmp(played->verdict.outcome, outcome) != 0)
        FAIL("%s, %s: %s: %s", current->name, played->log.play.play, played->verdict.outcome,
             played->verdict.sentence);
}

static void teaches(void) {
    static const char *const outcomes[] = {"reproduced", "held"};
    for (int i = 0; i < 2; i++) {
        struct judged_play played;
        const char *events = play(current, i == 0, i == 1, &played);
        check_outcome(&played, outcomes[i]);
        CHECK(played.verdict.sentence[0] != '\0');
        judged_play_free(&played);
        recount(events);
    }
}

/* The right lock in the place of the wrong one: the fault does not happen, and that is said. */
static void without_the_fault(void) {
    static const char *const names[] = {"get-then-set", "crash-before-expire", "paused-holder",
                                        "two-processes"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        struct judged_play played;
        current = scenario_find(names[i]);
        play(current, true, true, &played);
        check_outcome(&played, "not-reproduced");
        judged_play_free(&played);
    }
}

static void reset_path(void *path) {
    setenv("PATH", path, 1);
}

static void without_a_server(void) {
    struct judged_play played;
    harness_defer(reset_path, harness_format("%s", getenv("PATH")));
    setenv("PATH", harness_dir(), 1);
    current = scenario_find("paused-holder");
    play(current, true, false, &played);
    check_outcome(&played, "setup-failed");
    CHECK_HAS(played.verdict.sentence, "cannot start redis-server");
    CHECK_INT(played.log.count, 0);
    judged_play_free(&played);
}

/* Another process of a play that dies at the start is told, with the end of its log. */
static void with_a_server_that_ends(void) {
    struct judged_play played;
    const char *directory = harness_format("%s/bin", harness_dir());
    const char *path = harness_format("%s/redis-server", directory);
    CHECK_INT(mkdir(directory, 0700), 0);
    FILE *script = fopen(path, "w");
    CHECK(script != NULL);
    fputs("#!/bin/sh\necho no room >&2\nexit 1\n", script);
    fclose(script);
    CHECK_INT(chmod(path, 0700), 0);
    harness_defer(reset_path, harness_format("%s", getenv("PATH")));
    setenv("PATH", harness_format("%s:%s", directory, getenv("PATH")), 1);
    current = scenario_find("two-processes");
    play(current, true, false, &played);
    check_outcome(&played, "setup-failed");
    CHECK_HAS(played.verdict.sentence, "no room");
    judged_play_free(&played);
}

int main(int argc, char **argv) {
    harness_begin(argc, argv);
    harness_limit(900);
    harness_run("texts", texts);
    for (int i = 0; scenarios[i] != NULL; i++) {
        current = scenarios[i];
        harness_run(current->name, teaches);
    }
    harness_run("without the fault", without_the_fault);
    harness_run("without a server", without_a_server);
    harness_run("with a server that ends", with_a_server_that_ends);
    return harness_finish();
}
