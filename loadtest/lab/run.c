#include "loadtest/lab/run.h"

#include <errno.h>
#include <jansson.h>
#include <libgen.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/flags.h"
#include "loadtest/lab/draw/index.h"
#include "loadtest/lab/draw/steps.h"
#include "loadtest/lab/draw/timeline.h"
#include "loadtest/lab/draw/trace.h"
#include "loadtest/lab/play.h"
#include "loadtest/lab/stage/directory.h"

static const char help[] =
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

enum { EXIT_NOT_TAUGHT = 1, EXIT_USAGE = 2, EXIT_FAILED = 3, PLAYS = 2, PATH_SIZE = 512, ROWS = 64 };

struct options {
    struct flag_texts names;
    uint64_t seed;
    const char *out, *json;
};

static const struct flag flags[] = {
    {"NAME", flag_read_texts, offsetof(struct options, names), 0, 0, FLAG_TEXTS_MUST},
    {"--seed", flag_read_u64, offsetof(struct options, seed), 0, 1e15, NULL},
    {"--out", flag_read_text, offsetof(struct options, out), 0, 0, "the name of a directory"},
    {"--json", flag_read_text, offsetof(struct options, json), 0, 0, "the name of a file, or -"},
};

struct run {
    struct options options;
    struct directory directory; /* of the servers */
    char programs[PATH_SIZE];
    FILE *table;
    json_t *json;
    struct index_row rows[ROWS];
    struct judged_play plays[ROWS][PLAYS]; /* the rows' texts are theirs */
    int count;
    bool taught, set_up;
};

static int fail(int code, const char *what, const char *why) {
    fprintf(stderr, "seckill-lab: %s: %s\n", what, why);
    return code;
}

/* ---- files ---- */

static bool make_directory(const char *path) {
    return mkdir(path, 0777) == 0 || errno == EEXIST;
}

static bool write_file(const char *path, bool (*draw)(FILE *, const struct judged_play[], int),
                       const struct judged_play plays[]) {
    FILE *out = fopen(path, "we");
    if (out == NULL)
        return false;
    bool good = draw(out, plays, PLAYS);
    return fclose(out) == 0 && good;
}

static bool write_report(const char *path, const struct judged_play plays[], const struct report_text *text) {
    FILE *out = fopen(path, "we");
    if (out == NULL)
        return false;
    bool good = html_draw(out, plays, PLAYS, text);
    return fclose(out) == 0 && good;
}

static void path_of(const struct run *run, char path[PATH_SIZE], const char *name, const char *file) {
    snprintf(path, PATH_SIZE, "%s/%s%s%s", run->options.out, name, *name != '\0' ? "/" : "", file);
}

/* ---- one scenario ---- */

static bool is_outcome(const struct judged_play *play, const char *outcome) {
    return strcmp(play->verdict.outcome, outcome) == 0;
}

static json_t *verdict_json(const struct judged_play *play) {
    const struct event *v = &play->verdict;
    return json_pack("{s:s, s:I, s:I, s:I, s:I, s:s}", "outcome", v->outcome, "overlap_ms",
                     (json_int_t)v->overlap_ms, "oversold", (json_int_t)v->oversold, "double_writes",
                     (json_int_t)v->double_writes, "refused_stale", (json_int_t)v->refused_stale, "sentence",
                     v->sentence);
}

static void print_row(const struct run *run, const struct index_row *row) {
    fprintf(run->table, "%-20s %-15s %-13s %6lld ms %8lld   %s\n", row->name, row->broken_outcome,
            row->fixed_outcome, (long long)row->overlap_ms, (long long)row->oversold,
            row->taught ? "yes" : "NO");
    for (int i = 0; i < PLAYS && !row->taught; i++)
        fprintf(run->table, "    %s: %s\n", i == 0 ? "broken" : "fixed",
                i == 0 ? row->broken_sentence : row->fixed_sentence);
}

static void add_row(struct run *run, const struct scenario *scenario, const struct judged_play plays[PLAYS]) {
    struct index_row *row = &run->rows[run->count++];
    *row = (struct index_row){
        .name = scenario->name,
        .title = scenario->text.title,
        .seed = (int64_t)run->options.seed,
        .broken_outcome = plays[0].verdict.outcome,
        .fixed_outcome = plays[1].verdict.outcome,
        .broken_sentence = plays[0].verdict.sentence,
        .fixed_sentence = plays[1].verdict.sentence,
        .overlap_ms = plays[0].verdict.overlap_ms,
        .oversold = plays[0].verdict.oversold,
        .taught = is_outcome(&plays[0], "reproduced") && is_outcome(&plays[1], "held"),
    };
    run->taught = run->taught && row->taught;
    for (int i = 0; i < PLAYS; i++)
        run->set_up = run->set_up && !is_outcome(&plays[i], "setup-failed");
    print_row(run, row);
    for (int i = 0; i < PLAYS && scenario->shows_steps; i++) {
        fprintf(run->table, "    %s: ", i == 0 ? "broken" : "fixed");
        steps_print(run->table, &plays[i].log);
    }
    json_array_append_new(run->json,
                          json_pack("{s:s, s:b, s:o, s:o}", "scenario", scenario->name, "taught", row->taught,
                                    "broken", verdict_json(&plays[0]), "fixed", verdict_json(&plays[1])));
}

static void show_progress(const struct scenario *scenario, const char *what) {
    if (isatty(STDERR_FILENO))
        fprintf(stderr, "\r\033[K%s%s%s", scenario->name, *what != '\0' ? ": " : "\r\033[K", what);
}

/* Plays it twice, and draws. */
static int run_scenario(struct run *run, const struct scenario *scenario) {
    struct judged_play *plays = run->plays[run->count];
    char path[PATH_SIZE], logs[PATH_SIZE], error[300];
    path_of(run, path, scenario->name, "");
    if (!make_directory(path))
        return fail(EXIT_FAILED, path, strerror(errno));
    for (int i = 0; i < PLAYS; i++) {
        path_of(run, path, scenario->name, i == 0 ? "events.broken.jsonl" : "events.fixed.jsonl");
        path_of(run, logs, scenario->name, i == 0 ? "logs.broken" : "logs.fixed");
        const struct play_plan plan = {.scenario = scenario,
                                       .broken = i == 0,
                                       .seed = (int64_t)run->options.seed,
                                       .work = run->directory.path,
                                       .programs = run->programs,
                                       .logs = logs,
                                       .events = path};
        show_progress(scenario, i == 0 ? "broken …" : "fixed …");
        if (!play_run(&plan, &plays[i], error, sizeof error)) {
            if (i > 0)
                judged_play_free(&plays[0]);
            return fail(EXIT_FAILED, scenario->name, error);
        }
    }
    show_progress(scenario, "");
    add_row(run, scenario, plays);
    path_of(run, path, scenario->name, "timeline.svg");
    bool good = write_file(path, timeline_draw, plays);
    path_of(run, path, scenario->name, "trace.json");
    good = write_file(path, trace_draw, plays) && good;
    path_of(run, path, scenario->name, "report.html");
    good = write_report(path, plays, &scenario->text) && good;
    return good ? 0 : fail(EXIT_FAILED, path, "pictures and report could not be written");
}

/* ---- all ---- */

static bool is_wanted(const struct options *o, const char *name) {
    for (unsigned i = 0; i < o->names.count; i++) {
        if (strcmp(o->names.texts[i], "all") == 0 || strcmp(o->names.texts[i], name) == 0)
            return true;
    }
    return false;
}

/* False: `error` says what is wrong. */
static bool check_names(const struct options *o, char *error, size_t error_size) {
    for (unsigned i = 0; i < o->names.count; i++) {
        if (strcmp(o->names.texts[i], "all") != 0 && scenario_find(o->names.texts[i]) == NULL) {
            snprintf(error, error_size, "there is no scenario \"%.60s\": seckill-lab list names them",
                     o->names.texts[i]);
            return false;
        }
    }
    if (o->names.count == 0)
        snprintf(error, error_size, "say which scenarios, or all: seckill-lab list names them");
    return o->names.count > 0;
}

static bool write_index(const struct run *run) {
    char path[PATH_SIZE];
    path_of(run, path, "", "index.html");
    FILE *out = fopen(path, "we");
    if (out == NULL)
        return false;
    index_draw(out, run->rows, run->count);
    return fclose(out) == 0;
}

static bool write_json(const struct run *run) {
    const char *file = run->options.json;
    if (file == NULL)
        return true;
    FILE *out = strcmp(file, "-") == 0 ? stdout : fopen(file, "we");
    json_t *all = json_pack("{s:I, s:b, s:O}", "seed", (json_int_t)run->options.seed, "taught", run->taught,
                            "scenarios", run->json);
    bool good =
        out != NULL && all != NULL && json_dumpf(all, out, JSON_INDENT(2)) == 0 && fputc('\n', out) > 0;
    json_decref(all);
    if (out != NULL && out != stdout)
        good = fclose(out) == 0 && good;
    return good;
}

/* Where this program is, and with it the others. */
static bool find_programs(char path[PATH_SIZE]) {
    ssize_t length = readlink("/proc/self/exe", path, PATH_SIZE - 1);
    if (length <= 0)
        return false;
    path[length] = '\0';
    char *slash = strrchr(path, '/');
    *slash = '\0';
    return true;
}

static int run_all(struct run *run) {
    int code = 0, taught = 0;
    fprintf(run->table, "%-20s %-15s %-13s %9s %8s   %s\n", "scenario", "broken", "fixed", "overlap",
            "oversold", "as taught");
    for (int i = 0; code == 0 && scenarios[i] != NULL; i++) {
        if (is_wanted(&run->options, scenarios[i]->name))
            code = run_scenario(run, scenarios[i]);
        fflush(run->table);
    }
    for (int i = 0; i < run->count; i++)
        taught += run->rows[i].taught;
    if (code == 0 && !write_index(run))
        code = fail(EXIT_FAILED, run->options.out, "index.html could not be written");
    if (code == 0 && !write_json(run))
        code = fail(EXIT_FAILED, run->options.json, "could not be written");
    if (code != 0)
        return code;
    fprintf(run->table, "%d of %d as taught, seed %llu. The report: %s/index.html\n", taught, run->count,
            (unsigned long long)run->options.seed, run->options.out);
    return !run->set_up ? EXIT_FAILED : run->taught ? 0 : EXIT_NOT_TAUGHT;
}

int run_main(char *const *argv) {
    static struct run run;
    char error[200];
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    run = (struct run){.options = {.seed = (uint64_t)now.tv_sec % 1000000, .out = "lab"},
                       .table = stdout,
                       .taught = true,
                       .set_up = true};
    enum flags_status status =
        flags_read(flags, sizeof flags / sizeof flags[0], argv, &run.options, error, sizeof error);
    if (status == FLAGS_RUN && !check_names(&run.options, error, sizeof error))
        status = FLAGS_WRONG;
    if (status != FLAGS_RUN)
        return flags_answer(status, "seckill-lab", help, error);
    if (run.options.json != NULL && strcmp(run.options.json, "-") == 0)
        run.table = stderr;
    if (!find_programs(run.programs))
        return fail(EXIT_FAILED, "/proc/self/exe", strerror(errno));
    if (!make_directory(run.options.out))
        return fail(EXIT_FAILED, run.options.out, strerror(errno));
    if (!directory_open(&run.directory))
        return fail(EXIT_FAILED, "a directory for the servers", strerror(errno));
    run.json = json_array();
    int code = run_all(&run);
    json_decref(run.json);
    for (int i = 0; i < run.count; i++) {
        for (int k = 0; k < PLAYS; k++)
            judged_play_free(&run.plays[i][k]);
    }
    directory_close(&run.directory);
    return code;
}
