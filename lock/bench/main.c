/* lock-bench: tries every lock, measures its cases, and reports: a table, row by row, and the same as JSON.
 * Its help text is in bench_options.c. */
#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "lock/bench/bench.h"

enum exit_code { EXIT_MEASURED = 0, EXIT_WRONG = 1, EXIT_USAGE = 2, EXIT_FAILED = 3, EXIT_CTRL_C = 130 };

enum { DIGITS = 9 }; /* of a number in JSON */

/* The machine that the results are measured on. */
struct bench_machine {
    int cores;
    char cpu[128]; /* "unknown": the kernel does not say */
    char kernel[160];
};

struct bench_session {
    struct bench_options options;
    unsigned caps[FLAG_TEXTS];
    struct bench_machine machine;
    struct bench_row *rows;
    unsigned count;
    bool interrupted;
    FILE *table, *json; /* json may be NULL */
    bool progress;
};

static volatile sig_atomic_t stop;

/* A second Ctrl-C ends the program at once, and its child processes with it. */
static void bench_on_signal(int number) {
    stop = 1;
    signal(number, SIG_DFL);
}

static void catch_signals(void) {
    struct sigaction action = {.sa_handler = bench_on_signal};
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    signal(SIGPIPE, SIG_IGN);
}

static int bench_fail(int code, const char *what, const char *why) {
    fprintf(stderr, "lock-bench: %s: %s\n", what, why);
    return code;
}

static int bench_fail_with_lock(int code, const char *url, const char *why) {
    char name[BENCH_NAME_SIZE];
    bench_name(url, name);
    return bench_fail(code, name, why);
}

/* ---- the table ---- */

static void print_head(FILE *out, const char *url) {
    char name[BENCH_NAME_SIZE];
    bench_name(url, name);
    fprintf(out, "\n%s\n", name);
    fprintf(out, "  %-6s %9s %10s  %10s %10s  %28s  %15s  %11s  %11s\n", "", "", "", "", "",
            "waiting, us        ", "requests a", "share", "of process");
    fprintf(out, "  %-6s %9s %10s  %10s %10s  %8s %9s %9s  %6s %8s  %5s %5s  %5s %5s  %s\n", "keys",
            "processes", "contenders", "pairs/s", "handover/s", "p50", "p99", "max", "pair", "handover",
            "least", "most", "least", "most", "wrong");
}

static void print_quotient(FILE *out, int width, uint64_t requests, uint64_t count) {
    if (requests > 0 && count > 0)
        fprintf(out, " %*.2f", width, (double)requests / (double)count);
    else
        fprintf(out, " %*s", width, "-");
}

static void print_row(FILE *out, const struct bench_row *row) {
    const struct bench_case *what = &row->what;
    fprintf(out, "  %-6s %9u %10u  %10.0f ", what->shared ? "shared" : "own", what->processes,
            what->contenders, (double)row->pairs / row->seconds);
    if (what->shared)
        fprintf(out, "%10.0f", (double)row->handovers / row->seconds);
    else
        fprintf(out, "%10s", "-");
    fprintf(out, "  %8.1f %9.1f %9.1f ", row->wait_p50_us, row->wait_p99_us, row->wait_max_us);
    print_quotient(out, 6, row->requests, row->pairs);
    print_quotient(out, 8, row->requests, row->handovers);
    fprintf(out, "  %5.2f %5.2f  %5.2f %5.2f  %" PRIu64 "\n", row->of_contender.least, row->of_contender.most,
            row->of_process.least, row->of_process.most, bench_wrong(row));
    fflush(out);
}

static void print_where(FILE *out, const char *word, const struct bench_row *row) {
    char name[BENCH_NAME_SIZE];
    bench_name(row->what.url, name);
    fprintf(out, "%s  %s, %s, processes %u, contenders %u: ", word, name,
            row->what.shared ? "shared key" : "own keys", row->what.processes, row->what.contenders);
}

static void print_faults(const struct bench_session *s) {
    FILE *out = s->table;
    for (unsigned i = 0; i < s->count; i++) {
        const struct bench_row *row = &s->rows[i];
        if (bench_wrong(row) > 0) {
            print_where(out, "WRONG", row);
            fprintf(out,
                    "%" PRIu64 " times two holders at once, %" PRIu64 " updates lost, %" PRIu64
                    " fences that did not grow, %" PRIu64 " grants lost before their time\n",
                    row->two_holders, row->lost_updates, row->old_fences, row->lost_grants);
        }
        if (row->errors > 0) {
            print_where(out, "FAILED", row);
            fprintf(out, "%" PRIu64 " calls, the first: %s%s%s\n", row->errors, lock_status_text(row->error),
                    row->why[0] ? ", " : "", row->why);
        }
    }
}

/* ---- JSON ---- */

/* null: it is not known. */
static json_t *quotient(uint64_t requests, uint64_t count) {
    return requests > 0 && count > 0 ? json_real((double)requests / (double)count) : json_null();
}

static json_t *write_share(const struct bench_share *share) {
    return json_pack("{s:f, s:f}", "least", share->least, "most", share->most);
}

static json_t *write_row(const struct bench_row *row) {
    const struct bench_case *what = &row->what;
    char name[BENCH_NAME_SIZE];
    bench_name(what->url, name);
    json_t *wait = json_pack("{s:f, s:f, s:f}", "p50", row->wait_p50_us, "p99", row->wait_p99_us, "max",
                             row->wait_max_us);
    json_t *requests = json_pack("{s:o, s:o}", "per_pair", quotient(row->requests, row->pairs),
                                 "per_handover", quotient(row->requests, row->handovers));
    json_t *wrong = json_pack("{s:I, s:I, s:I, s:I}", "two_holders", (json_int_t)row->two_holders,
                              "lost_updates", (json_int_t)row->lost_updates, "old_fences",
                              (json_int_t)row->old_fences, "lost_grants", (json_int_t)row->lost_grants);
    return json_pack(
        "{s:s, s:s, s:i, s:i, s:i, s:f, s:I, s:f, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:I, s:o}", "url", name,
        "keys", what->shared ? "shared" : "own", "processes", (int)what->processes, "contenders",
        (int)what->contenders, "hold_us", (int)what->hold_us, "seconds", row->seconds, "pairs",
        (json_int_t)row->pairs, "pairs_per_second", (double)row->pairs / row->seconds, "handovers",
        what->shared ? json_integer((json_int_t)row->handovers) : json_null(), "handovers_per_second",
        what->shared ? json_real((double)row->handovers / row->seconds) : json_null(), "wait_us", wait,
        "requests", requests, "contender_share", write_share(&row->of_contender), "process_share",
        write_share(&row->of_process), "wrong", wrong, "errors", (json_int_t)row->errors, "first_error",
        row->errors > 0 ? json_string(lock_status_text(row->error)) : json_null());
}

/* Writes one JSON object. False: it could not be written. */
static bool write_json(const struct bench_session *s) {
    const struct bench_machine *machine = &s->machine;
    json_t *rows = json_array();
    for (unsigned i = 0; i < s->count; i++)
        json_array_append_new(rows, write_row(&s->rows[i]));
    json_t *json =
        json_pack("{s:{s:i, s:s, s:s}, s:b, s:o}", "machine", "cores", machine->cores, "cpu", machine->cpu,
                  "kernel", machine->kernel, "interrupted", s->interrupted, "rows", rows);
    bool good = json && json_dumpf(json, s->json, JSON_INDENT(2) | JSON_REAL_PRECISION(DIGITS)) == 0 &&
                fputc('\n', s->json) != EOF && fflush(s->json) == 0;
    json_decref(json);
    return good;
}

/* ---- the run ---- */

/* Tries every lock before the first one is measured, so that a wrong URL fails at once. */
static int probe_all(struct bench_session *s) {
    const struct bench_options *o = &s->options;
    for (unsigned i = 0; i < o->urls.count; i++) {
        char error[LOCK_ERROR_SIZE];
        enum lock_status status =
            bench_probe(o->urls.texts[i], o->teaching, &s->caps[i], error, sizeof error);
        if (stop)
            return EXIT_CTRL_C;
        if (status != LOCK_OK)
            return bench_fail_with_lock(status == LOCK_CONFIG ? EXIT_USAGE : EXIT_FAILED, o->urls.texts[i],
                                        error);
    }
    return EXIT_MEASURED;
}

/* Before anything is measured, so that a wrong file name fails at once. */
static int open_json(struct bench_session *s) {
    const char *file = s->options.json;
    bool to_stdout = file && strcmp(file, "-") == 0;
    s->table = to_stdout ? stderr : stdout;
    s->json = to_stdout ? stdout : file ? fopen(file, "we") : NULL;
    return file && !s->json ? bench_fail(EXIT_USAGE, file, strerror(errno)) : EXIT_MEASURED;
}

static int run_cases(struct bench_session *s, const struct bench_case *cases, unsigned count) {
    char error[LOCK_ERROR_SIZE + 64];
    for (unsigned i = 0; i < count; i++) {
        struct bench_row *row = &s->rows[s->count];
        if (s->progress)
            fprintf(stderr, "\r\033[K  %u of %u", i + 1, count);
        enum bench_run_status status = bench_run(&cases[i], &stop, row, error, sizeof error);
        if (s->progress)
            fprintf(stderr, "\r\033[K");
        if (status == BENCH_INTERRUPTED)
            return EXIT_CTRL_C;
        if (status == BENCH_FAILED)
            return bench_fail_with_lock(EXIT_FAILED, cases[i].url, error);
        s->count++;
        print_row(s->table, row);
        if (row->pairs == 0 && row->errors > 0) /* the store is gone, also for the next rows */
            return EXIT_FAILED;
    }
    return EXIT_MEASURED;
}

/* True: a row of that lock has a fault. */
static bool shows_wrong(const struct bench_session *s, const char *url) {
    for (unsigned i = 0; i < s->count; i++) {
        if (s->rows[i].what.url == url && bench_wrong(&s->rows[i]) > 0)
            return true;
    }
    return false;
}

static int run_lock(struct bench_session *s, unsigned which) {
    struct bench_case cases[BENCH_CASES];
    const char *url = s->options.urls.texts[which];
    bool one_process = !(s->caps[which] & LOCK_IS_SHARED) && !s->options.teaching, left_out;
    unsigned count = bench_plan(&s->options, url, one_process, cases, &left_out);
    struct bench_row *rows = realloc(s->rows, (s->count + count + 1) * sizeof *s->rows);
    if (!rows)
        return bench_fail(EXIT_FAILED, "no memory", "for the rows");
    s->rows = rows;
    print_head(s->table, url);
    int code = run_cases(s, cases, count);
    if (code == EXIT_MEASURED && !(s->caps[which] & LOCK_IS_SAFE) && !shows_wrong(s, url))
        fputs("  It is known to be wrong, though this run did not show it. --hold makes it more likely.\n",
              s->table);
    if (left_out)
        fputs("  It works within one process only: rows with several processes on one key need --teaching.\n",
              s->table);
    return code;
}

static struct bench_machine read_machine(void) {
    struct bench_machine machine = {.cores = (int)sysconf(_SC_NPROCESSORS_ONLN), .cpu = "unknown"};
    struct utsname names;
    char line[512];
    FILE *file = fopen("/proc/cpuinfo", "re");
    while (file && fgets(line, sizeof line, file) && sscanf(line, "model name : %127[^\n]", machine.cpu) != 1)
        ;
    if (file)
        fclose(file);
    if (uname(&names) == 0)
        snprintf(machine.kernel, sizeof machine.kernel, "%s %s", names.sysname, names.release);
    return machine;
}

/* Returns the exit status: a fault of a lock outweighs how the run ended. */
static int judge_rows(const struct bench_session *s, int code) {
    for (unsigned i = 0; i < s->count; i++) {
        if (bench_wrong(&s->rows[i]) > 0)
            return EXIT_WRONG;
        if (s->rows[i].errors > 0 && code == EXIT_MEASURED)
            code = EXIT_FAILED;
    }
    return code;
}

static int run_all(struct bench_session *s) {
    int code = EXIT_MEASURED;
    s->progress = isatty(STDERR_FILENO) == 1;
    s->machine = read_machine();
    fprintf(s->table, "%d cores of %s, %s\n", s->machine.cores, s->machine.cpu, s->machine.kernel);
    for (unsigned i = 0; i < s->options.urls.count && code == EXIT_MEASURED; i++)
        code = run_lock(s, i);
    s->interrupted = code == EXIT_CTRL_C;
    fputs(s->interrupted ? "\ninterrupted\n" : "\n", s->table);
    print_faults(s);
    fflush(s->table);
    code = judge_rows(s, code);
    if (s->json && !write_json(s))
        code =
            bench_fail(code == EXIT_WRONG ? EXIT_WRONG : EXIT_FAILED, s->options.json, "cannot be written");
    return code;
}

int main(int argc, char **argv) {
    static struct bench_session session;
    char error[256];
    (void)argc;
    enum flags_status status = bench_options_read(argv, &session.options, error, sizeof error);
    if (status != FLAGS_RUN)
        return flags_answer(status, "lock-bench", bench_help, error);
    catch_signals();
    int code = probe_all(&session);
    if (code == EXIT_MEASURED)
        code = open_json(&session);
    if (code == EXIT_MEASURED)
        code = run_all(&session);
    if (session.json && fclose(session.json) != 0 && code == EXIT_MEASURED)
        code = bench_fail(EXIT_FAILED, session.options.json, strerror(errno));
    free(session.rows);
    return code;
}
