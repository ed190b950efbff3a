/* lock-bench: its parts, and as users run it. */
#include <dirent.h>
#include <jansson.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "lock/bench/bench.h"
#include "test/harness.h"

/* ---- its parts: the command line, and the plan ---- */

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

static void refused_options(void) {
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

static void plans(void) {
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

/* ---- the program ---- */

enum { TIME_MS = 60000 };

static int runs;
static struct proc bench;

static const char *file_name(const char *suffix) {
    return harness_format("%s/bench-%d.%s", harness_dir(), runs, suffix);
}

static void start(const char *line) {
    runs++;
    const char *argv[32] = {harness_format("%s/lock-bench", harness_build()), "--json", file_name("json")};
    int argc = 3;
    char *rest = harness_format("%s", line);
    for (char *word; (word = strsep(&rest, " ")) != NULL;)
        argv[argc++] = word;
    proc_spawn(&bench, argv, NULL, file_name("log"));
}

static void check_ends(int code) {
    int status = 0;
    if (!proc_wait(&bench, TIME_MS, &status))
        FAIL("still running: %s", proc_output(&bench));
    if (!WIFEXITED(status) || WEXITSTATUS(status) != code)
        FAIL("wait status %x: %s", (unsigned)status, proc_output(&bench));
}

static void run(const char *line, int code) {
    start(line);
    check_ends(code);
}

/* ---- the JSON ---- */

static void free_json(void *json) {
    json_decref(json);
}

static json_t *load(void) {
    json_error_t why;
    json_t *json = json_load_file(file_name("json"), JSON_REJECT_DUPLICATES, &why);
    if (!json)
        FAIL("%s", why.text);
    harness_defer(free_json, json);
    return json;
}

static const json_t *member(const json_t *object, const char *path) {
    const json_t *at = object;
    char *rest = harness_format("%s", path);
    for (char *word; at && (word = strsep(&rest, ".")) != NULL;)
        at = json_object_get(at, word);
    if (!at)
        FAIL("no %s in %s", path, json_dumps(object, 0));
    return at;
}

static double number(const json_t *row, const char *path) {
    const json_t *value = member(row, path);
    if (!json_is_number(value))
        FAIL("%s is no number", path);
    return json_number_value(value);
}

static double wrongs(const json_t *row) {
    return number(row, "wrong.two_holders") + number(row, "wrong.lost_updates") +
           number(row, "wrong.old_fences") + number(row, "wrong.lost_grants");
}

static void check_shares(const json_t *row, const char *of) {
    double least = number(row, harness_format("%s.least", of));
    double most = number(row, harness_format("%s.most", of));
    CHECK(least >= 0 && least <= 1.0000001);
    CHECK(most >= 0.9999999 && most <= number(row, "contenders"));
}

/* What holds for each row, whatever the lock. */
static void check_row(const json_t *row, const char *keys, int processes, int contenders) {
    CHECK_STR(json_string_value(member(row, "keys")), keys);
    CHECK_INT(number(row, "processes"), processes);
    CHECK_INT(number(row, "contenders"), contenders);
    double pairs = number(row, "pairs"), seconds = number(row, "seconds");
    double again = number(row, "pairs_per_second") * seconds;
    CHECK(pairs > 0 && again > pairs * 0.999 && again < pairs * 1.001);
    CHECK(seconds >= 0.1);
    CHECK(number(row, "wait_us.p50") <= number(row, "wait_us.p99"));
    CHECK(number(row, "wait_us.p99") <= number(row, "wait_us.max"));
    CHECK(number(row, "wait_us.max") > 0);
    check_shares(row, "contender_share");
    check_shares(row, "process_share");
    CHECK_INT(number(row, "errors"), 0);
    CHECK(json_is_null(member(row, "first_error")));
    if (strcmp(keys, "own") == 0) {
        CHECK(json_is_null(member(row, "handovers")));
        CHECK_INT(wrongs(row), 0);
    } else {
        CHECK(number(row, "handovers") <= pairs);
        CHECK((number(row, "handovers") > 0) == (contenders > 1));
    }
}

/* ---- runs ---- */

static void right(void) {
    run("--seconds 0.2 --contenders 1,8 --processes 1,2 local:", 0);
    json_t *json = load();
    CHECK(number(json, "machine.cores") >= 1);
    CHECK(json_string_length(member(json, "machine.cpu")) > 0);
    CHECK_HAS(json_string_value(member(json, "machine.kernel")), "Linux");
    CHECK(json_is_false(member(json, "interrupted")));
    const json_t *rows = member(json, "rows");
    CHECK_INT(json_array_size(rows), 4);
    check_row(json_array_get(rows, 0), "own", 1, 1);
    check_row(json_array_get(rows, 1), "own", 1, 8);
    check_row(json_array_get(rows, 2), "own", 2, 8);
    check_row(json_array_get(rows, 3), "shared", 1, 8);
    for (size_t i = 0; i < 4; i++) {
        CHECK_INT(wrongs(json_array_get(rows, i)), 0);
        CHECK_STR(json_string_value(member(json_array_get(rows, i), "url")), "local:");
        CHECK(json_is_null(member(json_array_get(rows, i), "requests.per_pair")));
        CHECK(json_is_null(member(json_array_get(rows, i), "requests.per_handover")));
    }
    const char *text = proc_output(&bench);
    CHECK_HAS(text, "\nlocal:\n");
    CHECK_HAS(text, "  own            2          8 ");
    CHECK_HAS(text, "  shared         1          8 ");
    CHECK_HAS(text, "works within one process only");
    CHECK(!strstr(text, "WRONG") && !strstr(text, "FAILED"));
}

/* Own keys of one and of four contenders, then a shared one, in one process and in two. */
static void check_five_rows(const json_t *rows) {
    CHECK_INT(json_array_size(rows), 5);
    for (size_t i = 0; i < 5; i++)
        check_row(json_array_get(rows, i), i < 3 ? "own" : "shared", i == 2 || i == 4 ? 2 : 1,
                  i == 0 ? 1 : 4);
}

static void wrong(void) {
    run("none: --teaching --seconds 0.3 --hold 100 --contenders 1,4 --processes 1,2", 1);
    const json_t *rows = member(load(), "rows");
    check_five_rows(rows);
    for (size_t i = 0; i < 5; i++) {
        CHECK_INT(number(json_array_get(rows, i), "hold_us"), 100);
        CHECK((number(json_array_get(rows, i), "wrong.two_holders") > 0) == (i >= 3));
        CHECK((number(json_array_get(rows, i), "wrong.lost_updates") > 0) == (i >= 3));
    }
    CHECK_HAS(proc_output(&bench), "WRONG  none:, shared key, processes 1, contenders 4: ");
    CHECK_HAS(proc_output(&bench), "WRONG  none:, shared key, processes 2, contenders 4: ");
    CHECK_HAS(proc_output(&bench), " times two holders at once, ");
    CHECK(!strstr(proc_output(&bench), "own keys"));
    CHECK(!strstr(proc_output(&bench), "known to be wrong"));
    run("none: --teaching --seconds 0.1 --own --contenders 1", 0); /* no fault is found */
    CHECK_HAS(proc_output(&bench), "It is known to be wrong, though");
}

static void of_redis(void) {
    struct redis_server redis;
    redis_start(&redis, NULL);
    redis_command(&redis, "CONFIG", "SET", "requirepass", "sesame", NULL);
    run(harness_format("redis://:sesame@127.0.0.1:%d --seconds 0.3 --contenders 1,4 --processes 1,2",
                       redis.port),
        0);
    const json_t *rows = member(load(), "rows");
    check_five_rows(rows);
    for (size_t i = 0; i < 5; i++) {
        const json_t *row = json_array_get(rows, i);
        CHECK_INT(wrongs(row), 0);
        CHECK_STR(json_string_value(member(row, "url")), harness_format("redis://127.0.0.1:%d", redis.port));
        CHECK(number(row, "requests.per_pair") > 0);
        if (i < 3) /* alone with its key: acquire and release */
            CHECK(number(row, "requests.per_pair") > 1.5 && number(row, "requests.per_pair") < 2.5);
        else
            CHECK(number(row, "requests.per_handover") > 0);
    }
    CHECK(!strstr(proc_output(&bench), "sesame"));
}

static void no_store(void) {
    run(harness_format("local: redis://:sesame@127.0.0.1:%d --seconds 0.1", harness_free_port()), 3);
    CHECK_HAS(proc_output(&bench), ": the store cannot be used");
    CHECK_HAS(proc_output(&bench), ": Connection refused");
    CHECK(!strstr(proc_output(&bench), "pairs/s"));
    CHECK(!strstr(proc_output(&bench), "sesame"));
}

static bool has_begun(void *arg) {
    (void)arg;
    return strstr(proc_output(&bench), "own            1          1 ") != NULL;
}

static void store_breaks_down(void) {
    struct redis_server redis;
    redis_start(&redis, NULL);
    start(harness_format("redis://127.0.0.1:%d --seconds 0.5 --contenders 1,2,3,4,5,6,7,8", redis.port));
    CHECK(harness_wait(has_begun, NULL, TIME_MS));
    redis_kill(&redis);
    check_ends(3);
    CHECK_HAS(proc_output(&bench), "\nFAILED  redis://127.0.0.1:");
    CHECK_HAS(proc_output(&bench), " calls, the first: un");
    CHECK_HAS(proc_output(&bench), harness_format(", 127.0.0.1:%d: ", redis.port));
    CHECK(json_array_size(member(load(), "rows")) < 6);
}

static void usage(void) {
    static const struct {
        const char *line;
        int code;
        const char *says;
    } cases[] = {
        {"--nonsense local:", 2, "lock-bench: --nonsense is no option"},
        {"--nonsense local:", 2, "--help says more"},
        {"--seconds 1", 2, "which lock?"},
        {"file: local:", 2, "lock-bench: file:: no such lock; there are none:, local:"},
        {"local: none:", 2, "none:: this lock is for lessons"},
        {"local: --json /nowhere/at/all", 2, "/nowhere/at/all: No such file"},
        {"local: --help", 0, "usage: lock-bench"},
        {"local: --version", 0, "lock-bench 0.1.0\n"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        run(cases[i].line, cases[i].code);
        CHECK_HAS(proc_output(&bench), cases[i].says);
    }
}

/* ---- ends ---- */

/* The number of processes with our JSON file on their command line: lock-bench and its children. Sends
 * `signal` to the children. */
static int signal_workers(int signal) {
    int alive = 0;
    DIR *all = opendir("/proc");
    for (struct dirent *entry; (entry = readdir(all)) != NULL;) {
        char line[4096] = "";
        FILE *file = fopen(harness_format("/proc/%s/cmdline", entry->d_name), "re");
        size_t length = file ? fread(line, 1, sizeof line - 1, file) : 0;
        if (file)
            fclose(file);
        if (length == 0 || !memmem(line, length, file_name("json"), strlen(file_name("json"))))
            continue;
        pid_t pid = (pid_t)strtol(entry->d_name, NULL, 10);
        alive++;
        if (pid != bench.pid)
            kill(pid, signal);
    }
    closedir(all);
    return alive;
}

static int count_alive(void) {
    return signal_workers(0);
}

/* As a terminal does: all processes get the signal, in any order. */
static void press_ctrl_c(void) {
    signal_workers(SIGINT);
    harness_pause_ms(50);
    proc_kill(&bench, SIGINT);
}

static bool has_a_row(void *arg) {
    (void)arg;
    return strstr(proc_output(&bench), "shared         3          3 ") != NULL;
}

static bool has_workers(void *arg) {
    (void)arg;
    return count_alive() == 4;
}

static bool nobody_left(void *arg) {
    (void)arg;
    return count_alive() == 0;
}

/* Three processes, in the second row. */
static void start_rows(void) {
    start("none: --teaching --seconds 1 --shared --processes 3 --contenders 3,6,9,12,15,18 --hold 1000");
    CHECK(harness_wait(has_a_row, NULL, TIME_MS));
    CHECK(harness_wait(has_workers, NULL, TIME_MS));
}

static void interrupted(void) {
    start_rows();
    press_ctrl_c();
    check_ends(1); /* the rows before show faults */
    CHECK_INT(count_alive(), 0);
    json_t *json = load();
    CHECK(json_is_true(member(json, "interrupted")));
    size_t rows = json_array_size(member(json, "rows"));
    CHECK(rows >= 1 && rows < 6);
    CHECK_HAS(proc_output(&bench), "\ninterrupted\n");
    start("local: --own --processes 3 --contenders 3 --seconds 60");
    CHECK(harness_wait(has_workers, NULL, TIME_MS));
    press_ctrl_c();
    check_ends(130);
    CHECK_INT(json_array_size(member(load(), "rows")), 0);
    CHECK_INT(count_alive(), 0);
}

static void killed(void) {
    start_rows();
    proc_kill(&bench, SIGKILL);
    CHECK(harness_wait(nobody_left, NULL, 5000));
}

int main(int argc, char **argv) {
    harness_begin(argc, argv);
    harness_run("options: defaults", defaults);
    harness_run("options: all flags", all_of_them);
    harness_run("options: errors name the flag", refused_options);
    harness_run("options: the help names every flag", help_names_all);
    harness_run("the plan: its cases", plans);
    harness_run("names: without passwords", names);
    harness_run("a right lock", right);
    harness_run("a wrong lock", wrong);
    harness_run("a lock of Redis, and its requests", of_redis);
    harness_run("a store that does not run", no_store);
    harness_run("a store that crashes", store_breaks_down);
    harness_run("usage", usage);
    harness_run("Ctrl-C: the rows so far", interrupted);
    harness_run("killed: its child processes end too", killed);
    return harness_finish();
}
