#include "lock/test/beliefs.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PROCESSES = 6, GRANTS_MAX = 1 << 20 };

static const int64_t MS = 1000000;

/* ---- the worker: `believe URL THREADS SEED SLOW_IN TTL_MS`; 0 threads: one, which opens the lock anew ----
 */

struct worker {
    const char *url;
    struct lock *lock;
    bool anew;
    uint64_t random;
    unsigned slow_in, ttl_ms;
};

/* Believes until it releases, or sees that its grant is over. */
static int64_t believe(struct worker *worker, const struct lock_grant *grant) {
    int64_t ms = (int64_t)(harness_random(&worker->random) % 8);
    if (harness_random(&worker->random) % worker->slow_in == 0)
        ms += 100 + (int64_t)(harness_random(&worker->random) % worker->ttl_ms);
    int64_t since_ns = lock_now_ns(worker->lock), now_ns = since_ns, until_ns = since_ns;
    for (; now_ns < since_ns + ms * MS && lock_remaining_ns(worker->lock, grant) > 0;
         now_ns = lock_now_ns(worker->lock)) {
        until_ns = now_ns;
        usleep(500);
    }
    return until_ns;
}

static struct lock *open_or_exit(const char *url) {
    char error[LOCK_ERROR_SIZE];
    struct lock *lock;
    if (lock_open(url, NULL, &lock, error, sizeof error) != LOCK_OK)
        _exit(2);
    return lock;
}

static void *take_turns(void *arg) {
    struct worker *worker = arg;
    for (;;) {
        struct lock_grant grant;
        enum lock_status status = lock_acquire_for(worker->lock, "a", 100, &grant);
        if (status == LOCK_OK) {
            int64_t since_ns = lock_now_ns(worker->lock), until_ns = believe(worker, &grant);
            /* By its own time: no failover has lost it. */
            bool is_over = lock_remaining_ns(worker->lock, &grant) <= 0;
            enum lock_status ended = lock_release(worker->lock, &grant);
            bool is_lost = !is_over && (ended == LOCK_LOST || ended == LOCK_NOT_OWNER);
            dprintf(STDOUT_FILENO, "%llu %lld %lld %d\n", (unsigned long long)grant.fence,
                    (long long)since_ns, (long long)until_ns, is_lost);
        } else if (status != LOCK_TIMEOUT && status != LOCK_UNAVAILABLE && status != LOCK_UNKNOWN) {
            _exit(3);
        }
        usleep((useconds_t)(harness_random(&worker->random) % 4000));
        if (worker->anew && harness_random(&worker->random) % 16 == 0) {
            lock_close(worker->lock);
            worker->lock = open_or_exit(worker->url);
        }
    }
    return NULL;
}

void beliefs_work(int argc, char **argv) {
    if (argc != 7 || strcmp(argv[1], "believe") != 0)
        return;
    struct worker worker = {.url = argv[2],
                            .lock = open_or_exit(argv[2]),
                            .anew = *argv[3] == '0',
                            .random = strtoull(argv[4], NULL, 10),
                            .slow_in = (unsigned)strtoul(argv[5], NULL, 10),
                            .ttl_ms = (unsigned)strtoul(argv[6], NULL, 10)};
    struct worker second = worker;
    pthread_t thread;
    second.random++;
    if (*argv[3] == '2' && pthread_create(&thread, NULL, take_turns, &second) != 0)
        _exit(4);
    take_turns(&worker);
}

/* ---- the processes ---- */

static struct belief {
    uint64_t fence;
    int64_t since_ns, until_ns;
    bool lost; /* as the release said, before its time was over */
} beliefs[GRANTS_MAX];
static int count;

static struct proc procs[PROCESSES];
static struct beliefs_plan asked;

static void start(int i, uint64_t *random) {
    static int runs;
    const char *argv[] = {"/proc/self/exe",
                          "believe",
                          asked.url,
                          harness_format("%d", i % 2 ? 0 : asked.threads),
                          harness_format("%llu", (unsigned long long)(harness_random(random) >> 1)),
                          harness_format("%d", asked.slow_in),
                          harness_format("%d", asked.ttl_ms),
                          NULL};
    proc_spawn(&procs[i], argv, NULL, harness_format("%s/believer-%d.log", harness_dir(), runs++));
}

void beliefs_start(const struct beliefs_plan *plan, uint64_t *random) {
    asked = *plan;
    asked.url = harness_format("%s%cttl=%d", asked.url, strchr(asked.url, '?') ? '&' : '?', asked.ttl_ms);
    count = 0;
    for (int i = 0; i < asked.processes; i++)
        start(i, random);
}

static off_t said(int i) {
    struct stat file = {.st_size = 0};
    stat(proc_log(procs[i].record), &file);
    return file.st_size;
}

/* Each has said more than it takes to write the lines that it was writing. */
static bool have_held(void *after) {
    bool all = true;
    for (int i = 0; i < asked.processes && all; i++)
        all = said(i) > ((off_t *)after)[i] + 100;
    return all;
}

void beliefs_wait(void) {
    off_t after[PROCESSES];
    for (int i = 0; i < asked.processes; i++)
        after[i] = said(i);
    CHECK(harness_wait(have_held, after, 3 * PATIENCE_MS));
}

static void read_beliefs(const struct proc *proc) {
    for (const char *line = proc_output(proc), *end; (end = strchr(line, '\n')); line = end + 1) {
        struct belief *each = &beliefs[count];
        char *at;
        CHECK(count < GRANTS_MAX);
        each->fence = strtoull(line, &at, 10);
        each->since_ns = strtoll(at, &at, 10);
        each->until_ns = strtoll(at, &at, 10);
        each->lost = strtol(at, &at, 10) != 0;
        CHECK(at == end);
        count++;
    }
}

static void end(int i) {
    CHECK(proc_running(&procs[i]));
    proc_kill(&procs[i], SIGKILL);
    CHECK(proc_wait(&procs[i], PATIENCE_MS, NULL));
    read_beliefs(&procs[i]);
}

void beliefs_replace(uint64_t *random) {
    int i = (int)(harness_random(random) % (uint64_t)asked.processes);
    end(i);
    start(i, random);
}

/* ---- the judge ---- */

static int by_time(const void *a, const void *b) {
    const struct belief *x = a, *y = b;
    return x->since_ns < y->since_ns ? -1 : x->since_ns > y->since_ns;
}

static int by_fence(const void *a, const void *b) {
    const struct belief *x = a, *y = b;
    return x->fence < y->fence ? -1 : x->fence > y->fence ? 1 : by_time(a, b);
}

static int64_t longer(int64_t a, int64_t b) {
    return a > b ? a : b;
}

/* In how many grants a process believed while another did; in `*longest_ms` how long that went on, from the
 * first moment to the last of one failover. Of beliefs that are sorted by time. */
static int count_overlaps(int64_t *longest_ms) {
    int64_t first_ns = 0, last_ns = INT64_MIN, longest_ns = 0, until_ns = INT64_MIN;
    int overlaps = 0;
    for (int i = 0; i < count; i++) {
        int64_t since_ns = beliefs[i].since_ns, end_ns = beliefs[i].until_ns;
        if (since_ns < until_ns) {
            if (overlaps++ == 0 || since_ns - last_ns > INT64_C(3) * asked.ttl_ms * MS)
                first_ns = since_ns;
            last_ns = longer(last_ns, end_ns < until_ns ? end_ns : until_ns);
            longest_ns = longer(longest_ns, last_ns - first_ns);
        }
        until_ns = longer(until_ns, end_ns);
    }
    *longest_ms = longest_ns / MS;
    return overlaps;
}

void beliefs_judge(const char *what, int times, const char *server, bool may_overlap) {
    int64_t longest_ms;
    int lost = 0, falls = 0, same = 0;
    for (int i = 0; i < asked.processes; i++)
        end(i);
    qsort(beliefs, (size_t)count, sizeof *beliefs, by_time);
    int overlaps = count_overlaps(&longest_ms);
    for (int i = 0; i < count; i++) {
        lost += beliefs[i].lost;
        /* It began after the one before had ended, and has a smaller fence. */
        falls += i > 0 && beliefs[i].since_ns >= beliefs[i - 1].until_ns &&
                 beliefs[i].fence < beliefs[i - 1].fence;
    }
    qsort(beliefs, (size_t)count, sizeof *beliefs, by_fence);
    for (int i = 1; i < count; i++)
        same += beliefs[i].fence > 0 && beliefs[i - 1].fence == beliefs[i].fence;
    printf("     %s, %d times: %d grants, %d of them lost while they were held, %d while another believed in "
           "its own (for %lld ms at most); %d fences given twice, %d smaller than the one before\n",
           what, times, count, lost, overlaps, (long long)longest_ms, same, falls);
    harness_evidence(may_overlap ? "two hold for less than a time to live, no fence is given twice"
                                 : "one holds, no fence is given twice",
                     what, times, server,
                     "\"grants\":%d,\"grants_lost\":%d,\"ttl_ms\":%d,\"overlap_ms\":%lld,\"fences_twice\":%d",
                     count, lost, asked.ttl_ms, (long long)longest_ms, same);
    CHECK(overlaps == 0 || may_overlap);
    CHECK(longest_ms < asked.ttl_ms);
    CHECK_INT(same, 0);
    CHECK_INT(falls, 0);
}
