/* lock-bench: tries every lock, measures its cases, and reports. Its help text is in bench_options.c. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lock/bench/bench.h"

enum exit_code { EXIT_MEASURED = 0, EXIT_WRONG = 1, EXIT_USAGE = 2, EXIT_FAILED = 3, EXIT_CTRL_C = 130 };

struct bench_session {
    struct bench_options options;
    unsigned caps[FLAG_TEXTS];
    struct bench_report report;
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
        struct bench_row *row = &s->report.rows[s->report.count];
        if (s->progress)
            fprintf(stderr, "\r\033[K  %u of %u", i + 1, count);
        enum bench_run_status status = bench_run(&cases[i], &stop, row, error, sizeof error);
        if (s->progress)
            fprintf(stderr, "\r\033[K");
        if (status == BENCH_INTERRUPTED)
            return EXIT_CTRL_C;
        if (status == BENCH_FAILED)
            return bench_fail_with_lock(EXIT_FAILED, cases[i].url, error);
        s->report.count++;
        bench_print_row(s->table, row);
        if (row->pairs == 0 && row->errors > 0) /* the store is gone, also for the next rows */
            return EXIT_FAILED;
    }
    return EXIT_MEASURED;
}

/* True: a row of that lock has a fault. */
static bool shows_wrong(const struct bench_session *s, const char *url) {
    for (unsigned i = 0; i < s->report.count; i++) {
        if (s->report.rows[i].what.url == url && bench_wrong(&s->report.rows[i]) > 0)
            return true;
    }
    return false;
}

static int run_lock(struct bench_session *s, unsigned which) {
    struct bench_case cases[BENCH_CASES];
    const char *url = s->options.urls.texts[which];
    bool one_process = !(s->caps[which] & LOCK_IS_SHARED) && !s->options.teaching, left_out;
    unsigned count = bench_plan(&s->options, url, one_process, cases, &left_out);
    struct bench_row *rows = realloc(s->report.rows, (s->report.count + count + 1) * sizeof *s->report.rows);
    if (!rows)
        return bench_fail(EXIT_FAILED, "no memory", "for the rows");
    s->report.rows = rows;
    bench_print_head(s->table, url);
    int code = run_cases(s, cases, count);
    if (code == EXIT_MEASURED && !(s->caps[which] & LOCK_IS_SAFE) && !shows_wrong(s, url))
        fputs("  It is known to be wrong, though this run did not show it. --hold makes it more likely.\n",
              s->table);
    if (left_out)
        fputs("  It works within one process only: rows with several processes on one key need --teaching.\n",
              s->table);
    return code;
}

/* Returns the exit status: a fault of a lock outweighs how the run ended. */
static int judge_rows(const struct bench_report *report, int code) {
    for (unsigned i = 0; i < report->count; i++) {
        if (bench_wrong(&report->rows[i]) > 0)
            return EXIT_WRONG;
        if (report->rows[i].errors > 0 && code == EXIT_MEASURED)
            code = EXIT_FAILED;
    }
    return code;
}

static int run_all(struct bench_session *s) {
    int code = EXIT_MEASURED;
    s->progress = isatty(STDERR_FILENO) == 1;
    s->report.machine = bench_machine_read();
    bench_print_machine(s->table, &s->report.machine);
    for (unsigned i = 0; i < s->options.urls.count && code == EXIT_MEASURED; i++)
        code = run_lock(s, i);
    s->report.interrupted = code == EXIT_CTRL_C;
    fputs(s->report.interrupted ? "\ninterrupted\n" : "\n", s->table);
    bench_print_faults(s->table, &s->report);
    fflush(s->table);
    code = judge_rows(&s->report, code);
    if (s->json && !bench_write_json(s->json, &s->report))
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
    free(session.report.rows);
    return code;
}
