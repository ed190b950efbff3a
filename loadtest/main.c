#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <unistd.h>

#include "loadtest/judge/fetch.h"
#include "loadtest/load.h"
#include "loadtest/plan/item.h"
#include "loadtest/report/report.h"
#include "loadtest/report/report_json.h"

#define BASELINE_NS UINT64_C(2000000000)
#define OTHER_FILES 32

enum exit_code { EXIT_CLEAN = 0, EXIT_VIOLATED = 1, EXIT_USAGE = 2, EXIT_INCONCLUSIVE = 3 };

struct session {
    struct options options;
    struct demand demand;
    struct target targets[FLAG_TEXTS];
    char run[REQUEST_RUN + 1];
    struct request_log log;
    struct progress progress;
    struct load load;
    struct report report;
    struct connection_pool *pool;
    struct books *before; /* of each item */
    struct books *after;
    FILE *json;           /* NULL: none */
    FILE *progress_lines; /* NULL: none */
};

static volatile sig_atomic_t stop;

static void on_signal(int number) {
    static const char word[] = "\nseckill-load: stopped without a verdict\n";
    (void)number;
    if (stop != 0) {
        ssize_t ignored = write(STDERR_FILENO, word, sizeof word - 1);
        (void)ignored;
        _exit(EXIT_INCONCLUSIVE);
    }
    stop = 1;
}

static void catch_signals(void) {
    struct sigaction action = {.sa_handler = on_signal};
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    signal(SIGPIPE, SIG_IGN);
}

static int fail(int code, const char *what, const char *why) {
    fprintf(stderr, "seckill-load: %s: %s\n", what, why);
    return code;
}

static bool allow_files(unsigned connections) {
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
        return true;
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
    return limit.rlim_cur == RLIM_INFINITY || limit.rlim_cur >= connections + OTHER_FILES;
}

/* If a target cannot be reached, the load is not the intended one. With retries the other targets get its
 * share. */
static int check_targets(const struct session *s) {
    const struct options *o = &s->options;
    for (unsigned i = 0; i < o->urls.count; i++) {
        if (s->targets[i].accepts)
            continue;
        if (!o->retries || o->urls.count == 1)
            return fail(EXIT_INCONCLUSIVE, o->urls.texts[i], fetch_text(FETCH_NO_CONNECTION));
        fail(EXIT_CLEAN, o->urls.texts[i], "WARNING: cannot connect; its requests go to the others");
    }
    return EXIT_CLEAN;
}

/* EXIT_CLEAN: all is ready for the first request. */
static int prepare(struct session *s) {
    const struct options *o = &s->options;
    if (!allow_files(o->connections))
        return fail(EXIT_USAGE, "--connections", "more than the limit of open files: see ulimit -Hn");
    for (unsigned i = 0; i < o->urls.count; i++) {
        const char *wrong = target_resolve(o->urls.texts[i], &s->targets[i]);
        if (wrong != NULL)
            return fail(EXIT_USAGE, o->urls.texts[i], wrong);
    }
    int code = check_targets(s);
    if (code != EXIT_CLEAN)
        return code;
    if (o->json != NULL) /* before the load, so that a wrong file name fails at once */
        s->json = strcmp(o->json, "-") == 0 ? stdout : fopen(o->json, "we");
    if (o->json != NULL && s->json == NULL)
        return fail(EXIT_USAGE, o->json, strerror(errno));
    if (o->progress != NULL && (s->progress_lines = fopen(o->progress, "we")) == NULL)
        return fail(EXIT_USAGE, o->progress, strerror(errno));
    s->pool = connection_pool_open(s->targets, o->urls.count, o->connections, o->seed);
    s->before = calloc(item_count(o), sizeof *s->before);
    s->after = calloc(item_count(o), sizeof *s->after);
    if (!demand_init(&s->demand, o) || s->pool == NULL || s->before == NULL || s->after == NULL)
        return fail(EXIT_INCONCLUSIVE, "no memory", "ask for fewer --connections");
    progress_init(&s->progress, s->progress_lines);
    s->report.demand = &s->demand;
    s->report.run = s->run;
    s->report.log = &s->log;
    load_init(&s->load, &s->demand, s->targets, s->run, &s->log, &s->progress, &stop);
    return EXIT_CLEAN;
}

static int show(const struct session *s) {
    static const int codes[] = {EXIT_CLEAN, EXIT_VIOLATED, EXIT_INCONCLUSIVE};
    int code = codes[s->report.verdict.kind];
    report_print(s->json == stdout ? stderr : stdout, &s->report);
    if (s->json != NULL && !report_write_json(s->json, &s->report))
        code = fail(code == EXIT_VIOLATED ? EXIT_VIOLATED : EXIT_INCONCLUSIVE, s->options.json,
                    "cannot be written");
    return code;
}

/* A run: books, load, resolution, books, orders, verdict. */
static int run(struct session *s) {
    const struct options *o = &s->options;
    struct report *r = &s->report;
    enum fetch_status status = fetch_books(s->pool, o, BASELINE_NS, &s->progress, s->before);
    if (status != FETCH_OK) {
        progress_clear(&s->progress);
        return fail(EXIT_INCONCLUSIVE, o->urls.texts[0], fetch_text(status));
    }
    load_run(&s->load, s->pool);
    r->interrupted = stop != 0 || s->load.out_of_memory;
    summary_time(&r->summary, &s->log, &s->demand, s->load.started_ns, s->load.ended_ns);
    load_resolve(&s->load, s->pool, uv_hrtime() + o->settle_ns);
    if (!request_log_match(&s->log))
        return fail(EXIT_INCONCLUSIVE, "no memory", "for the comparison with the books");
    status = fetch_books(s->pool, o, o->settle_ns, &s->progress, s->after);
    fetch_orders(s->pool, &s->demand, &s->log, &s->progress);
    progress_clear(&s->progress);

    struct books *after = status == FETCH_OK ? s->after : NULL;
    if (!verdict_reach(&s->log, &s->demand, s->before, after, &r->verdict))
        return fail(EXIT_INCONCLUSIVE, "no memory", "for the verdict");
    summary_count(&r->summary, &s->log, &s->demand);
    r->before = books_sum(s->before, item_count(o));
    r->after = books_sum(s->after, item_count(o));
    r->audit_error = fetch_text(status);
    r->connected = connection_pool_connects(s->pool);
    return show(s);
}

int main(int argc, char **argv) {
    static struct session session; /* static, since histograms and request forms make it large */
    char error[256];
    (void)argc;
    uint64_t random[2] = {0};
    if (getrandom(random, sizeof random, 0) != sizeof random)
        return fail(EXIT_INCONCLUSIVE, "getrandom", strerror(errno));
    snprintf(session.run, sizeof session.run, "%016" PRIx64, random[0]);
    enum flags_status status =
        options_read(argv, random[1] % 1000000000, &session.options, error, sizeof error);
    if (status != FLAGS_RUN)
        return flags_answer(status, "seckill-load", options_help, error);
    request_log_init(&session.log);
    catch_signals();
    int code = prepare(&session);
    if (code == EXIT_CLEAN)
        code = run(&session);
    connection_pool_close(session.pool);
    request_log_free(&session.log);
    demand_free(&session.demand);
    free(session.before);
    free(session.after);
    if (session.json != NULL)
        fclose(session.json);
    if (session.progress_lines != NULL)
        fclose(session.progress_lines);
    return code;
}
