#include "loadtest/lab/serve/serve.h"

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
#include "base/host.h"
#include "base/servers/directory.h"
#include "loadtest/lab/play.h"
#include "loadtest/lab/programs.h"
#include "loadtest/lab/serve/live.h"
#include "loadtest/lab/serve/site.h"

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

struct options {
    const char *listen;
};

static const struct flag flags[] = {
    {"--listen", flag_read_text, offsetof(struct options, listen), 0, 0, "HOST:PORT"},
};

static int fail(int code, const char *what, const char *why) {
    fprintf(stderr, "seckill-lab: %s: %s\n", what, why);
    return code;
}

/* ---- the end ---- */

/* Servers and clients of a run are killed with the main thread, and the directory is swept after that. */
static void *await_signal(void *arg) {
    int number;
    sigwait(arg, &number);
    printf("seckill-lab: %s: ends\n", number == SIGINT ? "Ctrl-C" : "SIGTERM");
    fflush(stdout);
    _exit(0);
}

/* In every thread but one these signals are blocked. */
static bool catch_signals(void) {
    static sigset_t signals;
    pthread_t thread;
    sigemptyset(&signals);
    sigaddset(&signals, SIGINT);
    sigaddset(&signals, SIGTERM);
    pthread_sigmask(SIG_BLOCK, &signals, NULL);
    signal(SIGPIPE, SIG_IGN);
    return pthread_create(&thread, NULL, await_signal, &signals) == 0;
}

/* ---- runs ---- */

static void print_end(const struct desk_run *run, const struct judged_play *played) {
    printf("%s %s: %s: %s\n", run->id, run->order.scenario->name, played->verdict.outcome,
           played->verdict.sentence);
    fflush(stdout);
}

static void play(struct desk *desk, const struct desk_run *run, const char *work, const char *programs) {
    struct live live = {.desk = desk, .order = &run->order};
    struct judged_play played;
    char error[300];
    const struct play_plan plan = {.scenario = run->order.scenario,
                                   .broken = run->order.broken,
                                   .seed = run->order.seed,
                                   .work = work,
                                   .programs = programs,
                                   .logs = run->logs,
                                   .events = run->events,
                                   .ctx = &live};
    if (play_run(&plan, &played, error, sizeof error)) {
        print_end(run, &played);
        judged_play_free(&played);
    } else {
        fail(EXIT_FAILED, run->id, error);
    }
}

/* ---- the begin ---- */

struct serve {
    struct options options;
    struct directory directory;
    char programs[PROGRAMS_PATH_SIZE], work[DIRECTORY_SIZE + 16];
    char session[9], address[ADDRESS_SIZE];
    struct site site;
    struct desk *desk;
};

/* HOST:PORT; the port may be 0. */
static bool split_address(const char *text, char address[ADDRESS_SIZE], int *port) {
    struct host host;
    const char *colon = strrchr(text, ':');
    bool any = colon != NULL && strcmp(colon, ":0") == 0;
    if (host_read(&host, text, any ? (size_t)(colon - text) : strlen(text), any ? 1 : 0) != NULL ||
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
    snprintf(s->site.guard.token, sizeof s->site.guard.token, "%016" PRIx64 "%016" PRIx64, random[1],
             random[2]);
    return true;
}

/* The directory comes first: what sweeps it must not have the sockets. */
static int open_all(struct serve *s) {
    char error[SITE_ERROR_SIZE];
    int port;
    if (!split_address(s->options.listen, s->address, &port))
        return fail(EXIT_USAGE, s->options.listen, "--listen must be HOST:PORT");
    if (!programs_find(s->programs) || !make_secrets(s))
        return fail(EXIT_FAILED, "seckill-lab", strerror(errno));
    if (!directory_open(&s->directory, "seckill-lab"))
        return fail(EXIT_FAILED, "a directory for the servers", strerror(errno));
    snprintf(s->work, sizeof s->work, "%s/runs", s->directory.path);
    if (mkdir(s->work, 0700) != 0 || (s->desk = desk_open(s->work, s->session)) == NULL || !catch_signals())
        return fail(EXIT_FAILED, s->work, strerror(errno));
    s->site.api = (struct api){.desk = s->desk, .session = s->session, .token = s->site.guard.token};
    if (!site_open(&s->site, s->address, port, error))
        return fail(EXIT_FAILED, s->options.listen, error);
    return 0;
}

static void print_begin(const struct serve *s) {
    const char *open = strchr(s->address, ':') != NULL ? "[" : "", *close = *open != '\0' ? "]" : "";
    bool any = strcmp(s->address, "0.0.0.0") == 0 || strcmp(s->address, "::") == 0;
    if (!s->site.guard.loopback)
        fprintf(stderr, "seckill-lab: WARNING: whoever reaches %s%s%s:%d can start servers on this machine\n",
                open, s->address, close, s->site.guard.port);
    printf("seckill-lab: open http://%s%s%s:%d/ in a browser; Ctrl-C ends it\n", any ? "" : open,
           any ? "127.0.0.1" : s->address, any ? "" : close, s->site.guard.port);
    fflush(stdout);
}

int serve_main(char *const *argv) {
    static struct serve s;
    char error[200];
    struct desk_run run;
    s.options.listen = "127.0.0.1:8090";
    enum flags_status status =
        flags_read(flags, sizeof flags / sizeof flags[0], argv, &s.options, error, sizeof error);
    if (status != FLAGS_RUN)
        return flags_answer(status, "seckill-lab", help, error);
    int code = open_all(&s);
    if (code != 0) {
        if (s.directory.path[0] != '\0')
            directory_close(&s.directory);
        return code;
    }
    print_begin(&s);
    for (;;) {
        desk_take(s.desk, &run);
        play(s.desk, &run, s.directory.path, s.programs);
        desk_end(s.desk);
    }
}
