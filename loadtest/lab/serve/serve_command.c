/* seckill-lab serve: serves the page, and plays the runs that the page begins. */
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/flags.h"
#include "base/servers/local_servers.h"
#include "base/url_parts.h"
#include "loadtest/lab/commands.h"
#include "loadtest/lab/scenarios/scenarios.h"
#include "loadtest/lab/serve/page_server.h"

static const char help[] =
    "seckill-lab serve: a page on which you break a lock, watch the sale oversell, and run the fix.\n"
    "\n"
    "usage: seckill-lab serve [option]...\n"
    "\n"
    "  --listen HOST:PORT  an IPv4 address, or an IPv6 address in brackets [127.0.0.1:8090]; port 0: any\n"
    "                      that is free. Who reaches it can start servers on this machine: so it is for\n"
    "                      this machine alone, unless you say otherwise\n"
    "  --help, --version\n"
    "\n"
    "It needs redis-server, etcd and java in the PATH, no root, and leaves nothing behind. Ctrl-C ends it.\n"
    "\n"
    "exit status: 0 it was told to end; 2 bad usage; 3 it cannot listen, or has no directory to work in\n";

enum { EXIT_USAGE = 2, EXIT_FAILED = 3, ADDRESS_SIZE = 64 };

static const struct flag flags[] = {{"--listen", flag_read_text, 0, 0, 0, "HOST:PORT"}};

/* ---- the end ---- */

/* Ends the process. Servers and clients of a run are killed with the main thread, and the sweeper removes the
 * directory after that. */
static void *await_signal(void *arg) {
    int number;
    sigwait(arg, &number);
    printf("seckill-lab: %s: ends\n", number == SIGINT ? "Ctrl-C" : "SIGTERM");
    fflush(stdout);
    _exit(0);
}

/* Blocks the signals in every thread but the one that waits for them. */
static bool serve_catch_signals(void) {
    static sigset_t signals;
    pthread_t thread;
    sigemptyset(&signals);
    sigaddset(&signals, SIGINT);
    sigaddset(&signals, SIGTERM);
    pthread_sigmask(SIG_BLOCK, &signals, NULL);
    signal(SIGPIPE, SIG_IGN);
    return pthread_create(&thread, NULL, await_signal, &signals) == 0;
}

/* ---- one run ---- */

static void serve_run(struct run_control *control, const struct lab_run *run, const char *work) {
    struct live live = {.control = control, .order = &run->order};
    struct judged_play played;
    char error[300];
    const struct play_plan plan = {.scenario = run->order.scenario,
                                   .broken = run->order.broken,
                                   .seed = run->order.seed,
                                   .work = work,
                                   .logs = run->logs,
                                   .events = run->events,
                                   .ctx = &live};
    if (play_run(&plan, &played, error, sizeof error)) {
        printf("%s %s: %s: %s\n", run->id, plan.scenario->name, played.verdict.outcome,
               played.verdict.sentence);
        fflush(stdout);
        judged_play_free(&played);
    } else {
        command_fail(EXIT_FAILED, run->id, error);
    }
}

/* ---- the start ---- */

struct serve {
    const char *listen;
    struct directory directory;       /* where servers and runs work */
    char events[DIRECTORY_SIZE + 16]; /* the directory of the events */
    char session[9], address[ADDRESS_SIZE];
    struct page_server server;
    struct run_control *control;
};

/* Splits HOST:PORT; the port may be 0. */
static bool split_address(const char *text, char address[ADDRESS_SIZE], int *port) {
    struct host host;
    const char *colon = strrchr(text, ':');
    bool any = colon && strcmp(colon, ":0") == 0;
    if (host_read(&host, text, any ? (size_t)(colon - text) : strlen(text), any ? 1 : 0) ||
        host.length >= ADDRESS_SIZE)
        return false;
    snprintf(address, ADDRESS_SIZE, "%.*s", (int)host.length, host.name);
    *port = any ? 0 : host.port;
    return true;
}

static bool make_secrets(struct serve *s) {
    uint64_t random[3];
    if (getrandom(random, sizeof random, 0) != sizeof random)
        return false;
    snprintf(s->session, sizeof s->session, "%08" PRIx32, (uint32_t)random[0]);
    snprintf(s->server.guard.token, sizeof s->server.guard.token, "%016" PRIx64 "%016" PRIx64, random[1],
             random[2]);
    return true;
}

/* Opens the directory before the sockets, since its sweeper is a child that must not inherit them. */
static int serve_open(struct serve *s) {
    char error[PAGE_SERVER_ERROR_SIZE];
    int port;
    if (!split_address(s->listen, s->address, &port))
        return command_fail(EXIT_USAGE, s->listen, "--listen must be HOST:PORT");
    if (!make_secrets(s))
        return command_fail(EXIT_FAILED, "seckill-lab", strerror(errno));
    if (!directory_open(&s->directory, "seckill-lab"))
        return command_fail(EXIT_FAILED, "a directory for the servers", strerror(errno));
    snprintf(s->events, sizeof s->events, "%s/runs", s->directory.path);
    if (mkdir(s->events, 0700) != 0 || !(s->control = run_control_open(s->events, s->session)) ||
        !serve_catch_signals())
        return command_fail(EXIT_FAILED, s->events, strerror(errno));
    s->server.api =
        (struct lab_api){.control = s->control, .session = s->session, .token = s->server.guard.token};
    if (!page_server_open(&s->server, s->address, port, error))
        return command_fail(EXIT_FAILED, s->listen, error);
    return 0;
}

static void print_begin(const struct serve *s) {
    const char *open = strchr(s->address, ':') ? "[" : "", *close = *open != '\0' ? "]" : "";
    bool any = strcmp(s->address, "0.0.0.0") == 0 || strcmp(s->address, "::") == 0;
    if (!s->server.guard.loopback)
        fprintf(stderr, "seckill-lab: WARNING: whoever reaches %s%s%s:%d can start servers on this machine\n",
                open, s->address, close, s->server.guard.port);
    printf("seckill-lab: open http://%s%s%s:%d/ in a browser; Ctrl-C ends it\n", any ? "" : open,
           any ? "127.0.0.1" : s->address, any ? "" : close, s->server.guard.port);
    fflush(stdout);
}

int serve_command(char *const *argv) {
    static struct serve s;
    char error[200];
    struct lab_run run;
    s.listen = "127.0.0.1:8090";
    enum flags_status status = flags_read(flags, 1, argv, &s.listen, error, sizeof error);
    if (status != FLAGS_RUN)
        return flags_answer(status, "seckill-lab", help, error);
    int code = serve_open(&s);
    if (code != 0) {
        if (s.directory.path[0] != '\0')
            directory_close(&s.directory);
        return code;
    }
    print_begin(&s);
    for (;;) {
        run_control_take(s.control, &run);
        serve_run(s.control, &run, s.directory.path);
        run_control_end(s.control);
    }
}
