/* seckill-load: prepares a run (targets, files, memory), goes through its steps, and turns the verdict into
 * the exit status. */
#include <errno.h>
#include <inttypes.h>
#include <netdb.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>
#include <uv.h>

#include "base/url_parts.h"
#include "loadtest/generator.h"
#include "loadtest/sale_report.h"

#define BASELINE_NS UINT64_C(2000000000) /* limit of the audits before the load */
#define OTHER_FILES 32                   /* open files beside the connections */
#define HOST_MAX    255                  /* characters */

enum exit_code { EXIT_CLEAN = 0, EXIT_VIOLATED = 1, EXIT_USAGE = 2, EXIT_INCONCLUSIVE = 3 };

/* Everything of a run. */
struct session {
    struct options options;
    struct plan plan;
    struct target targets[FLAG_TEXTS];
    char run[RUN_DIGITS + 1];
    struct request_log log;
    struct progress progress;
    struct generator generator;
    struct report report;
    struct connection_pool *pool;
    struct books *before; /* of each item */
    struct books *after;
    FILE *json; /* NULL: none */
};

static volatile sig_atomic_t stop;

static void load_on_signal(int number) {
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
    struct sigaction action = {.sa_handler = load_on_signal};
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    signal(SIGPIPE, SIG_IGN);
}

static int load_fail(int code, const char *what, const char *why) {
    fprintf(stderr, "seckill-load: %s: %s\n", what, why);
    return code;
}

/* Raises the limit of open files as far as it may be raised. False: it is too low. */
static bool allow_files(unsigned connections) {
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
        return true;
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
    return limit.rlim_cur == RLIM_INFINITY || limit.rlim_cur >= connections + OTHER_FILES;
}

static const char *target_split_url(const char *url, struct host *host) {
    if (strncmp(url, "http://", strlen("http://")) != 0)
        return "it must begin with http:// (no TLS: test behind the proxy that terminates it)";
    const char *at = url + strlen("http://");
    size_t length = strcspn(at, "/?#");
    if (length == 0)
        return "it has no host";
    if (at[length] != '\0' && strcmp(at + length, "/") != 0)
        return "it must not have a path: /v1/... is added to it";
    const char *wrong = host_read(host, at, length, 80);
    return !wrong && host->length > HOST_MAX ? "has a host that is too long" : wrong;
}

static bool target_accepts(const struct addrinfo *info) {
    int fd = socket(info->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return false;
    struct timeval limit = {.tv_sec = 2};
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
    bool good = connect(fd, info->ai_addr, info->ai_addrlen) == 0;
    close(fd);
    return good;
}

/* Resolves http://HOST[:PORT][/] to the first address that accepts a connection now, or else to the first
 * address. Returns NULL, or what is wrong with the URL. */
static const char *target_resolve(const char *url, struct target *target, bool *accepts) {
    struct host where;
    const char *wrong = target_split_url(url, &where);
    if (wrong)
        return wrong;
    char host[HOST_MAX + 1], port[6];
    snprintf(host, sizeof host, "%.*s", (int)where.length, where.name);
    snprintf(port, sizeof port, "%d", where.port);
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV};
    struct addrinfo *list = NULL;
    int error = getaddrinfo(host, port, &hints, &list);
    if (error != 0 || !list)
        return gai_strerror(error);
    const struct addrinfo *chosen = list;
    *target = (struct target){.host = ""};
    for (const struct addrinfo *info = list; !*accepts && info; info = info->ai_next) {
        if (target_accepts(info)) {
            *accepts = true;
            chosen = info;
        }
    }
    memcpy(&target->address, chosen->ai_addr, chosen->ai_addrlen);
    bool literal_6 = strchr(host, ':') != NULL;
    snprintf(target->host, sizeof target->host, literal_6 ? "[%s]:%s" : "%s:%s", host, port);
    freeaddrinfo(list);
    return NULL;
}

/* If a target cannot be reached, the load is not the intended one. With retries the other targets get its
 * share. */
static int session_prepare_targets(struct session *s) {
    const struct options *o = &s->options;
    bool accepts[FLAG_TEXTS] = {false};
    for (unsigned i = 0; i < o->urls.count; i++) {
        const char *wrong = target_resolve(o->urls.texts[i], &s->targets[i], &accepts[i]);
        if (wrong)
            return load_fail(EXIT_USAGE, o->urls.texts[i], wrong);
    }
    for (unsigned i = 0; i < o->urls.count; i++) {
        if (accepts[i])
            continue;
        if (!o->retries || o->urls.count == 1)
            return load_fail(EXIT_INCONCLUSIVE, o->urls.texts[i], fetch_text(FETCH_NO_CONNECTION));
        load_fail(EXIT_CLEAN, o->urls.texts[i], "WARNING: cannot connect; its requests go to the others");
    }
    return EXIT_CLEAN;
}

/* Returns EXIT_CLEAN if everything is ready for the first request. */
static int session_prepare(struct session *s) {
    const struct options *o = &s->options;
    if (!allow_files(o->connections))
        return load_fail(EXIT_USAGE, "--connections", "more than the limit of open files: see ulimit -Hn");
    int code = session_prepare_targets(s);
    if (code != EXIT_CLEAN)
        return code;
    if (o->json) /* before the load, so that a wrong file name fails at once */
        s->json = strcmp(o->json, "-") == 0 ? stdout : fopen(o->json, "we");
    if (o->json && !s->json)
        return load_fail(EXIT_USAGE, o->json, strerror(errno));
    FILE *lines = o->progress ? fopen(o->progress, "we") : NULL;
    if (o->progress && !lines)
        return load_fail(EXIT_USAGE, o->progress, strerror(errno));
    progress_init(&s->progress, lines);
    s->pool = connection_pool_open(s->targets, o->urls.count, o->connections, o->seed);
    s->before = calloc(item_count(o), sizeof *s->before);
    s->after = calloc(item_count(o), sizeof *s->after);
    if (!plan_init(&s->plan, o) || !s->pool || !s->before || !s->after)
        return load_fail(EXIT_INCONCLUSIVE, "no memory", "ask for fewer --connections");
    s->report.plan = &s->plan;
    s->report.run = s->run;
    s->report.log = &s->log;
    generator_init(&s->generator, &s->plan, s->targets, s->run, &s->log, &s->progress, &stop);
    return EXIT_CLEAN;
}

static int session_show(const struct session *s) {
    static const int codes[] = {EXIT_CLEAN, EXIT_VIOLATED, EXIT_INCONCLUSIVE};
    int code = codes[s->report.verdict.kind];
    report_print(s->json == stdout ? stderr : stdout, &s->report);
    if (s->json && !report_write_json(s->json, &s->report))
        code = load_fail(code == EXIT_VIOLATED ? EXIT_VIOLATED : EXIT_INCONCLUSIVE, s->options.json,
                         "cannot be written");
    return code;
}

/* Audits, loads, resolves, audits again, checks the orders, and judges. */
static int session_run(struct session *s) {
    const struct options *o = &s->options;
    struct report *r = &s->report;
    enum fetch_status status = fetch_books(s->pool, o, BASELINE_NS, &s->progress, s->before);
    if (status != FETCH_OK) {
        progress_clear(&s->progress);
        return load_fail(EXIT_INCONCLUSIVE, o->urls.texts[0], fetch_text(status));
    }
    generator_run(&s->generator, s->pool);
    r->interrupted = stop != 0 || s->generator.out_of_memory;
    report_time(r, s->generator.started_ns, s->generator.ended_ns);
    generator_resolve(&s->generator, s->pool, uv_hrtime() + o->settle_ns);
    if (!request_log_match(&s->log))
        return load_fail(EXIT_INCONCLUSIVE, "no memory", "for the comparison with the books");
    status = fetch_books(s->pool, o, o->settle_ns, &s->progress, s->after);
    fetch_orders(s->pool, &s->plan, &s->log, &s->progress);
    progress_clear(&s->progress);

    struct books *after = status == FETCH_OK ? s->after : NULL;
    if (!verdict_reach(&s->log, &s->plan, s->before, after, &r->verdict))
        return load_fail(EXIT_INCONCLUSIVE, "no memory", "for the verdict");
    report_count(r);
    r->before = books_sum(s->before, item_count(o));
    r->after = books_sum(s->after, item_count(o));
    r->audit_error = fetch_text(status);
    r->connected = connection_pool_connects(s->pool);
    return session_show(s);
}

int main(int argc, char **argv) {
    static struct session session; /* static, since histograms and request templates make it large */
    char error[256];
    (void)argc;
    uint64_t random[2] = {0};
    if (getrandom(random, sizeof random, 0) != sizeof random)
        return load_fail(EXIT_INCONCLUSIVE, "getrandom", strerror(errno));
    snprintf(session.run, sizeof session.run, "%016" PRIx64, random[0]);
    enum flags_status status =
        options_read(argv, random[1] % 1000000000, &session.options, error, sizeof error);
    if (status != FLAGS_RUN)
        return flags_answer(status, "seckill-load", options_help, error);
    request_log_init(&session.log);
    catch_signals();
    int code = session_prepare(&session);
    if (code == EXIT_CLEAN)
        code = session_run(&session);
    connection_pool_close(session.pool);
    request_log_free(&session.log);
    plan_free(&session.plan);
    free(session.before);
    free(session.after);
    if (session.json)
        fclose(session.json);
    if (session.progress.lines)
        fclose(session.progress.lines);
    return code;
}
