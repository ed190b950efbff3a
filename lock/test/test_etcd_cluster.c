/* The lock in an etcd of three members, between real processes, while members are killed and cut off; and
 * holders that are stopped or dead. Judged from outside: by the times at which each had it, and by a number
 * in a file, whose store checks fences. This program is its own worker: `worker URL FILE SEED` and `holder
 * URL KEY`. */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "lock/test/etcd_tools.h"

enum { THREADS = 2, WORKERS = 4, TTL_MS = 4000 };

/* ---- the store that checks fences: a file, "FENCE NUMBER" ---- */

/* Both refuse a fence older than the newest they have seen; to read counts as seen, too. */
static bool go_to_store(const char *file, uint64_t fence, bool writes, long *number) {
    char text[64] = "";
    int fd = open(file, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0 || flock(fd, LOCK_EX) != 0 || pread(fd, text, sizeof text - 1, 0) < 0)
        exit(4);
    char *end;
    uint64_t newest = strtoull(text, &end, 10);
    long found = strtol(end, NULL, 10);
    bool agrees = fence >= newest;
    if (!writes)
        *number = found;
    int length = snprintf(text, sizeof text, "%llu %ld\n", (unsigned long long)fence, *number);
    if (agrees && fence > 0 && pwrite(fd, text, (size_t)length, 0) != length)
        exit(4);
    close(fd);
    return agrees;
}

static long read_number(const char *file) {
    long number;
    go_to_store(file, 0, false, &number);
    return number;
}

/* ---- the worker ---- */

struct work {
    pthread_t thread;
    struct lock *lock;
    const char *file;
    uint64_t random;
};

static const char *stop_file(const char *file) {
    static char name[512];
    snprintf(name, sizeof name, "%s.stop", file);
    return name;
}

/* One hold of the lock. Returns whether the number was written. */
static bool use(struct work *work, const struct lock_grant *grant) {
    long number;
    if (!go_to_store(work->file, grant->fence, false, &number))
        return false;
    usleep((useconds_t)(harness_random(&work->random) % 2000));
    number++;
    return lock_remaining_ns(work->lock, grant) > 0 && go_to_store(work->file, grant->fence, true, &number);
}

/* Prints a line for each hold: when it began and ended as far as the holder knows, its fence, written or not.
 */
static void *work(void *arg) {
    struct work *work = arg;
    while (access(stop_file(work->file), F_OK) != 0) {
        struct lock_grant grant;
        char line[128];
        int64_t deadline_ns = lock_now_ns(work->lock) + 5000000000;
        enum lock_status status = lock_acquire(work->lock, "number", deadline_ns, NULL, &grant);
        int64_t since_ns = lock_now_ns(work->lock);
        int length;
        if (status == LOCK_OK) {
            bool written = use(work, &grant);
            int64_t until_ns = lock_now_ns(work->lock);
            length = snprintf(line, sizeof line, "turn %lld %lld %llu %d\n", (long long)since_ns,
                              (long long)(until_ns < grant.deadline_ns ? until_ns : grant.deadline_ns),
                              (unsigned long long)grant.fence, written);
            lock_release(work->lock, &grant);
        } else {
            length = snprintf(line, sizeof line, "none %s\n", lock_status_text(status));
        }
        if (write(STDOUT_FILENO, line, (size_t)length) != length)
            exit(4);
        usleep((useconds_t)(harness_random(&work->random) % 1000));
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
    struct work works[THREADS];
    struct lock *lock = open_or_exit(argv[2]);
    stop_file(argv[3]);
    for (int i = 0; i < THREADS; i++) {
        works[i] =
            (struct work){.lock = lock, .file = argv[3], .random = strtoull(argv[4], NULL, 10) + (unsigned)i};
        if (pthread_create(&works[i].thread, NULL, work, &works[i]) != 0)
            exit(4);
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(works[i].thread, NULL);
    lock_close(lock);
    return 0;
}

/* Has it, says so with its fence, and stops as a process that is paused. Once it goes on it believes that it
 * has it still, for it does not look at the clock. */
static int run_holder(char **argv) {
    struct lock_grant grant;
    struct lock *lock = open_or_exit(argv[2]);
    if (lock_acquire(lock, argv[3], tools_in_ms(lock, PATIENCE_MS), NULL, &grant) != LOCK_OK)
        return 3;
    dprintf(STDOUT_FILENO, "%llu\n", (unsigned long long)grant.fence);
    raise(SIGSTOP);
    return 0;
}

static void start(struct proc *proc, const char *what, const char *a, const char *b, const char *c) {
    static int number;
    const char *argv[] = {"/proc/self/exe", what, a, b, c, NULL};
    proc_spawn(proc, argv, NULL, harness_format("%s/%s-%d.log", harness_dir(), what, number++));
}

static int exit_of(struct proc *proc) {
    int status;
    CHECK(proc_wait(proc, 3 * PATIENCE_MS, &status));
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* ---- the judge ---- */

struct turn {
    long long since_ns, until_ns;
    unsigned long long fence;
    int written;
};

static struct turn *turns;
static size_t turn_count;

/* False: the worker did not get it. */
static bool read_turn(const char *line, struct turn *turn) {
    if (strncmp(line, "turn ", 5) != 0)
        return false;
    char *at;
    turn->since_ns = strtoll(line + 5, &at, 10);
    turn->until_ns = strtoll(at, &at, 10);
    turn->fence = strtoull(at, &at, 10);
    turn->written = (int)strtol(at, &at, 10);
    CHECK_INT(*at, '\n');
    return true;
}

static bool is_excused(const char *line) {
    static const char *const excuses[] = {"none unavailable\n", "none unknown\n", "none timed out\n"};
    for (size_t i = 0; i < sizeof excuses / sizeof *excuses; i++) {
        if (strncmp(line, excuses[i], strlen(excuses[i])) == 0)
            return true;
    }
    return false;
}

static void read_turns(const struct proc *procs) {
    const char *text[WORKERS];
    size_t lines = 0;
    for (int i = 0; i < WORKERS; i++) {
        text[i] = proc_output(&procs[i]);
        for (const char *c = text[i]; *c; c++)
            lines += *c == '\n';
    }
    turns = harness_alloc((lines + 1) * sizeof *turns);
    turn_count = 0;
    for (int i = 0; i < WORKERS; i++) {
        for (const char *at = text[i]; *at; at = strchr(at, '\n') + 1) {
            if (read_turn(at, &turns[turn_count]))
                turn_count++;
            else if (!is_excused(at))
                FAIL("a worker said: %.*s", (int)strcspn(at, "\n"), at);
        }
    }
}

static int by_time(const void *one, const void *other) {
    long long a = ((const struct turn *)one)->since_ns, b = ((const struct turn *)other)->since_ns;
    return (a > b) - (a < b);
}

/* No two had it at a time, later ones have greater fences, and no write was lost. */
static void judge(const char *file) {
    long written = 0;
    qsort(turns, turn_count, sizeof *turns, by_time);
    for (size_t i = 0; i < turn_count; i++) {
        written += turns[i].written;
        if (i > 0 && turns[i].since_ns < turns[i - 1].until_ns)
            FAIL("two held it: fence %llu until %lld, fence %llu from %lld", turns[i - 1].fence,
                 turns[i - 1].until_ns, turns[i].fence, turns[i].since_ns);
        if (i > 0 && turns[i].fence <= turns[i - 1].fence)
            FAIL("fence %llu after fence %llu", turns[i].fence, turns[i - 1].fence);
    }
    CHECK_INT(read_number(file), written);
}

/* ---- faults ---- */

static struct etcd_server members[3];

static void kill_it(struct etcd_server *member) {
    etcd_kill(member);
}

static void cut_it(struct etcd_server *member) {
    net_cut(&member->net);
}

static void cut_its_peers(struct etcd_server *member) {
    net_cut_peers(&member->net);
}

static void join_it(struct etcd_server *member) {
    net_join(&member->net);
}

static struct fault {
    const char *name;
    bool leader; /* or one of the others */
    void (*begin)(struct etcd_server *member);
    void (*end)(struct etcd_server *member);
    long long gap_ns; /* the longest time in which no process acquired it */
} faults[] = {
    {"the leader killed", true, kill_it, etcd_restart, 0},
    {"the leader cut off", true, cut_it, join_it, 0},
    {"a follower killed", false, kill_it, etcd_restart, 0},
    {"the leader cut off from its peers", true, cut_its_peers, join_it, 0},
    {"a follower cut off", false, cut_it, join_it, 0},
};

enum { FAULTS = sizeof faults / sizeof *faults };

struct window {
    struct fault *fault;
    long long since_ns, until_ns;
};

static long long now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000000LL + now.tv_nsec;
}

struct progress {
    const char *file;
    long number;
};

static bool has_progressed(void *arg) {
    struct progress *progress = arg;
    return read_number(progress->file) >= progress->number;
}

static void wait_for_progress(const char *file) {
    enum { SOME = 8 };
    struct progress progress = {file, read_number(file) + SOME};
    if (!harness_wait(has_progressed, &progress, 3 * PATIENCE_MS))
        FAIL("nobody gets it any more");
}

static void suffer(struct window *window, const char *file, uint64_t *random) {
    int leader = etcd_leader(members, 3);
    int victim = window->fault->leader ? leader : (leader + 1 + (int)(harness_random(random) % 2)) % 3;
    window->since_ns = now_ns();
    window->fault->begin(&members[victim]);
    harness_pause_ms((int)(harness_random(random) % 1000));
    wait_for_progress(file);
    window->fault->end(&members[victim]);
    wait_for_progress(file);
    etcd_leader(members, 3);
    window->until_ns = now_ns();
}

static void measure(const struct window *windows, int count) {
    for (int i = 0; i < count; i++) {
        const struct window *window = &windows[i];
        for (size_t k = 1; k < turn_count; k++) {
            long long since_ns = turns[k - 1].since_ns, until_ns = turns[k].since_ns;
            since_ns = since_ns > window->since_ns ? since_ns : window->since_ns;
            until_ns = until_ns < window->until_ns ? until_ns : window->until_ns;
            if (until_ns - since_ns > window->fault->gap_ns)
                window->fault->gap_ns = until_ns - since_ns;
        }
    }
    for (int i = 0; i < FAULTS && i < count; i++)
        printf("     %s: nobody got it for %lld ms at the longest\n", faults[i].name,
               faults[i].gap_ns / 1000000);
}

static int rounds_wanted(void) {
    const char *rounds = getenv("SECKILL_TORTURE_ROUNDS");
    return rounds ? (int)strtol(rounds, NULL, 10) : FAULTS - 1;
}

static void members_fail(void) {
    int rounds = rounds_wanted();
    struct window *windows = harness_alloc((size_t)rounds * sizeof *windows);
    const char *file = harness_format("%s/number", harness_dir());
    uint64_t random = harness_seed();
    struct proc procs[WORKERS];
    etcd_start_network(members, 3, NULL);
    const char *url = etcd_tools_url(members, 3, harness_format("ttl=%d", TTL_MS));
    for (int i = 0; i < WORKERS; i++)
        start(&procs[i], "worker", url, file,
              harness_format("%llu", (unsigned long long)(harness_random(&random) >> 1)));
    wait_for_progress(file);
    for (int i = 0; i < rounds; i++) {
        windows[i].fault = &faults[i % FAULTS];
        suffer(&windows[i], file, &random);
    }
    close(open(stop_file(file), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
    for (int i = 0; i < WORKERS; i++)
        CHECK_INT(exit_of(&procs[i]), 0);
    read_turns(procs);
    judge(file);
    measure(windows, rounds);
    printf("     %d faults, %zu turns, no two at a time, no write lost\n", rounds, turn_count);
    const char *status = etcd_command(&members[0], "endpoint", "status", "--write-out=fields", NULL);
    const char *version = strstr(status, "\"Version\" : \"");
    CHECK(version);
    version += strlen("\"Version\" : \"");
    harness_evidence("one holds", "etcd of three: members are killed and cut off", rounds,
                     harness_format("etcd %.*s", (int)strcspn(version, "\""), version),
                     "\"grants\":%zu,\"ttl_ms\":%d,\"overlap_ms\":0,\"fences_twice\":0", turn_count, TTL_MS);
    etcd_tools_wait_for(&members[0], "lock/", 0);
}

/* ---- holders that are stopped, or dead ---- */

static bool is_stopped(void *proc) {
    return proc_stopped(proc);
}

/* Starts one that has the lock and is stopped; its fence. */
static uint64_t start_holder(struct proc *proc, const char *url, const char *key) {
    start(proc, "holder", url, key, NULL);
    CHECK(harness_wait(is_stopped, proc, PATIENCE_MS));
    return strtoull(proc_output(proc), NULL, 10);
}

/* A holder is killed, or paused for longer than its lease. Another has it once the lease is over, and writes;
 * then the paused one goes on. Its fence is the older one, each time: who checks it refuses; who does not
 * loses what the second wrote. */
static void gone_holders(void) {
    enum { HOLDERS = 12, SECOND = 2, FIRST = 1 };
    struct proc procs[HOLDERS];
    uint64_t fences[HOLDERS];
    struct tools_waiter *waiters[HOLDERS];
    int lost = 0;
    etcd_start(&members[0], NULL);
    const char *url = etcd_tools_url(members, 1, "ttl=300");
    struct lock *lock = etcd_tools_open(&members[0], "ttl=60000");
    for (int i = 0; i < HOLDERS; i++) {
        const char *key = harness_format("%d", i);
        fences[i] = start_holder(&procs[i], url, key);
        waiters[i] = tools_wait(lock, key, PATIENCE_MS, NULL);
        if (i % 3 == 0)
            proc_kill(&procs[i], SIGKILL);
    }
    int64_t began_ms = harness_now_ms();
    for (int i = 0; i < HOLDERS; i++) {
        const char *checked = harness_format("%s/checked-%d", harness_dir(), i);
        const char *unchecked = harness_format("%s/unchecked-%d", harness_dir(), i);
        long number = SECOND;
        tools_check_status(tools_join(waiters[i]), LOCK_OK);
        CHECK(fences[i] < waiters[i]->grant.fence);
        CHECK(go_to_store(checked, waiters[i]->grant.fence, true, &number));
        CHECK(go_to_store(unchecked, 1, true, &number));
        if (i == 0)
            printf("     had %lld ms after the last was gone\n", (long long)(harness_now_ms() - began_ms));
        if (i % 3 == 0) {
            CHECK_INT(exit_of(&procs[i]), 128 + SIGKILL);
        } else {
            proc_kill(&procs[i], SIGCONT);
            CHECK_INT(exit_of(&procs[i]), 0); /* it went on as if it held it: its writes follow */
            number = FIRST;
            CHECK(!go_to_store(checked, fences[i], true, &number));
            CHECK_INT(read_number(checked), SECOND);
            CHECK(go_to_store(unchecked, 1, true, &number));
            lost += read_number(unchecked) != SECOND;
        }
        CHECK(lock_remaining_ns(lock, &waiters[i]->grant) > 0);
        tools_release(lock, &waiters[i]->grant);
    }
    CHECK_INT(lost, HOLDERS / 3 * 2);
    etcd_tools_wait_for(&members[0], "lock/", 0);
}

int main(int argc, char **argv) {
    if (argc == 5 && strcmp(argv[1], "worker") == 0)
        return run_worker(argv);
    if (argc == 4 && strcmp(argv[1], "holder") == 0)
        return run_holder(argv);
    harness_begin(argc, argv);
    harness_limit(240 + 20 * (unsigned)rounds_wanted());
    net_begin();
    harness_run("members fail", members_fail);
    harness_run("holders that are gone, and believe", gone_holders);
    return harness_finish();
}
