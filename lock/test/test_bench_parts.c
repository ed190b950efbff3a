/* Parts of lock-bench: its command line, and its plan. */
#include <string.h>

#include "lock/bench/bench.h"
#include "test/harness.h"

static struct bench_options options;
static char error[256];

/* The words of `line` after the program's name. */
static enum flags_status parse(const char *line) {
    char *argv[64] = {harness_format("lock-bench")};
    int argc = 1;
    char *rest = harness_format("%s", line);
    for (char *word; (word = strsep(&rest, " ")) != NULL;)
        if (word[0] != '\0')
            argv[argc++] = word;
    memset(&options, 0, sizeof options);
    error[0] = '\0';
    return bench_options_read(argv, &options, error, sizeof error);
}

static void defaults(void) {
    CHECK_INT(parse("local:"), FLAGS_RUN);
    CHECK_INT(options.urls.count, 1);
    CHECK_STR(options.urls.texts[0], "local:");
    CHECK(options.seconds == 2);
    CHECK_INT(options.contenders.count, 5);
    CHECK_INT(options.contenders.numbers[4], 64);
    CHECK_INT(options.processes.count, 2);
    CHECK_INT(options.processes.numbers[1], 4);
    CHECK(options.own && options.shared && !options.teaching && !options.json);
    CHECK_INT(options.hold_us, 0);
}

static void all_of_them(void) {
    CHECK_INT(
        parse("a: --seconds 0.5 --contenders 3,1024 --processes=64 --own --hold 70 b: --json - --teaching"),
        FLAGS_RUN);
    CHECK_INT(options.urls.count, 2);
    CHECK_STR(options.urls.texts[0], "a:");
    CHECK_STR(options.urls.texts[1], "b:");
    CHECK(options.seconds == 0.5);
    CHECK_INT(options.contenders.count, 2);
    CHECK_INT(options.contenders.numbers[0], 3);
    CHECK_INT(options.contenders.numbers[1], 1024);
    CHECK_INT(options.processes.count, 1);
    CHECK_INT(options.processes.numbers[0], 64);
    CHECK_INT(options.hold_us, 70);
    CHECK_STR(options.json, "-");
    CHECK(options.own && !options.shared && options.teaching);
    CHECK_INT(parse("a: --shared"), FLAGS_RUN);
    CHECK(!options.own && options.shared);
    CHECK_INT(parse("a: --shared --own"), FLAGS_RUN);
    CHECK(options.own && options.shared);
    CHECK_INT(parse("--help"), FLAGS_HELP);
    CHECK_INT(parse("--version"), FLAGS_VERSION);
}

static void wrong(void) {
    static const struct {
        const char *line, *says;
    } cases[] = {
        {"", "which lock?"},
        {"--seconds 1", "which lock?"},
        {"a: --seconds", "--seconds needs a value"},
        {"a: --seconds 0", "--seconds must be a number from 0.05 to 3600"},
        {"a: --seconds 3601", "--seconds"},
        {"a: --seconds 1s", "--seconds"},
        {"a: --seconds nan", "--seconds"},
        {"a: --seconds -1", "--seconds"},
        {"a: --contenders 0", "--contenders must be up to 16 numbers from 1 to 1024"},
        {"a: --contenders 1025", "--contenders"},
        {"a: --contenders 99999999999", "--contenders"},
        {"a: --contenders 1,", "--contenders"},
        {"a: --contenders ,1", "--contenders"},
        {"a: --contenders 1;2", "--contenders"},
        {"a: --contenders 1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17", "--contenders"},
        {"a: --processes 65", "--processes must be up to 16 numbers from 1 to 64"},
        {"a: --hold 1.5", "--hold must be microseconds from 0 to 10000000"},
        {"a: --hold 1,2", "--hold"},
        {"a: --own=yes", "--own=yes is no option with a value"},
        {"a: --nonsense", "--nonsense is no option"},
        {"a: -x", "-x is no option"},
        {"a: --json=", "--json must be the name of a file"},
        {"a b c d e f g h i j k l m n o p q r s t u v w x y z A B C D E F G",
         "URL must be given at most 32 times"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        CHECK_INT(parse(cases[i].line), FLAGS_WRONG);
        CHECK_HAS(error, cases[i].says);
    }
}

static void help_names_all(void) {
    static const char *const flags[] = {"--seconds", "--contenders", "--processes", "--own",  "--shared",
                                        "--hold",    "--json",       "--teaching",  "--help", "--version"};
    for (size_t i = 0; i < sizeof flags / sizeof flags[0]; i++)
        CHECK_HAS(bench_help, flags[i]);
}

/* "own/2/16" is two processes and 16 contenders with a key each. */
static void check_plan(const char *line, bool one_process, const char *want, bool want_left_out) {
    struct bench_case cases[BENCH_CASES];
    bool left_out;
    CHECK_INT(parse(line), FLAGS_RUN);
    unsigned count = bench_plan(&options, "a:", one_process, cases, &left_out);
    const char *rows = "";
    for (unsigned i = 0; i < count; i++)
        rows = harness_format("%s%s%s/%u/%u", rows, i ? " " : "", cases[i].shared ? "shared" : "own",
                              cases[i].processes, cases[i].contenders);
    CHECK_STR(rows, want);
    CHECK_INT(left_out, want_left_out);
}

static void rows(void) {
    check_plan("a: --contenders 1,4 --processes 1,2", false, "own/1/1 own/1/4 own/2/4 shared/1/4 shared/2/4",
               false);
    check_plan("a: --contenders 1,4 --processes 1,2", true, "own/1/1 own/1/4 own/2/4 shared/1/4", true);
    check_plan("a: --contenders 1,4 --processes 1,2 --own", true, "own/1/1 own/1/4 own/2/4", false);
    check_plan("a: --contenders 1,3 --shared", false, "shared/1/1 shared/1/3 shared/3/3", false);
    check_plan("a: --contenders 3,3 --processes 4,8 --shared", false, "shared/3/3", false);
    check_plan("a: --contenders 3 --processes 4 --shared", true, "", true);
}

static void names(void) {
    static const char *const cases[][2] = {
        {"local:", "local:"},
        {"redis://h:1/2?ttl=500", "redis://h:1/2?ttl=500"},
        {"redis://me:secret@h:1?variant=a@b", "redis://h:1?variant=a@b"},
        {"redis://:sec@ret@h:1", "redis://h:1"},
        {"redlock://:secret@h1,:secret@h2", "redlock://h2"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char name[BENCH_NAME_SIZE];
        bench_name(cases[i][0], name);
        CHECK_STR(name, cases[i][1]);
    }
}

int main(int argc, char **argv) {
    harness_begin(argc, argv);
    harness_run("options: defaults", defaults);
    harness_run("options: all flags", all_of_them);
    harness_run("options: errors name the flag", wrong);
    harness_run("options: the help names every flag", help_names_all);
    harness_run("the plan: its cases", rows);
    harness_run("names: without passwords", names);
    return harness_finish();
}
