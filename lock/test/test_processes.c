/* Locks between real processes, which are killed and stopped. This program is its own worker: see beliefs.h,
 * and `holder URL`. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lock/test/beliefs.h"
#include "lock/test/etcd_tools.h"

/* Has the lock, says so with its fence, and stops as a process that is paused. Once it goes on it ends, as if
 * it still had it: it does not look at the clock. */
static int run_holder(const char *url) {
    char error[LOCK_ERROR_SIZE];
    struct lock_grant grant;
    struct lock *lock;
    if (lock_open(url, NULL, &lock, error, sizeof error) != LOCK_OK)
        return 2;
    if (lock_acquire_for(lock, "a", PATIENCE_MS, &grant) != LOCK_OK)
        return 3;
    dprintf(STDOUT_FILENO, "%llu\n", (unsigned long long)grant.fence);
    raise(SIGSTOP);
    return 0;
}

/* ---- the stores, as far as the tests must know them ---- */

static struct redis_server nodes[3]; /* the first is also the Redis, and has what the lock protects */
static struct zookeeper_server zookeeper;
static struct etcd_server etcd;

static void wait_in_redis(int count) {
    tools_wait_for_queue(&nodes[0], "a", count);
}

static void wait_in_zookeeper(int count) {
    tools_wait_for_nodes(&zookeeper, "/lock/a", count + 1); /* and the holder's */
}

static void wait_in_etcd(int count) {
    etcd_tools_wait_for_queue(&etcd, "a", count + 1);
}

static struct kind {
    const char *name, *url;
    /* Waits until so many processes are queued. NULL: the store has no queue, and the lock no fence. */
    void (*wait_for_line)(int count);
} kinds[] = {
    {"owner", NULL, wait_in_redis},         {"watchdog", NULL, wait_in_redis}, {"redlock", NULL, NULL},
    {"zookeeper", NULL, wait_in_zookeeper}, {"etcd", NULL, wait_in_etcd},
};
static const struct kind *kind;

enum { WATCHDOG = 1, KINDS = sizeof kinds / sizeof *kinds };

static void start_stores(void) {
    for (int i = 0; i < 3; i++)
        redis_start(&nodes[i], "--appendonly", "no", NULL);
    zookeeper_start(&zookeeper);
    etcd_start(&etcd, NULL);
    kinds[0].url = tools_redis_url(nodes[0].port, "");
    kinds[1].url = tools_redis_url(nodes[0].port, "variant=watchdog");
    kinds[2].url = harness_format("redlock://127.0.0.1:%d,127.0.0.1:%d,127.0.0.1:%d", nodes[0].port,
                                  nodes[1].port, nodes[2].port);
    kinds[3].url = harness_format("zookeeper://127.0.0.1:%d", zookeeper.port);
    kinds[4].url = etcd_tools_url(&etcd, 1, "");
}

static const char *url_of(int ttl_ms) {
    return harness_format("%s%cttl=%d", kind->url, strchr(kind->url, '?') ? '&' : '?', ttl_ms);
}

/* ---- the tests ---- */

/* Killed at random, holding, waiting, or in the middle of a call. */
static void killed(void) {
    enum { PROCESSES = 4, THREADS = 2, KILLS = 3, TTL_MS = 700, SLOW_IN = 64 };
    uint64_t random = harness_seed();
    beliefs_start(&(struct beliefs_plan){kind->url, TTL_MS, PROCESSES, THREADS, SLOW_IN}, &random);
    for (int i = 0; i < KILLS; i++) {
        beliefs_wait();
        harness_pause_ms((int)(harness_random(&random) % 100));
        beliefs_replace(&random);
    }
    beliefs_wait();
    beliefs_judge(harness_format("%s: kill -9 of processes", kind->name), KILLS, kind->name, false);
    struct lock *lock =
        tools_open(NULL, url_of(TTL_MS)); /* perhaps after those that died while they waited */
    tools_use(lock, "a");
}

static void start_holder(struct proc *proc, int ttl_ms) {
    static int number;
    const char *argv[] = {"/proc/self/exe", "holder", url_of(ttl_ms), NULL};
    proc_spawn(proc, argv, NULL, harness_format("%s/holder-%d.log", harness_dir(), number++));
}

static bool is_stopped(void *proc) {
    return proc_stopped(proc);
}

/* Returns its fence once it has the lock and is stopped. */
static uint64_t stopped_holder(struct proc *proc, int ttl_ms) {
    start_holder(proc, ttl_ms);
    CHECK(harness_wait(is_stopped, proc, PATIENCE_MS));
    return strtoull(proc_output(proc), NULL, 10);
}

static void check_ends(struct proc *proc, int signal) {
    int status;
    proc_kill(proc, signal);
    CHECK(proc_wait(proc, PATIENCE_MS, &status));
    CHECK(signal == SIGKILL ? WIFSIGNALED(status) : WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static bool write_with_fence(uint64_t fence, const char *text) {
    static const char script[] = "if tonumber(redis.call('HGET', KEYS[1], 'fence') or 0) > tonumber(ARGV[1]) "
                                 "then return 0 end "
                                 "redis.call('HSET', KEYS[1], 'fence', ARGV[1], 'text', ARGV[2]) return 1";
    return redis_integer(&nodes[0], "EVAL", script, "1", harness_format("document-%s", kind->name),
                         harness_format("%llu", (unsigned long long)fence), text, NULL) == 1;
}

/* Dead or paused, the holder has it until its time is up, and not longer. Another gets the lock and writes;
 * then the paused one goes on, and believes that it still has it. Its fence is the older one, on every round:
 * a store that checks it refuses. */
static void gone_holder(void) {
    enum { ROUNDS = 2, GONE_TTL_MS = 400 };
    struct lock *lock = tools_open(NULL, url_of(20000));
    for (int i = 0; i < ROUNDS; i++) {
        struct proc proc;
        uint64_t fence = stopped_holder(&proc, GONE_TTL_MS);
        if (i == 0)
            check_ends(&proc, SIGKILL);
        struct lock_grant grant = tools_acquire(lock, "a");
        CHECK(!kind->wait_for_line || grant.fence > fence);
        CHECK(!kind->wait_for_line || write_with_fence(grant.fence, "second"));
        if (i > 0)
            check_ends(&proc, SIGCONT); /* it went on as if it held it: its write follows */
        CHECK(!kind->wait_for_line || !write_with_fence(fence, "first"));
        tools_release(lock, &grant);
    }
}

/* One who waits is killed, or stopped: the next in line has it, at once or after the time that was given to
 * the stopped one. */
static void gone_waiter(void) {
    enum { GONE_TTL_MS = 1000 };
    struct lock *lock = tools_open(NULL, url_of(GONE_TTL_MS)), *other = tools_open(NULL, url_of(GONE_TTL_MS));
    for (int i = 0; i < 2; i++) {
        struct lock_grant held = tools_acquire(lock, "a");
        struct proc proc;
        start_holder(&proc, GONE_TTL_MS);
        kind->wait_for_line(1);
        struct tools_waiter *waiter = tools_wait(other, "a", PATIENCE_MS, NULL);
        kind->wait_for_line(2);
        if (i == 0)
            proc_kill(&proc, SIGSTOP);
        else
            check_ends(&proc, SIGKILL);
        lock_extend(lock, &held);
        tools_release(lock, &held);
        CHECK(tools_serve(waiter) > held.fence);
        if (i == 0)
            check_ends(&proc, SIGKILL);
    }
}

int main(int argc, char **argv) {
    beliefs_work(argc, argv);
    if (argc == 3 && strcmp(argv[1], "holder") == 0)
        return run_holder(argv[2]);
    harness_begin(argc, argv);
    start_stores();
    for (int i = 0; i < KINDS; i++) {
        kind = &kinds[i];
        harness_run(harness_format("%s: a holder that is gone", kind->name), gone_holder);
        if (i == WATCHDOG) /* the same as owner, but for the renewals */
            continue;
        if (kind->wait_for_line)
            harness_run(harness_format("%s: one in the queue that is gone", kind->name), gone_waiter);
        harness_run(harness_format("%s: killed at random", kind->name), killed);
    }
    return harness_finish();
}
