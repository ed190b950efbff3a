/* seckill-lab list, run and render as programs: what they print and write, their exit statuses, and that
 * nothing is left behind. */
#include <jansson.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "loadtest/lab/test/lab_site.h"

#define BROKEN "loadtest/lab/test/plays/maotai.broken.jsonl"
#define FIXED  "loadtest/lab/test/plays/maotai.fixed.jsonl"

enum { PATIENCE_MS = 60000 };

static const char *said;

/* Starts a line of the shell, in which LAB is the program and OUT this test's directory. */
static void start(struct proc *proc, const char *line) {
    static int number;
    const char *const argv[] = {"bash", "-c", line, NULL};
    const char *const env[] = {harness_format("LAB=%s/seckill-lab", harness_build()),
                               harness_format("OUT=%s", harness_dir()),
                               harness_format("TMPDIR=%s/tmp", harness_dir()), NULL};
    mkdir(harness_format("%s/tmp", harness_dir()), 0700);
    proc_spawn(proc, argv, env, harness_format("%s/said-%d", harness_dir(), number++));
}

static int status_of(struct proc *proc) {
    int status;
    CHECK(proc_wait(proc, PATIENCE_MS, &status));
    said = proc_output(proc);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static int run(const char *line) {
    struct proc proc;
    start(&proc, line);
    return status_of(&proc);
}

static void check_nothing_left(void) {
    CHECK(harness_wait(leftovers_none, harness_format("%s/tmp", harness_dir()), PATIENCE_MS));
}

/* ---- list and run ---- */

/* Each scenario has its row in the documents. */
static void listed(void) {
    const char *documents = lab_site_file("docs/lab.md");
    CHECK_INT(run("$LAB list --json"), 0);
    json_t *list = json_loads(said, 0, NULL);
    CHECK_INT(json_array_size(list), 21);
    for (size_t i = 0; i < json_array_size(list); i++) {
        const char *name, *sentence;
        CHECK_INT(json_unpack(json_array_get(list, i), "{s:s, s:s}", "name", &name, "sentence", &sentence),
                  0);
        CHECK_HAS(documents, harness_format("| `%s` | %s |", name, sentence));
    }
    json_decref(list);
    CHECK_INT(run("$LAB list"), 0);
    CHECK_HAS(said, "maotai");
}

static void run_and_reported(void) {
    CHECK_INT(run("$LAB run two-processes --seed=7 --out $OUT/out --json $OUT/all.json"), 0);
    CHECK_HAS(said, "1 of 1 as taught, seed 7.");
    CHECK_INT(run("cd $OUT/out && test -s index.html && cd two-processes && for file in events.broken.jsonl "
                  "events.fixed.jsonl timeline.svg report.html trace.json; do test -s $file || exit; done"),
              0);
    json_t *all = json_load_file(harness_format("%s/all.json", harness_dir()), 0, NULL);
    int taught, oversold;
    const char *name, *broken, *fixed;
    CHECK_INT(json_unpack(all, "{s:b, s:[{s:s, s:{s:s, s:i}, s:{s:s}}]}", "taught", &taught, "scenarios",
                          "scenario", &name, "broken", "outcome", &broken, "oversold", &oversold, "fixed",
                          "outcome", &fixed),
              0);
    CHECK_STR(harness_format("%d %s %s %d %s", taught, name, broken, oversold, fixed),
              "1 two-processes reproduced 1 held");
    json_decref(all);
    check_nothing_left();
}

/* Killed in the middle of a play, and interrupted as by Ctrl-C. */
static void nothing_left_behind(void) {
    static const int signals[] = {SIGKILL, SIGINT, SIGTERM};
    for (size_t i = 0; i < sizeof signals / sizeof signals[0]; i++) {
        struct proc lab;
        start(&lab, "exec $LAB run paused-holder --out $OUT/ended");
        CHECK(harness_wait(leftovers_play, harness_format("%s/tmp", harness_dir()), PATIENCE_MS));
        proc_kill(&lab, signals[i]);
        CHECK_INT(status_of(&lab), 128 + signals[i]);
        check_nothing_left();
    }
}

/* ---- render ---- */

static void rendered(void) {
    CHECK_INT(run("$LAB render " FIXED " " BROKEN " --svg $OUT/a.svg --html $OUT/a.html --trace $OUT/a.json "
                  "--table $OUT/a.txt"),
              0);
    CHECK_STR(said, "");
    /* Well-formed; the broken play is above, whatever the order of the files. */
    CHECK_INT(
        run("python3 -c 'import sys, json, xml.dom.minidom as dom\n"
            "svg = dom.parse(sys.argv[1] + \"/a.svg\")\n"
            "groups = [g for g in svg.getElementsByTagName(\"g\") if g.getAttribute(\"id\")]\n"
            "ids = [g.getAttribute(\"id\") for g in groups]\n"
            "assert len(ids) == len(set(ids)), \"an id is there twice\"\n"
            "assert \"n13\" in ids and \"fixed-n13\" in ids, ids\n"
            "assert all(g.getElementsByTagName(\"title\") and g.getElementsByTagName(\"desc\") for g in "
            "groups)\n"
            "texts = [t.firstChild.data for t in svg.getElementsByTagName(\"text\")]\n"
            "assert texts.index(\"BROKEN\") < texts.index(\"FIXED\")\n"
            "json.load(open(sys.argv[1] + \"/a.json\"))' $OUT"),
        0);
    CHECK_INT(run("grep -c '' $OUT/a.txt"), 0);
    CHECK_STR(said, "63\n"); /* 56 events, two verdicts, two heads of two lines, and a line between */
    CHECK_INT(run("grep -o 'src=\\|href=\"[^#]\\|https\\?:[^\"]*' $OUT/a.html | sort -u"), 0);
    CHECK_STR(said, "http://www.w3.org/2000/svg\n"); /* it needs no other file or host */
    CHECK_INT(run("$LAB render " BROKEN " --svg - | head -c 4"), 0);
    CHECK_STR(said, "<svg");
}

static void statuses(void) {
    static const struct {
        const char *line;
        int status;
        const char *says;
    } cases[] = {
        {"$LAB", 2, "there is no command \"\""},
        {"$LAB draw", 2, "there is no command \"draw\""},
        {"$LAB --version", 0, "seckill-lab 0.1.0\n"},
        {"$LAB --help", 0, "render EVENTS"},
        {"$LAB run no-such", 2, "there is no scenario \"no-such\""},
        {"$LAB run", 2, "say which scenarios"},
        {"$LAB run all --seed=x", 2, "--seed"},
        {"$LAB run all --nonsense", 2, "--nonsense"},
        {"$LAB run two-processes --out /proc/no-such/out", 3, "/proc/no-such/out"},
        {"$LAB render --help", 0, "--trace FILE"},
        {"$LAB render " BROKEN, 0, "maotai, broken, seed 7\n"},
        {"$LAB render " BROKEN, 0, "client-b       gets lamp as grant 2 until 2028 ms\n"},
        {"$LAB render", 2, "give one or two files of events"},
        {"$LAB render a b c", 2, "give one or two files"},
        {"$LAB render " BROKEN " --png x", 2, "--png is no option"},
        {"$LAB render " BROKEN " --svg", 2, "--svg needs a value"},
        {"$LAB render /nowhere/x", 2, "seckill-lab: /nowhere/x: No such file or directory"},
        {"$LAB render README.md", 2, "seckill-lab: README.md: line 1: "},
        {"$LAB render " BROKEN " " BROKEN, 2, "not the other play of the same scenario"},
        {"sed s/maotai/herd/ " FIXED " >$OUT/herd; $LAB render " BROKEN " $OUT/herd", 2,
         "not the other play"},
        {"$LAB render " BROKEN " --svg /nowhere/x", 3, "seckill-lab: /nowhere/x: No such file"},
        {"$LAB render " BROKEN " --svg /dev/full", 3, "/dev/full: could not be written"},
        /* Without its verdict a play is judged anew. */
        {"head -n -1 " BROKEN " >$OUT/cut; $LAB render $OUT/cut --html -", 0,
         "<h3>Broken: reproduced</h3>\n<p><span class=\"good\">The fault shows</span>. client-b and client-c "
         "both believed that they held lamp, for 290 ms"},
        {"$LAB render $OUT/cut --html -", 0, "<a href=\"#n8\">event 8</a>: "},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        CHECK_INT(run(cases[i].line), cases[i].status);
        CHECK_HAS(said, cases[i].says);
    }
}

int main(int argc, char **argv) {
    harness_begin(argc, argv);
    harness_run("list", listed);
    harness_run("run, and what it writes", run_and_reported);
    harness_run("nothing is left behind", nothing_left_behind);
    harness_run("render, and what it writes", rendered);
    harness_run("what each line is answered by", statuses);
    return harness_finish();
}
