/* seckill-lab list and run as programs: what they print and write, and that nothing is left behind. */
#include <jansson.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "loadtest/lab/test/leftovers.h"
#include "test/harness.h"

enum { PATIENCE_MS = 60000 };

static const char *lab_tmp; /* where the lab makes its directory */

static void start(struct proc *lab, const char *command, const char *a, const char *b, const char *c,
                  const char *d, const char *e, const char *f) {
    static int number;
    const char *argv[] = {harness_format("%s/seckill-lab", harness_build()), command, a, b, c, d, e, f, NULL};
    const char *env[] = {harness_format("TMPDIR=%s", lab_tmp), NULL};
    proc_spawn(lab, argv, env, harness_format("%s/lab-%d.log", harness_dir(), number++));
}

static int status_of(struct proc *lab) {
    int status;
    CHECK(proc_wait(lab, PATIENCE_MS, &status));
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static void begin(void) {
    lab_tmp = harness_format("%s/lab-tmp", harness_dir());
    mkdir(lab_tmp, 0700);
}

/* ---- tests ---- */

/* Each has its row in the documents. */
static void check_documented(const char *name, const char *sentence) {
    static char text[65536];
    FILE *file = fopen("docs/lab.md", "r");
    CHECK(file != NULL);
    text[fread(text, 1, sizeof text - 1, file)] = '\0';
    fclose(file);
    CHECK_HAS(text, harness_format("| `%s` | %s |", name, sentence));
}

static void listed(void) {
    struct proc lab;
    begin();
    start(&lab, "list", "--json", NULL, NULL, NULL, NULL, NULL);
    CHECK_INT(status_of(&lab), 0);
    json_t *list = json_loads(proc_output(&lab), 0, NULL);
    CHECK_INT(json_array_size(list), 21);
    for (size_t i = 0; i < json_array_size(list); i++) {
        const char *name, *sentence;
        CHECK_INT(json_unpack(json_array_get(list, i), "{s:s, s:s}", "name", &name, "sentence", &sentence),
                  0);
        check_documented(name, sentence);
    }
    json_decref(list);
    start(&lab, "list", NULL, NULL, NULL, NULL, NULL, NULL);
    CHECK_INT(status_of(&lab), 0);
    CHECK_HAS(proc_output(&lab), "maotai");
}

static void run_and_reported(void) {
    static const char *const files[] = {
        "two-processes/events.broken.jsonl", "two-processes/events.fixed.jsonl", "two-processes/timeline.svg",
        "two-processes/report.html",         "two-processes/trace.json",         "index.html"};
    struct proc lab;
    begin();
    const char *out = harness_format("%s/out", harness_dir()),
               *json = harness_format("%s/all.json", harness_dir());
    start(&lab, "run", "two-processes", "--seed=7", "--out", out, "--json", json);
    CHECK_INT(status_of(&lab), 0);
    CHECK_HAS(proc_output(&lab), "1 of 1 as taught, seed 7.");
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        struct stat stat_of;
        CHECK_INT(stat(harness_format("%s/%s", out, files[i]), &stat_of), 0);
        CHECK(stat_of.st_size > 0);
    }
    json_t *all = json_load_file(json, 0, NULL);
    json_t *first = json_array_get(json_object_get(all, "scenarios"), 0);
    CHECK(json_is_true(json_object_get(all, "taught")));
    CHECK_STR(json_string_value(json_object_get(first, "scenario")), "two-processes");
    CHECK_STR(json_string_value(json_object_get(json_object_get(first, "broken"), "outcome")), "reproduced");
    CHECK_INT(json_integer_value(json_object_get(json_object_get(first, "broken"), "oversold")), 1);
    CHECK_STR(json_string_value(json_object_get(json_object_get(first, "fixed"), "outcome")), "held");
    json_decref(all);
    CHECK(harness_wait(leftovers_none, (void *)(uintptr_t)lab_tmp, PATIENCE_MS));
}

static void bad_usage(void) {
    static const struct {
        const char *a, *b, *says;
    } cases[] = {{"no-such", NULL, "there is no scenario \"no-such\""},
                 {NULL, NULL, "say which scenarios"},
                 {"all", "--seed=x", "--seed"},
                 {"all", "--nonsense", "--nonsense"}};
    begin();
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct proc lab;
        start(&lab, "run", cases[i].a, cases[i].b, NULL, NULL, NULL, NULL);
        CHECK_INT(status_of(&lab), 2);
        CHECK_HAS(proc_output(&lab), cases[i].says);
    }
}

/* Killed in the middle of a play, and interrupted as by Ctrl-C. */
static void nothing_left_behind(void) {
    static const int signals[] = {SIGKILL, SIGINT, SIGTERM};
    for (size_t i = 0; i < sizeof signals / sizeof signals[0]; i++) {
        struct proc lab;
        begin();
        start(&lab, "run", "paused-holder", "--out", harness_format("%s/ended", harness_dir()), NULL, NULL,
              NULL);
        CHECK(harness_wait(leftovers_play, (void *)(uintptr_t)lab_tmp, PATIENCE_MS));
        proc_kill(&lab, signals[i]);
        CHECK_INT(status_of(&lab), 128 + signals[i]);
        CHECK(harness_wait(leftovers_none, (void *)(uintptr_t)lab_tmp, PATIENCE_MS));
    }
}

static void no_place_to_write(void) {
    struct proc lab;
    begin();
    start(&lab, "run", "two-processes", "--out", "/proc/no-such/out", NULL, NULL, NULL);
    CHECK_INT(status_of(&lab), 3);
    CHECK_HAS(proc_output(&lab), "/proc/no-such/out");
}

int main(int argc, char **argv) {
    harness_begin(argc, argv);
    harness_run("list", listed);
    harness_run("run, and what it writes", run_and_reported);
    harness_run("bad usage", bad_usage);
    harness_run("nothing is left behind", nothing_left_behind);
    harness_run("no place to write", no_place_to_write);
    return harness_finish();
}
