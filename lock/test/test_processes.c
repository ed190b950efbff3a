/* Locks between real processes, judged from outside: a number in a file that each holder reads, and writes
 * one higher, without any care. Processes are killed, stopped, and a store fails over. This program is its
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

/* Every round it did is a line of its output. */
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

static const struct kind {
    const char *name, *scheme, *options;
    int nodes;
} kinds[] = {
    {"owner", "redis", "", 1},
    {"watchdog", "redis", "variant=watchdog&", 1},
    {"redlock", "redlock", "", 3},
};

static const struct kind *kind;
static struct redis_server nodes[3];
#define redis nodes[0]

static void begin(void) {
    for (int i = 0; i < kind->nodes; i++)
        redis_start(&nodes[i], "--appendonly", kind->nodes > 1 ? "no" : "yes", NULL);
}

static const char *make_url(int ttl_ms) {
    char *url = harness_format("%s://", kind->scheme);
    for (int i = 0; i < kind->nodes; i++)
        url = harness_format("%s%s127.0.0.1:%d", url, i ? "," : "", nodes[i].port);
    return harness_format("%s?%sttl=%d", url, kind->options, ttl_ms);
}

static struct lock *open_lock(int ttl_ms) {
    return tools_open(NULL, make_url(ttl_ms));
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
    begin();
    write_number(file, 0);
    for (int i = 0; i < PROCESSES; i++)
        start_worker(&procs[i], make_url(20000), file, THREADS, ROUNDS, &random);
    for (int i = 0; i < PROCESSES; i++) {
        CHECK_INT(exit_of(&procs[i]), 0);
        CHECK_INT(rounds_done(&procs[i]), THREADS * ROUNDS);
    }
    CHECK_INT(read_number(file), PROCESSES * THREADS * ROUNDS);
    CHECK_STR(redis_command(&redis, "EXISTS", "lock:{number}", "lock:{number}:line", NULL), "0");
}

/* Killed at random, holding, waiting, or in the middle of a call. Whoever was killed between writing the
 * number and saying so did one round more than it said. */
static void killed(void) {
    enum { PROCESSES = 4, KILLS = 6, ENDLESS = 1000000 };
    struct proc procs[PROCESSES + KILLS];
    const char *file = harness_format("%s/killed-%s", harness_dir(), kind->name);
    uint64_t random = harness_seed();
    begin();
    write_number(file, 0);
    int count = 0;
    while (count < PROCESSES)
        start_worker(&procs[count++], make_url(700), file, 2, ENDLESS, &random);
    for (int i = 0; i < KILLS; i++) {
        harness_pause_ms(50 + (int)(harness_random(&random) % 200));
        proc_kill(&procs[i], SIGKILL); /* the one that has run longest */
        CHECK_INT(exit_of(&procs[i]), 128 + SIGKILL);
        start_worker(&procs[count++], make_url(700), file, 2, ENDLESS, &random);
    }
    struct lock *lock = open_lock(20000);
    struct lock_grant grant = tools_take(lock, "number"); /* the survivors wait */
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
    tools_give(lock, &grant);
    tools_check_free(lock, "number");
}

static char state_of(const struct proc *proc) {
    char text[256] = "";
    FILE *stat = fopen(harness_format("/proc/%d/stat", (int)proc->pid), "r");
    if (!stat || !fgets(text, sizeof text, stat))
        FAIL("no process %d", (int)proc->pid);
    fclose(stat);
    const char *at = strrchr(text, ')');
    return at ? at[2] : '?';
}

static bool is_stopped(void *proc) {
    return state_of(proc) == 'T';
}

/* Starts one that has the lock and is stopped; its fence. */
static uint64_t start_holder(struct proc *proc, const char *url) {
    start(proc, "holder", url, NULL, NULL, NULL, NULL);
    CHECK(harness_wait(is_stopped, proc, PATIENCE_MS));
    return strtoull(proc_output(proc), NULL, 10);
}

/* Dead or stopped, the holder has it until its time is up, and not longer. */
static void gone_holder(void) {
    begin();
    struct lock *lock = open_lock(400);
    for (int i = 0; i < 4; i++) {
        struct proc proc;
        uint64_t fence = start_holder(&proc, make_url(400));
        if (i % 2)
            proc_kill(&proc, SIGKILL);
        struct lock_grant grant = tools_take(lock, "a");
        CHECK(grant.fence > fence || kind->nodes > 1);
        tools_give(lock, &grant);
        proc_kill(&proc, i % 2 ? SIGKILL : SIGCONT);
        CHECK_INT(exit_of(&proc), i % 2 ? 128 + SIGKILL : 0);
    }
}

/* One who waits is killed, or stopped: the next in line has it, at once or after the time that was given to
 * the stopped one. */
static void gone_waiter(void) {
    begin();
    struct lock *lock = open_lock(1000), *other = open_lock(1000);
    for (int i = 0; i < 2; i++) {
        struct lock_grant held = tools_take(lock, "a");
        struct proc proc;
        struct tools_waiter waiter;
        start(&proc, "holder", make_url(1000), NULL, NULL, NULL, NULL);
        tools_wait_for_line(&redis, "a", 1);
        tools_wait(&waiter, other, "a", PATIENCE_MS, NULL);
        tools_wait_for_line(&redis, "a", 2);
        proc_kill(&proc, i ? SIGKILL : SIGSTOP);
        if (i)
            exit_of(&proc);
        lock_extend(lock, &held);
        tools_give(lock, &held);
        tools_check_status(tools_join(&waiter), LOCK_OK);
        CHECK(waiter.grant.fence > held.fence);
        tools_give(other, &waiter.grant);
        if (!i)
            proc_kill(&proc, SIGKILL);
        if (!i)
            exit_of(&proc);
    }
}

/* ---- two who believe they hold it ---- */

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
    begin();
    struct lock *lock = open_lock(300);
    for (int i = 0; i < ROUNDS; i++) {
        struct proc proc;
        uint64_t paused = start_holder(&proc, make_url(300));
        struct lock_grant grant = tools_take(lock, "a");
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

/* ---- failover ---- */

static int sentinel_port;

static int promoted_port(void) {
    struct redis_server sentinel = {.port = sentinel_port};
    const char *reply =
        redis_command(&sentinel, "SENTINEL", "get-master-addr-by-name", "m", NULL); /* [127.0.0.1 PORT] */
    const char *space = strrchr(reply, ' ');
    return space ? (int)strtol(space + 1, NULL, 10) : 0;
}

static bool is_promoted(void *port) {
    return promoted_port() == *(int *)port;
}

static bool knows_replica(void *arg) {
    (void)arg;
    struct redis_server sentinel = {.port = sentinel_port};
    return strstr(redis_command(&sentinel, "INFO", "sentinel", NULL), "slaves=1") != NULL;
}

static void start_sentinel(struct proc *proc, int master_port) {
    sentinel_port = harness_free_port();
    const char *file = harness_format("%s/sentinel.conf", harness_dir());
    FILE *conf = fopen(file, "w");
    if (!conf)
        FAIL("cannot write %s", file);
    fprintf(conf,
            "port %d\nbind 127.0.0.1\ndir %s\nsentinel monitor m 127.0.0.1 %d 1\n"
            "sentinel down-after-milliseconds m 300\nsentinel failover-timeout m 3000\n",
            sentinel_port, harness_dir(), master_port);
    fclose(conf);
    const char *argv[] = {"redis-server", file, "--sentinel", NULL};
    proc_spawn(proc, argv, NULL, harness_format("%s/sentinel.log", harness_dir()));
    CHECK(harness_wait(knows_replica, NULL, PATIENCE_MS));
}

/* The master is killed before its replica has heard of the grant; the Sentinel makes the replica the master:
 * two hold the lock, and the second's fence is not newer. The lock does not claim otherwise. */
static void failover(void) {
    struct redis_server replica;
    struct proc sentinel;
    redis_start(&redis, NULL);
    redis_start_replica(&replica, &redis);
    start_sentinel(&sentinel, redis.port);
    struct lock *lock = tools_open(NULL, tools_redis_url(redis.port, "ttl=60000"));
    redis_pause(&replica);
    redis_command(&redis, "CLIENT", "KILL", "TYPE", "replica", NULL); /* not even on the way to it */
    struct lock_grant first = tools_take(lock, "a");
    redis_kill(&redis);
    redis_resume(&replica);
    CHECK(harness_wait(is_promoted, &replica.port, PATIENCE_MS));
    struct lock *after = tools_open(NULL, tools_redis_url(replica.port, "ttl=60000"));
    struct lock_grant second = tools_take(after, "a");
    CHECK(lock_remaining_ns(lock, &first) > 0);
    CHECK(lock_remaining_ns(after, &second) > 0);
    CHECK(second.fence <= first.fence);
    CHECK(lock_caps(lock) & LOCK_CAN_FENCE);
    CHECK(!(lock_caps(lock) & LOCK_CAN_FENCE_FAILOVER));
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
    harness_run("a Sentinel failover", failover);
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        kind = &kinds[i];
        run("exclusion", exclusion);
        run("killed at random", killed);
        run("a holder that is gone", gone_holder);
        if (kind->nodes > 1)
            continue; /* no line in the store, no fence */
        run("one in line that is gone", gone_waiter);
        run("two believe that they hold it", two_believe);
    }
    return harness_finish();
}
