/* seckill-lab render as a program: its files, its errors, its exit statuses. */
#include <stdio.h>
#include <string.h>

#include "test/harness.h"

#define BROKEN "loadtest/lab/test/plays/maotai.broken.jsonl"
#define FIXED  "loadtest/lab/test/plays/maotai.fixed.jsonl"

enum { TIME_MS = 60000 };

static char said[65536];

/* Runs a line of the shell, in which LAB is the program and OUT this test's directory; returns its status. */
static int run(const char *line) {
    static int number;
    struct proc proc;
    int status = -1;
    const char *log = harness_format("%s/said-%d", harness_dir(), number++);
    const char *const argv[] = {"bash", "-c", line, NULL};
    const char *const env[] = {harness_format("LAB=%s/seckill-lab", harness_build()),
                               harness_format("OUT=%s", harness_dir()), NULL};
    proc_spawn(&proc, argv, env, log);
    CHECK(proc_wait(&proc, TIME_MS, &status));
    snprintf(said, sizeof said, "%s", proc_output(&proc));
    return status >> 8;
}

static void test_files(void) {
    CHECK_INT(run("$LAB render " FIXED " " BROKEN " --svg $OUT/a.svg --html $OUT/a.html --trace $OUT/a.json "
                  "--table $OUT/a.txt"),
              0);
    CHECK_STR(said, "");
    /* Well-formed; the broken play is above, whatever the order of the files. */
    CHECK_INT(run("python3 -c 'import sys, json, xml.dom.minidom as dom\n"
                  "svg = dom.parse(sys.argv[1] + \"/a.svg\")\n"
                  "ids = [g.getAttribute(\"id\") for g in svg.getElementsByTagName(\"g\") if "
                  "g.getAttribute(\"id\")]\n"
                  "assert len(ids) == len(set(ids)), \"an id is there twice\"\n"
                  "assert \"n13\" in ids and \"fixed-n13\" in ids, ids\n"
                  "assert all(g.getElementsByTagName(\"title\") and g.getElementsByTagName(\"desc\")\n"
                  "           for g in svg.getElementsByTagName(\"g\") if g.getAttribute(\"id\"))\n"
                  "texts = [t.firstChild.data for t in svg.getElementsByTagName(\"text\")]\n"
                  "assert texts.index(\"BROKEN\") < texts.index(\"FIXED\")\n"
                  "json.load(open(sys.argv[1] + \"/a.json\"))' $OUT"),
              0);
    CHECK_INT(run("grep -c '' $OUT/a.txt"), 0);
    CHECK_STR(said, "63\n"); /* 56 events, two verdicts, two heads of two lines, and a line between */
    CHECK_INT(run("grep -o 'src=\\|href=\"[^#]\\|https\\?:[^\"]*' $OUT/a.html | sort -u"), 0);
    CHECK_STR(said, "http://www.w3.org/2000/svg\n"); /* it needs no other file or host */
}

static void test_output(void) {
    CHECK_INT(run("$LAB render " BROKEN), 0);
    CHECK_HAS(said, "maotai, broken, seed 7\n");
    CHECK_HAS(said, "client-b       gets lamp as grant 2 until 2028 ms\n");
    CHECK_INT(run("$LAB render " BROKEN " --svg - | head -c 4"), 0);
    CHECK_STR(said, "<svg");
    CHECK_INT(run("$LAB render --help"), 0);
    CHECK_HAS(said, "--trace FILE");
    CHECK_INT(run("$LAB --version"), 0);
    CHECK_STR(said, "seckill-lab 0.1.0\n");
    CHECK_INT(run("$LAB --help"), 0);
    CHECK_HAS(said, "render EVENTS");
}

static void test_wrong(void) {
    static const struct {
        const char *line;
        int status;
        const char *says;
    } cases[] = {
        {"$LAB", 2, "there is no command \"\""},
        {"$LAB draw", 2, "there is no command \"draw\""},
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
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        CHECK_INT(run(cases[i].line), cases[i].status);
        CHECK_HAS(said, cases[i].says);
    }
}

/* Without its verdict a play is judged anew. */
static void test_judged_again(void) {
    CHECK_INT(run("head -n -1 " BROKEN " >$OUT/cut; $LAB render $OUT/cut --html -"), 0);
    CHECK_HAS(said, "<h3>Broken: reproduced</h3>\n<p><span class=\"good\">The fault shows</span>. client-b "
                    "and client-c both "
                    "believed that they held lamp, for 290 ms");
    CHECK_HAS(said, "<a href=\"#n8\">event 8</a>: ");
}

int main(int argc, char **argv) {
    harness_begin(argc, argv);
    harness_run("render: four files", test_files);
    harness_run("render: to standard output", test_output);
    harness_run("render: what is wrong", test_wrong);
    harness_run("render: a play without a verdict", test_judged_again);
    return harness_finish();
}
