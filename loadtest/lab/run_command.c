/* seckill-lab run, and seckill-lab list, which names what can be run. */
#include <errno.h>
#include <jansson.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/flags.h"
#include "base/servers/local_servers.h"
#include "loadtest/lab/commands.h"
#include "loadtest/lab/draw/describe.h"
#include "loadtest/lab/lesson_report.h"
#include "loadtest/lab/scenarios/scenarios.h"

/* ---- list ---- */

static const char list_help[] = "seckill-lab list: the scenarios, and what each teaches.\n"
                                "\n"
                                "usage: seckill-lab list [--json]\n"
                                "\n"
                                "  --json  an array of objects with name and sentence\n"
                                "  --help, --version\n";

static const struct flag list_flags[] = {{"--json", flag_read_switch, 0, 0, 0, ""}};

static int list_json(void) {
    json_t *list = json_array();
    for (int i = 0; scenarios[i]; i++)
        json_array_append_new(
            list, json_pack("{s:s, s:s}", "name", scenarios[i]->name, "sentence", scenarios[i]->text.title));
    int failed = json_dumpf(list, stdout, JSON_INDENT(2));
    json_decref(list);
    return failed != 0 || putchar('\n') == EOF;
}

int list_command(char *const *argv) {
    bool json = false;
    char error[200];
    enum flags_status status = flags_read(list_flags, 1, argv, &json, error, sizeof error);
    if (status != FLAGS_RUN)
        return flags_answer(status, "seckill-lab", list_help, error);
    if (json)
        return list_json();
    for (int i = 0; scenarios[i]; i++)
        printf("%-20s %s\n", scenarios[i]->name, scenarios[i]->text.title);
    return 0;
}

/* ---- run ---- */

static const char run_help[] =
    "seckill-lab run: plays scenarios with real servers, first broken and then fixed, and judges both.\n"
    "\n"
    "usage: seckill-lab run NAME... | all [option]...\n"
    "example: seckill-lab run maotai --out lab\n"
    "\n"
    "  --seed N     the choices of a play; the same seed, the same moments [from the clock]\n"
    "  --out DIR    where events, pictures and reports go: DIR/NAME/report.html, DIR/index.html [lab]\n"
    "  --json FILE  the verdicts, for programs; -: standard output, and the table goes to standard error\n"
    "  --help, --version\n"
    "\n"
    "It needs redis-server, etcd and java in the PATH, no root, and leaves nothing behind but DIR.\n"
    "seckill-lab list names the scenarios.\n"
    "\n"
    "exit status: 0 every lesson did what it teaches (the fault shown when broken, the fix held); 1 one did\n"
    "not; 2 bad usage; 3 a set-up failed, or a file could not be written\n";

enum { EXIT_NOT_TAUGHT = 1, EXIT_FAILED = 3 };

struct run_options {
    struct flag_texts names;
    uint64_t seed;
    const char *out, *json;
};

static const struct flag run_flags[] = {
    {"NAME", flag_read_texts, offsetof(struct run_options, names), 0, 0, FLAG_TEXTS_MUST},
    {"--seed", flag_read_u64, offsetof(struct run_options, seed), 0, 1e15, NULL},
    {"--out", flag_read_text, offsetof(struct run_options, out), 0, 0, "the name of a directory"},
    {"--json", flag_read_text, offsetof(struct run_options, json), 0, 0, "the name of a file, or -"},
};

struct run {
    struct run_options options;
    struct directory directory; /* where the servers work */
    FILE *table;                /* for people */
    json_t *json;               /* for programs */
    int count, taught;          /* of scenarios: played, and those that did what they teach */
    bool set_up;                /* no set-up has failed */
};

/* ---- one scenario ---- */

static json_t *verdict_json(const struct judged_play *play) {
    const struct event *v = &play->verdict;
    return json_pack("{s:s, s:I, s:I, s:I, s:I, s:s}", "outcome", v->outcome, "overlap_ms",
                     (json_int_t)v->overlap_ms, "oversold", (json_int_t)v->oversold, "double_writes",
                     (json_int_t)v->double_writes, "refused_stale", (json_int_t)v->refused_stale, "sentence",
                     v->sentence);
}

/* Counts and prints the outcome of a scenario. */
static void tell_outcome(struct run *run, const struct scenario *scenario,
                         const struct judged_play plays[LESSON_PLAYS]) {
    const struct event *broken = &plays[0].verdict, *fixed = &plays[1].verdict;
    bool taught = lesson_is_taught(plays);
    run->count++;
    run->taught += taught;
    for (int i = 0; i < LESSON_PLAYS; i++)
        run->set_up = run->set_up && strcmp(plays[i].verdict.outcome, "setup-failed") != 0;
    fprintf(run->table, "%-20s %-15s %-13s %6lld ms %8lld   %s\n", scenario->name, broken->outcome,
            fixed->outcome, (long long)broken->overlap_ms, (long long)broken->oversold,
            taught ? "yes" : "NO");
    if (!taught)
        fprintf(run->table, "    broken: %s\n    fixed: %s\n", broken->sentence, fixed->sentence);
    for (int i = 0; i < LESSON_PLAYS && scenario->shows_steps; i++) {
        fprintf(run->table, "    %s: ", plays[i].log.play.play);
        if (!steps_print(run->table, &plays[i].log))
            fputc('\n', run->table);
    }
    json_array_append_new(run->json,
                          json_pack("{s:s, s:b, s:o, s:o}", "scenario", scenario->name, "taught", taught,
                                    "broken", verdict_json(&plays[0]), "fixed", verdict_json(&plays[1])));
}

static void show_progress(const struct scenario *scenario, const char *what) {
    if (isatty(STDERR_FILENO))
        fprintf(stderr, "\r\033[K%s%s%s", scenario->name, *what != '\0' ? ": " : "\r\033[K", what);
}

static bool run_play(const struct run *run, const struct scenario *scenario, bool broken,
                     struct judged_play *played, char *error, size_t error_size) {
    char events[LESSON_PATH_SIZE], logs[LESSON_PATH_SIZE];
    lesson_path(events, run->options.out, scenario->name, lesson_events_file(broken));
    lesson_path(logs, run->options.out, scenario->name, broken ? "logs.broken" : "logs.fixed");
    const struct play_plan plan = {.scenario = scenario,
                                   .broken = broken,
                                   .seed = (int64_t)run->options.seed,
                                   .work = run->directory.path,
                                   .logs = logs,
                                   .events = events};
    show_progress(scenario, broken ? "broken …" : "fixed …");
    bool good = play_run(&plan, played, error, error_size);
    show_progress(scenario, "");
    return good;
}

/* Makes a directory, unless it is there. */
static bool make_directory(const char *path) {
    return mkdir(path, 0777) == 0 || errno == EEXIST;
}

/* Plays a scenario broken and fixed, and writes its report. Returns the exit status. */
static int run_scenario(struct run *run, const struct scenario *scenario) {
    struct judged_play plays[LESSON_PLAYS];
    char path[LESSON_PATH_SIZE], error[300];
    int played = 0;
    lesson_path(path, run->options.out, scenario->name, "");
    if (!make_directory(path))
        return command_fail(EXIT_FAILED, path, strerror(errno));
    while (played < LESSON_PLAYS && run_play(run, scenario, played == 0, &plays[played], error, sizeof error))
        played++;
    bool good = played == LESSON_PLAYS;
    if (good) {
        tell_outcome(run, scenario, plays);
        snprintf(error, sizeof error, "pictures and report could not be written to %.200s", path);
        good = lesson_write(run->options.out, scenario, plays);
    }
    while (played > 0)
        judged_play_free(&plays[--played]);
    return good ? 0 : command_fail(EXIT_FAILED, scenario->name, error);
}

/* ---- all scenarios ---- */

static bool run_is_wanted(const struct run_options *o, const char *name) {
    for (unsigned i = 0; i < o->names.count; i++) {
        if (strcmp(o->names.texts[i], "all") == 0 || strcmp(o->names.texts[i], name) == 0)
            return true;
    }
    return false;
}

/* Returns false, and the reason in `error`, if a name is wrong. */
static bool check_names(const struct run_options *o, char *error, size_t error_size) {
    for (unsigned i = 0; i < o->names.count; i++) {
        if (strcmp(o->names.texts[i], "all") != 0 && !scenario_find(o->names.texts[i])) {
            snprintf(error, error_size, "there is no scenario \"%.60s\": seckill-lab list names them",
                     o->names.texts[i]);
            return false;
        }
    }
    if (o->names.count == 0)
        snprintf(error, error_size, "say which scenarios, or all: seckill-lab list names them");
    return o->names.count > 0;
}

static bool write_json(const struct run *run) {
    const char *file = run->options.json;
    if (!file)
        return true;
    FILE *out = strcmp(file, "-") == 0 ? stdout : fopen(file, "we");
    json_t *all = json_pack("{s:I, s:b, s:O}", "seed", (json_int_t)run->options.seed, "taught",
                            run->taught == run->count, "scenarios", run->json);
    bool good = out && all && json_dumpf(all, out, JSON_INDENT(2)) == 0 && fputc('\n', out) > 0;
    json_decref(all);
    if (out && out != stdout)
        good = fclose(out) == 0 && good;
    return good;
}

static int run_all(struct run *run) {
    int code = 0;
    fprintf(run->table, "%-20s %-15s %-13s %9s %8s   %s\n", "scenario", "broken", "fixed", "overlap",
            "oversold", "as taught");
    for (int i = 0; code == 0 && scenarios[i]; i++) {
        if (run_is_wanted(&run->options, scenarios[i]->name))
            code = run_scenario(run, scenarios[i]);
        fflush(run->table);
    }
    if (code == 0 && !lesson_write_index(run->options.out))
        code = command_fail(EXIT_FAILED, run->options.out, "index.html could not be written");
    if (code == 0 && !write_json(run))
        code = command_fail(EXIT_FAILED, run->options.json, "could not be written");
    if (code != 0)
        return code;
    fprintf(run->table, "%d of %d as taught, seed %llu. The report: %s/index.html\n", run->taught, run->count,
            (unsigned long long)run->options.seed, run->options.out);
    return !run->set_up ? EXIT_FAILED : run->taught == run->count ? 0 : EXIT_NOT_TAUGHT;
}

int run_command(char *const *argv) {
    static struct run run;
    char error[200];
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    run = (struct run){
        .options = {.seed = (uint64_t)now.tv_sec % 1000000, .out = "lab"}, .table = stdout, .set_up = true};
    enum flags_status status = flags_read(run_flags, sizeof run_flags / sizeof run_flags[0], argv,
                                          &run.options, error, sizeof error);
    if (status == FLAGS_RUN && !check_names(&run.options, error, sizeof error))
        status = FLAGS_WRONG;
    if (status != FLAGS_RUN)
        return flags_answer(status, "seckill-lab", run_help, error);
    if (run.options.json && strcmp(run.options.json, "-") == 0)
        run.table = stderr;
    if (!make_directory(run.options.out))
        return command_fail(EXIT_FAILED, run.options.out, strerror(errno));
    if (!directory_open(&run.directory, "seckill-lab"))
        return command_fail(EXIT_FAILED, "a directory for the servers", strerror(errno));
    run.json = json_array();
    int code = run_all(&run);
    json_decref(run.json);
    directory_close(&run.directory);
    return code;
}
