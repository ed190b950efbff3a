/* All scenarios, with real servers, as users run them: the fault shows when broken, and the fix holds. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "loadtest/lab/scenarios/scenarios.h"
#include "test/harness.h"

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
    for (int i = 0; scenarios[i]; i++) {
        const struct report_text *text = &scenarios[i]->text;
        for (int k = 0; k < REPORT_ANSWERS; k++) {
            if (!text->answers[k] || (k > 0 && strcmp(text->answers[k], text->answers[k - 1]) == 0))
                FAIL("%s: answer %d is missing, or the one before", scenarios[i]->name, k);
        }
        CHECK(text->right >= 0 && text->right < REPORT_ANSWERS);
        check_lines(scenarios[i]->name, text->broken_lines, text->broken_code);
        check_lines(scenarios[i]->name, text->fixed_lines, text->fixed_code);
    }
}

/* ---- lessons ---- */

/* So many are played at once, since plays mostly wait. */
enum { AT_ONCE = 3, LESSONS_MAX = 50, LESSON_MS = 120000 };

static struct proc lessons[LESSONS_MAX];
static int lesson_count; /* of those that main() has begun */
static int current;      /* index of the lesson */

/* Its files are in harness_dir()/out/NAME. */
static void begin_lesson(int i) {
    const char *name = scenarios[i]->name;
    const char *argv[] = {harness_format("%s/seckill-lab", harness_build()),
                          "run",
                          name,
                          "--out",
                          harness_format("%s/out", harness_dir()),
                          "--seed",
                          harness_format("%d", (int)(harness_seed() % 1000000)),
                          NULL};
    CHECK(i < LESSONS_MAX);
    proc_spawn(&lessons[i], argv, NULL, harness_format("%s/%s.log", harness_dir(), name));
}

/* Begins the next ones as others end. */
static bool has_ended(void *index) {
    int running = 0;
    for (int i = 0; i < lesson_count; i++)
        running += proc_running(&lessons[i]);
    for (; running < AT_ONCE && scenarios[lesson_count]; running++)
        begin_lesson(lesson_count++);
    return !proc_running(&lessons[*(int *)index]);
}

/* Another program counts by itself what the verdicts say. */
static void recount(const char *directory) {
    struct proc script;
    int status;
    const char *argv[] = {"python3",
                          "-IS",
                          "loadtest/lab/test/recount.py",
                          harness_format("%s/events.broken.jsonl", directory),
                          harness_format("%s/events.fixed.jsonl", directory),
                          NULL};
    proc_spawn(&script, argv, NULL, harness_format("%s/recount", directory));
    CHECK(proc_wait(&script, 20000, &status));
    if (status != 0)
        FAIL("%s", proc_output(&script));
}

/* The exit status. */
static int end_lesson(void) {
    int status;
    CHECK(proc_wait(&lessons[current], LESSON_MS, &status));
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* A machine that stalls may miss the moment at which the fault shows: then the lesson is played once more, by
 * itself. That the fix does not hold is never forgiven. */
static void teaches(void) {
    const char *name = scenarios[current]->name;
    if (lesson_count == 0) /* only some are wanted */
        begin_lesson(current);
    int status = end_lesson();
    if (status == 1 && strstr(proc_output(&lessons[current]),
                              harness_format("%-20s %-15s %-13s ", name, "not-reproduced", "held"))) {
        printf("     the fault did not show: once more\n");
        begin_lesson(current);
        status = end_lesson();
    }
    if (status != 0)
        FAIL("%s", proc_output(&lessons[current]));
    CHECK_HAS(proc_output(&lessons[current]),
              harness_format("%-20s %-15s %-13s ", name, "reproduced", "held"));
    recount(harness_format("%s/out/%s", harness_dir(), name));
}

/* ---- plays without a lesson ---- */

/* Plays it as the broken one. */
static void play(const char *name, bool fixed_way, const char *outcome, struct judged_play *played) {
    char error[300] = "";
    const struct play_plan plan = {.scenario = scenario_find(name),
                                   .broken = true,
                                   .fixed_way = fixed_way,
                                   .seed = (int64_t)(harness_seed() % 1000000),
                                   .work = harness_dir(),
                                   .programs = harness_build(),
                                   .logs = harness_dir(),
                                   .events = harness_format("%s/%s.jsonl", harness_dir(), name)};
    if (!play_run(&plan, played, error, sizeof error))
        FAIL("%s", error);
    if (strcmp(played->verdict.outcome, outcome) != 0)
        FAIL("%s: %s: %s", name, played->verdict.outcome, played->verdict.sentence);
}

/* The right lock in the place of the wrong one: the fault does not happen, and that is said. */
static void without_the_fault(void) {
    static const char *const names[] = {"get-then-set", "crash-before-expire", "paused-holder",
                                        "two-processes"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        struct judged_play played;
        play(names[i], true, "not-reproduced", &played);
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
    play("paused-holder", false, "setup-failed", &played);
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
    CHECK(script);
    fputs("#!/bin/sh\necho no room >&2\nexit 1\n", script);
    fclose(script);
    CHECK_INT(chmod(path, 0700), 0);
    harness_defer(reset_path, harness_format("%s", getenv("PATH")));
    setenv("PATH", harness_format("%s:%s", directory, getenv("PATH")), 1);
    play("two-processes", false, "setup-failed", &played);
    CHECK_HAS(played.verdict.sentence, "no room");
    judged_play_free(&played);
}

int main(int argc, char **argv) {
    harness_begin(argc, argv);
    harness_limit(900);
    harness_run("texts", texts);
    for (current = 0; scenarios[current]; current++) {
        if (argc == 1)
            harness_wait(has_ended, &current, LESSON_MS);
        harness_run(scenarios[current]->name, teaches);
    }
    harness_run("without the fault", without_the_fault);
    harness_run("without a server", without_a_server);
    harness_run("with a server that ends", with_a_server_that_ends);
    return harness_finish();
}
