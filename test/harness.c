/* Running tests: checks, the clean-up stack, the program's directory, seed and clock; and processes that end
 * with the test. */
#include "test/harness.h"

#include <inttypes.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/random.h"

enum { LIST_MAX = 64, LOG_TAIL = 2000 };

struct cleanup {
    void (*fn)(void *arg);
    void *arg;
};

static struct {
    int filters;
    char **filter;
    bool list;
    int passed;
    int failed;
    int64_t started_ms;
    char dir[DIRECTORY_SIZE];
    uint64_t seed;
    bool seeded;

    pthread_t main_thread;
    bool in_test;
    atomic_bool test_failed; /* set from any thread */
    jmp_buf leave;

    pthread_mutex_t lock; /* of the three below */
    struct cleanup *cleanups;
    size_t count;
    size_t capacity;
} state = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* ---- clean-up ---- */

void harness_defer(void (*fn)(void *arg), void *arg) {
    pthread_mutex_lock(&state.lock);
    if (state.count == state.capacity) {
        state.capacity = state.capacity ? 2 * state.capacity : 64;
        state.cleanups = realloc(state.cleanups, state.capacity * sizeof *state.cleanups);
        if (!state.cleanups)
            abort();
    }
    state.cleanups[state.count++] = (struct cleanup){fn, arg};
    pthread_mutex_unlock(&state.lock);
}

static bool pop_cleanup(size_t down_to, struct cleanup *out) {
    pthread_mutex_lock(&state.lock);
    bool found = state.count > down_to;
    if (found)
        *out = state.cleanups[--state.count];
    pthread_mutex_unlock(&state.lock);
    return found;
}

static void clean_up(size_t down_to) {
    struct cleanup cleanup;
    while (pop_cleanup(down_to, &cleanup))
        cleanup.fn(cleanup.arg);
}

void *harness_alloc(size_t size) {
    void *memory = calloc(1, size ? size : 1);
    if (!memory)
        abort();
    harness_defer(free, memory);
    return memory;
}

char *harness_format(const char *format, ...) {
    va_list args;
    char *text;
    va_start(args, format);
    if (vasprintf(&text, format, args) < 0)
        abort();
    va_end(args);
    harness_defer(free, text);
    return text;
}

char *harness_repeat(char c, size_t times) {
    char *text = harness_alloc(times + 1);
    memset(text, c, times);
    return text;
}

/* ---- checks ---- */

static void leave_test(void) __attribute__((noreturn));

static void leave_test(void) {
    fflush(stdout);
    atomic_store(&state.test_failed, true);
    if (!pthread_equal(pthread_self(), state.main_thread))
        pthread_exit(NULL);
    if (state.in_test)
        longjmp(state.leave, 1);
    state.failed++;
    printf("FAIL (between tests)\n");
    exit(harness_finish());
}

void harness_fail(const char *file, int line, const char *format, ...) {
    va_list args;
    flockfile(stdout);
    printf("     %s:%d: ", file, line);
    va_start(args, format);
    vprintf(format, args);
    va_end(args);
    printf("\n");
    funlockfile(stdout);
    leave_test();
}

void harness_check_int(const char *file, int line, const char *what, long long got, long long want) {
    if (got != want)
        harness_fail(file, line, "%s is %lld, not %lld", what, got, want);
}

void harness_check_str(const char *file, int line, const char *what, const char *got, const char *want) {
    if (!got)
        harness_fail(file, line, "%s is NULL, not \"%s\"", what, want);
    if (strcmp(got, want) != 0)
        harness_fail(file, line, "%s is \"%s\", not \"%s\"", what, got, want);
}

void harness_check_has(const char *file, int line, const char *what, const char *text, const char *piece) {
    if (!text || !strstr(text, piece))
        harness_fail(file, line, "%s is \"%s\", without \"%s\"", what, text ? text : "(null)", piece);
}

bool harness_failed(void) {
    return state.in_test ? atomic_load(&state.test_failed) : state.failed > 0;
}

/* ---- running ---- */

void harness_limit(unsigned seconds) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    seconds *= 3;
#endif
    alarm(seconds);
}

void harness_begin(int argc, char **argv) {
    state.main_thread = pthread_self();
    state.started_ms = harness_now_ms();
    state.list = argc > 1 && strcmp(argv[1], "-l") == 0;
    state.filters = argc - 1;
    state.filter = argv + 1;
    if (state.list)
        return;
    signal(SIGPIPE, SIG_IGN);
    harness_limit(600);
    if (!directory_make(state.dir, "seckill-test")) {
        perror(state.dir);
        exit(1);
    }
}

static bool is_chosen(const char *name) {
    for (int i = 0; i < state.filters; i++)
        if (strstr(name, state.filter[i]))
            return true;
    return state.filters == 0;
}

void harness_run(const char *name, void (*test)(void)) {
    if (state.list)
        printf("%s\n", name);
    if (state.list || !is_chosen(name))
        return;
    size_t outer = state.count;
    int64_t start = harness_now_ms();
    state.in_test = true;
    atomic_store(&state.test_failed, false);
    if (setjmp(state.leave) == 0)
        test();
    clean_up(outer);
    state.in_test = false;
    if (atomic_load(&state.test_failed))
        state.failed++;
    else
        state.passed++;
    printf("%s %s (%" PRId64 " ms)\n", state.test_failed ? "FAIL" : "ok  ", name, harness_now_ms() - start);
    fflush(stdout);
}

int harness_finish(void) {
    if (state.list)
        return 0;
    clean_up(0);
    free(state.cleanups);
    if (state.failed)
        printf("     what the servers left is in %s\n", state.dir);
    else
        directory_remove(state.dir);
    if (state.passed + state.failed == 0)
        printf("     no test of that name\n");
    printf("---- %d ok, %d not, %" PRId64 " ms\n", state.passed, state.failed,
           harness_now_ms() - state.started_ms);
    return state.failed == 0 && state.passed > 0 ? 0 : 1;
}

/* ---- what tests ask for ---- */

const char *harness_dir(void) {
    return state.dir;
}

const char *harness_build(void) {
    const char *build = getenv("SECKILL_BUILD");
    return build && *build ? build : "build";
}

uint64_t harness_seed(void) {
    if (state.seeded)
        return state.seed;
    const char *given = getenv("SECKILL_SEED");
    if (given && *given)
        state.seed = strtoull(given, NULL, 0);
    else if (getrandom(&state.seed, sizeof state.seed, 0) < 0)
        abort();
    state.seeded = true;
    printf("     SECKILL_SEED=%" PRIu64 "\n", state.seed);
    return state.seed;
}

uint64_t harness_random(uint64_t *position) {
    return random_next(position);
}

void harness_evidence(const char *promise, const char *attack, long long times, const char *server,
                      const char *counts, ...) {
    const char *path = getenv("SECKILL_EVIDENCE");
    FILE *file = path && *path && times > 0 ? fopen(path, "ae") : NULL;
    if (!file)
        return;
    va_list args;
    va_start(args, counts);
    char *text;
    if (vasprintf(&text, counts, args) < 0)
        abort();
    va_end(args);
    fprintf(file, "{\"promise\":\"%s\",\"attack\":\"%s\",\"times\":%lld,\"server\":\"%s\",%s}\n", promise,
            attack, times, server, text);
    fclose(file);
    free(text);
}

int64_t harness_now_ms(void) {
    return clock_now_ns() / 1000000;
}

void harness_pause_ms(int ms) {
    struct timespec pause = {ms / 1000, ms % 1000 * 1000000L};
    while (nanosleep(&pause, &pause) != 0)
        ;
}

bool harness_wait(bool (*condition)(void *arg), void *arg, int timeout_ms) {
    return proc_poll(condition, arg, timeout_ms);
}

/* ---- processes ---- */

void harness_must(const char *file, int line, const char *error) {
    if (error)
        harness_fail(file, line, "%s", error);
}

static void proc_release(void *record) {
    if (harness_failed()) {
        char *tail = proc_read_log(record, LOG_TAIL);
        if (*tail)
            printf("     ---- the end of %s (%s)\n%s\n     ----\n", proc_log(record), proc_name(record),
                   tail);
        free(tail);
    }
    proc_free(record);
}

void harness_own(const struct proc *proc) {
    if (proc->record)
        harness_defer(proc_release, proc->record);
}

void proc_spawn(struct proc *proc, const char *const argv[], const char *const env[], const char *log) {
    const char *error = proc_start(proc, argv, env, log);
    harness_own(proc);
    MUST(error);
}

void proc_respawn(struct proc *proc) {
    MUST(proc_restart(proc));
}

void proc_kill(struct proc *proc, int signal) {
    MUST(proc_signal(proc, signal));
}

char *proc_output(const struct proc *proc) {
    char *text = proc_read_log(proc->record, 1L << 30);
    harness_defer(free, text);
    return text;
}

int harness_free_port(void) {
    int port = local_server_free_port();
    if (!port)
        FAIL("no free port");
    return port;
}

const char *harness_path(const char *name) {
    static atomic_int number;
    return harness_format("%s/%s-%d", state.dir, name, ++number);
}

const char **harness_list(va_list args) {
    const char **list = harness_alloc(LIST_MAX * sizeof *list);
    size_t n = 0;
    for (const char *arg; (arg = va_arg(args, const char *));) {
        CHECK(n < LIST_MAX - 1);
        list[n++] = harness_format("%s", arg);
    }
    return list;
}

static void proxy_release(void *proxy) {
    proxy_free(proxy);
}

struct proxy *proxy_start(int target_port) {
    struct proxy *proxy = proxy_open(target_port);
    CHECK(proxy);
    harness_defer(proxy_release, proxy);
    return proxy;
}
