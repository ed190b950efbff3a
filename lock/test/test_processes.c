/* Locks between real processes, judged from outside: a number in a file that each holder reads, and writes
 * one higher, without any care. Processes are killed and stopped. This program is its
 * own worker: `worker URL FILE THREADS ROUNDS SEED` and `holder URL`. */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lock/test/tools.h"

/* ---- the worker ---- */

static long read_number(const char *file) {
    char text[32] = "";
    int fd = open(file, O_RDONLY);
    ssize_t length = fd >= 0 ? read(fd, text, sizeof text - 1) : -1;
    if (length < 0)
        exit(4);
    close(fd);
    return strtol(text, NULL, 10);
}

static void write_number(const char *file, long number) {
    int fd = open(file, O_WRONLY | O_CREAT, 0600);
    if (fd < 0 || dprintf(fd, "%ld\n", number) < 0)
        exit(4);
    close(fd);
}

struct work {
    pthread_t thread;
    struct lock *lock;
    const char *file;
    int rounds;
    uint64_t random;
};

/* It prints a line for each round. */
static void *work(void *arg) {
    struct work *work = arg;
    for (int i = 0; i < work->rounds; i++) {
        struct lock_grant grant;
        enum lock_status status =
            lock_acquire(work->lock, "number", tools_in_ms(work->lock, PATIENCE_MS), NULL, &grant);
        if (status == LOCK_UNAVAILABLE || status == LOCK_UNKNOWN)
            continue;
        if (status != LOCK_OK)
            exit(3);
        long number = read_number(work->file);
        usleep((useconds_t)(harness_random(&work->random) % 300));
        write_number(work->file, number + 1);
        if (write(STDOUT_FILENO, "done\n", 5) != 5)
            exit(4);
        lock_release(work->lock, &grant);
        usleep((useconds_t)(harness_random(&work->random) % 300));
    }
    return NULL;
}

static struct lock *open_or_exit(const char *url) {
    char error[LOCK_ERROR_SIZE];
    struct lock *lock;
    if (lock_open(url, NULL, &lock, error, sizeof error) != LOCK_OK)
        exit(2);
    return lock;
}

static int run_worker(char **argv) {
    struct work works[8];
    struct lock *lock = open_or_exit(argv[2]);
    int threads = (int)strtol(argv[4], NULL, 10);
    for (int i = 0; i < threads; i++) {
        works[i] = (struct work){.lock = lock,
                                 .file = argv[3],
                                 .rounds = (int)strtol(argv[5], NULL, 10),
                                 .random = strtoull(argv[6], NULL, 10) + (unsigned)i};
        if (pthread_create(&works[i].thread, NULL, work, &works[i]) != 0)
            exit(4);
    }
    for (int i = 0; i < threads; i++)
        pthread_join(works[i].thread, NULL);
    lock_close(lock);
    return 0;
}

/* Has it, says so with its fence, and stops as a process that is paused. Once it goes on it believes that it
 * has it still, for it does not look at the clock; says "wrote" and ends. */
static int run_holder(const char *url) {
    struct lock_grant grant;
    struct lock *lock = open_or_exit(url);
    if (lock_acquire(lock, "a", tools_in_ms(lock, PATIENCE_MS), NULL, &grant) != LOCK_OK)
        return 3;
    dprintf(STDOUT_FILENO, "%llu\n", (unsigned long long)grant.fence);
    raise(SIGSTOP);
    return 0;
}

/* ---- the tests ---- */

/* The stores, as far as the tests must know them. */
static const struct kind {
    const char *name;
    void (*begin)(void);
    /* A lock with this time to live. */
    const char *(*url)(int ttl_ms);
    /* Waits until so many processes are queued. NULL: the store has no queue, and the lock no fence. */
    void (*wait_for_line)(const char *key, int count);
    void (*check_no_trace)(const char *key);
} * kind;

static struct redis_server nodes[3];
static struct zookeeper_server zookeeper;
#define redis nodes[0] /* where what the lock protects is, too */

static void begin_redis(void) {
    redis_start(&redis, NULL);
}

static void begin_nodes(void) {
    for (int i = 0; i < 3; i++)
        redis_start(&nodes[i], "--appendonly", "no", NULL);
}

static void begin_zookeeper(void) {
    begin_redis();
    zookeeper_start(&zookeeper);
}

static const char *owner_url(int ttl_ms) {
    return tools_redis_url(redis.port, harness_format("ttl=%d", ttl_ms));
}

static const char *watchdog_url(int ttl_ms) {
    return tools_redis_url(redis.port, harness_format("variant=watchdog&ttl=%d", ttl_ms));
}

static const char *redlock_url(int ttl_ms) {
    return harness_format("redlock://127.0.0.1:%d,127.0.0.1:%d,127.0.0.1:%d?ttl=%d", nodes[0].port,
                          nodes[1].port, nodes[2].port, ttl_ms);
}

static const char *zookeeper_url(int ttl_ms) {
    return harness_format("zookeeper://127.0.0.1:%d?ttl=%d", zookeeper.port, ttl_ms);
}

static void wait_in_redis(const char *key, int count) {
    tools_wait_for_queue(&redis, key, count);
}

static void wait_in_zookeeper(const char *key, int count) {
    tools_wait_for_nodes(&zookeeper, harness_format("/lock/%s", key), count + 1); /* and the holder's */
}

static void no_trace_in_redis(const char *key) {
    tools_check_no_trace(&redis, key);
}

static void no_trace_in_zookeeper(const char *key) {
    CHECK_INT(tools_count_nodes(&zookeeper, harness_format("/lock/%s", key)), 0);
}

static const struct kind kinds[] = {
    {"owner", begin_redis, owner_url, wait_in_redis, no_trace_in_redis},
    {"watchdog", begin_redis, watchdog_url, wait_in_redis, no_trace_in_redis},
    {"redlock", begin_nodes, redlock_url, NULL, no_trace_in_redis},
    {"zookeeper", begin_zookeeper, zookeeper_url, wait_in_zookeeper, no_trace_in_zookeeper},
};

static struct lock *open_lock(int ttl_ms) {
    return tools_open(NULL, kind->url(ttl_ms));
}

static void start(struct proc *proc, const char *what, const char *a, const char *b, const char *c,
                  const char *d, const char *e) {
    static int number;
    const char *argv[] = {"/proc/self/exe", what, a, b, c, d, e, NULL};
    proc_spawn(proc, argv, NULL, harness_format("%s/%s-%d.log", harness_dir(), what, number++));
}

static void start_worker(struct proc *proc, const char *url, const char *file, int threads, int rounds,
                         uint64_t *random) {
    start(proc, "worker", url, file, harness_format("%d", threads), harness_format("%d", rounds),
          harness_format("%llu", (unsigned long long)(harness_random(random) >> 1)));
}

static int exit_of(struct proc *proc) {
    int status;
    CHECK(proc_wait(proc, 60000, &status));
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static long rounds_done(const struct proc *proc) {
    long lines = 0;
    for (const char *at = proc_output(proc); (at = strstr(at, "done\n")); at++)
        lines++;
    return lines;
}

static void exclusion(void) {
    enum { PROCESSES = 4, THREADS = 2, ROUNDS = 125 };
    struct proc procs[PROCESSES];
    const char *file = harness_format("%s/number-%s", harness_dir(), kind->name);
    uint64_t random = harness_seed();
    kind->begin();
    write_number(file, 0);
    for (int i = 0; i < PROCESSES; i++)
        start_worker(&procs[i], kind->url(20000), file, THREADS, ROUNDS, &random);
    for (int i = 0; i < PROCESSES; i++) {
        CHECK_INT(exit_of(&procs[i]), 0);
        CHECK_INT(rounds_done(&procs[i]), THREADS * ROUNDS);
    }
    CHECK_INT(read_number(file), PROCESSES * THREADS * ROUNDS);
    kind->check_no_trace("number");
}

static bool has_counted(void *file) {
    return read_number(file) > 20;
}

/* Killed at random, holding, waiting, or in the middle of a call. Whoever was killed between writing the
 * number and saying so did one round more than it said. */
static void killed(void) {
    enum { PROCESSES = 4, KILLS = 6, ENDLESS = 1000000 };
    struct proc procs[PROCESSES + KILLS];
    char *file = harness_format("%s/killed-%s", harness_dir(), kind->name);
    uint64_t random = harness_seed();
    kind->begin();
    write_number(file, 0);
    int count = 0;
    while (count < PROCESSES)
        start_worker(&procs[count++], kind->url(700), file, 2, ENDLESS, &random);
    for (int i = 0; i < KILLS; i++) {
        harness_pause_ms(50 + (int)(harness_random(&random) % 200));
        proc_kill(&procs[i], SIGKILL); /* the one that has run longest */
        CHECK_INT(exit_of(&procs[i]), 128 + SIGKILL);
        start_worker(&procs[count++], kind->url(700), file, 2, ENDLESS, &random);
    }
    CHECK(harness_wait(has_counted, file, PATIENCE_MS));
    struct lock *lock = open_lock(20000);
    struct lock_grant grant = tools_acquire(lock, "number"); /* the survivors wait */
    long done = 0, number = read_number(file);
    for (int i = 0; i < count; i++) {
        if (i >= KILLS)
            proc_kill(&procs[i], SIGKILL);
        if (i >= KILLS)
            CHECK_INT(exit_of(&procs[i]), 128 + SIGKILL);
        done += rounds_done(&procs[i]);
    }
    CHECK(done > 10);
    if (number < done || number > done + count)
        FAIL("%ld rounds done, and the number is %ld", done, number);
    tools_release(lock, &grant);
    grant = tools_acquire(lock, "number"); /* perhaps after the processes that died while they waited */
    tools_release(lock, &grant);
}

static bool is_stopped(void *proc) {
    return proc_stopped(proc);
}

/* Starts one that has the lock and is stopped; its fence. */
static uint64_t start_holder(struct proc *proc, const char *url) {
    start(proc, "holder", url, NULL, NULL, NULL, NULL);
    CHECK(harness_wait(is_stopped, proc, PATIENCE_MS));
    return strtoull(proc_output(proc), NULL, 10);
}

/* Dead or stopped, the holder has it until its time is up, and not longer. */
static void gone_holder(void) {
    kind->begin();
    struct lock *lock = open_lock(400);
    for (int i = 0; i < 4; i++) {
        struct proc proc;
        uint64_t fence = start_holder(&proc, kind->url(400));
        if (i % 2)
            proc_kill(&proc, SIGKILL);
        struct lock_grant grant = tools_acquire(lock, "a");
        CHECK(grant.fence > fence || !kind->wait_for_line);
        tools_release(lock, &grant);
        proc_kill(&proc, i % 2 ? SIGKILL : SIGCONT);
        CHECK_INT(exit_of(&proc), i % 2 ? 128 + SIGKILL : 0);
    }
}

/* One who waits is killed, or stopped: the next in line has it, at once or after the time that was given to
 * the stopped one. */
static void gone_waiter(void) {
    kind->begin();
    struct lock *lock = open_lock(1000), *other = open_lock(1000);
    for (int i = 0; i < 2; i++) {
        struct lock_grant held = tools_acquire(lock, "a");
        struct proc proc;
        start(&proc, "holder", kind->url(1000), NULL, NULL, NULL, NULL);
        kind->wait_for_line("a", 1);
        struct tools_waiter *waiter = tools_wait(other, "a", PATIENCE_MS, NULL);
        kind->wait_for_line("a", 2);
        proc_kill(&proc, i ? SIGKILL : SIGSTOP);
        if (i)
            exit_of(&proc);
        lock_extend(lock, &held);
        tools_release(lock, &held);
        tools_check_status(tools_join(waiter), LOCK_OK);
        CHECK(waiter->grant.fence > held.fence);
        tools_release(other, &waiter->grant);
        if (!i)
            proc_kill(&proc, SIGKILL);
        if (!i)
            exit_of(&proc);
    }
}

/* ---- two processes that believe they hold it ---- */

static bool write_with_fence(uint64_t fence, const char *text) {
    static const char script[] = "if tonumber(redis.call('HGET', KEYS[1], 'fence') or 0) > tonumber(ARGV[1]) "
                                 "then return 0 end "
                                 "redis.call('HSET', KEYS[1], 'fence', ARGV[1], 'text', ARGV[2]) return 1";
    return redis_integer(&redis, "EVAL", script, "1", "document",
                         harness_format("%llu", (unsigned long long)fence), text, NULL) == 1;
}

/* The holder is paused for longer than its time, another gets the lock and writes; then the first goes on.
 * Its fence is the older one, on every round: who checks it refuses; who does not loses what the second
 * wrote. */
static void two_believe(void) {
    enum { ROUNDS = 5 };
    int lost = 0;
    kind->begin();
    struct lock *lock = open_lock(300);
    for (int i = 0; i < ROUNDS; i++) {
        struct proc proc;
        uint64_t paused = start_holder(&proc, kind->url(300));
        struct lock_grant grant = tools_acquire(lock, "a");
        CHECK(write_with_fence(grant.fence, "second"));
        redis_command(&redis, "SET", "unchecked", "second", NULL);
        proc_kill(&proc, SIGCONT);
        CHECK_INT(exit_of(&proc), 0); /* it went on as if it held it: its writes follow */
        CHECK(!write_with_fence(paused, "first"));
        redis_command(&redis, "SET", "unchecked", "first", NULL);
        CHECK_STR(redis_command(&redis, "HGET", "document", "text", NULL), "second");
        lost += strcmp(redis_command(&redis, "GET", "unchecked", NULL), "second") != 0;
        lock_release(lock, &grant);
    }
    CHECK_INT(lost, ROUNDS);
}

static void run(const char *name, void (*test)(void)) {
    char text[128];
    snprintf(text, sizeof text, "%s: %s", kind->name, name);
    harness_run(text, test);
}

int main(int argc, char **argv) {
    if (argc == 7 && strcmp(argv[1], "worker") == 0)
        return run_worker(argv);
    if (argc == 3 && strcmp(argv[1], "holder") == 0)
        return run_holder(argv[2]);
    harness_begin(argc, argv);
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        kind = &kinds[i];
        run("exclusion", exclusion);
        run("killed at random", killed);
        run("a holder that is gone", gone_holder);
        if (!kind->wait_for_line)
            continue;
        run("one in the queue that is gone", gone_waiter);
        run("two believe that they hold it", two_believe);
    }
    return harness_finish();
}
