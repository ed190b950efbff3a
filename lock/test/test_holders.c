/* Who holds a lock, and who believes it, while its store fails over: by processes of their own, which say
 * from when to when they believed in each grant. Whatever happens, two believe at the same time for less than
 * a time to live, and no fence is given twice, or falls; while slots move, and nothing fails, two never
 * believe. SECKILL_TORTURE_SECONDS: how long each kind of fault is repeated (without: once). This program is
 * its own worker: `worker URL ANEW SEED SLOW_IN`. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lock/test/tools.h"
#include "test/harness.h"

enum { TTL_MS = 2000, PROCESSES = 6, GRANTS_MAX = 1 << 20 };

static const int64_t MS = 1000000;

/* ---- the worker ---- */

/* Believes until it releases, or sees that its grant is over. One in so many holders is slow, some of them
 * for longer than the grant lasts. */
static int64_t believe(struct lock *lock, const struct lock_grant *grant, uint64_t *random,
                       unsigned slow_in) {
    int ms = (int)(harness_random(random) % 8);
    if (harness_random(random) % slow_in == 0)
        ms += 100 + (int)(harness_random(random) % TTL_MS);
    int64_t since_ns = lock_now_ns(lock), now_ns = since_ns, until_ns = since_ns;
    for (; now_ns < since_ns + ms * MS && lock_remaining_ns(lock, grant) > 0; now_ns = lock_now_ns(lock)) {
        until_ns = now_ns;
        usleep(500);
    }
    return until_ns;
}

static int run_worker(const char *url, bool anew, uint64_t random, unsigned slow_in) {
    char error[LOCK_ERROR_SIZE];
    struct lock *lock = NULL;
    for (;;) {
        if (!lock && lock_open(url, NULL, &lock, error, sizeof error) != LOCK_OK)
            return 2;
        struct lock_grant grant;
        enum lock_status status = lock_acquire_for(lock, "a", 100, &grant);
        int64_t since_ns = lock_now_ns(lock);
        if (status == LOCK_OK) {
            int64_t until_ns = believe(lock, &grant, &random, slow_in);
            bool is_over =
                lock_remaining_ns(lock, &grant) <= 0; /* by its own time: no failover has lost it */
            enum lock_status ended = lock_release(lock, &grant);
            bool is_lost = !is_over && (ended == LOCK_LOST || ended == LOCK_NOT_OWNER);
            dprintf(STDOUT_FILENO, "%llu %lld %lld %d\n", (unsigned long long)grant.fence,
                    (long long)since_ns, (long long)until_ns, is_lost);
        }
        usleep((useconds_t)(harness_random(&random) % 4000));
        if (anew && harness_random(&random) % 16 == 0) {
            lock_close(lock);
            lock = NULL;
        }
    }
}

/* ---- the judge ---- */

struct belief {
    uint64_t fence;
    int64_t since_ns, until_ns;
    bool lost; /* as the release said, before its time was over */
};

static struct belief beliefs[GRANTS_MAX];
static int count;

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
 * first moment to the last of one failover. */
static int count_overlaps(int64_t *longest_ms) {
    int64_t first_ns = 0, last_ns = INT64_MIN, longest_ns = 0, until_ns = INT64_MIN;
    int overlaps = 0;
    qsort(beliefs, (size_t)count, sizeof *beliefs, by_time);
    for (int i = 0; i < count; i++) {
        int64_t since_ns = beliefs[i].since_ns, end_ns = beliefs[i].until_ns;
        if (since_ns < until_ns) {
            if (overlaps++ == 0 || since_ns - last_ns > INT64_C(3) * TTL_MS * MS)
                first_ns = since_ns;
            last_ns = longer(last_ns, end_ns < until_ns ? end_ns : until_ns);
            longest_ns = longer(longest_ns, last_ns - first_ns);
        }
        until_ns = longer(until_ns, end_ns);
    }
    *longest_ms = longest_ns / MS;
    return overlaps;
}

static int count_same_fences(void) {
    int same = 0;
    qsort(beliefs, (size_t)count, sizeof *beliefs, by_fence);
    for (int i = 1; i < count; i++)
        same += beliefs[i - 1].fence == beliefs[i].fence;
    return same;
}

static int count_lost(void) {
    int lost = 0;
    for (int i = 0; i < count; i++)
        lost += beliefs[i].lost;
    return lost;
}

/* Of grants that began after the one before had ended, how many had a smaller fence. */
static int count_falls(void) {
    int falls = 0;
    qsort(beliefs, (size_t)count, sizeof *beliefs, by_time);
    for (int i = 1; i < count; i++)
        falls += beliefs[i].since_ns >= beliefs[i - 1].until_ns && beliefs[i].fence < beliefs[i - 1].fence;
    return falls;
}

#define MOSTLY_QUICK "64"

static struct proc procs[PROCESSES];
static int runs; /* each with its own logs */

static const char *log_of(int i) {
    return harness_format("%s/worker-%d-%d.log", harness_dir(), runs, i);
}

static void start_workers(const char *url, uint64_t *random, const char *slow_in) {
    runs++;
    for (int i = 0; i < PROCESSES; i++) {
        const char *seed = harness_format("%llu", (unsigned long long)(harness_random(random) >> 1));
        const char *argv[] = {
            "/proc/self/exe", "worker", harness_format("%s?ttl=%d", url, TTL_MS), i % 2 ? "1" : "0", seed,
            slow_in,          NULL};
        proc_spawn(&procs[i], argv, NULL, log_of(i));
    }
}

static off_t said(int i) {
    struct stat file = {.st_size = 0};
    stat(log_of(i), &file);
    return file.st_size;
}

static bool have_held(void *after) {
    bool all = true;
    for (int i = 0; i < PROCESSES && all; i++)
        all = said(i) > ((off_t *)after)[i] + 100;
    return all;
}

/* Each process has had the lock, and for longer than it takes to write a line. */
static void wait_for_all(void) {
    off_t after[PROCESSES];
    for (int i = 0; i < PROCESSES; i++)
        after[i] = said(i);
    CHECK(harness_wait(have_held, after, PATIENCE_MS));
}

static void judge(const char *what, int faults, bool may_overlap) {
    int64_t longest_ms;
    count = 0;
    for (int i = 0; i < PROCESSES; i++) {
        CHECK(proc_running(&procs[i]));
        proc_kill(&procs[i], SIGKILL);
        CHECK(proc_wait(&procs[i], PATIENCE_MS, NULL));
        read_beliefs(&procs[i]);
    }
    int overlaps = count_overlaps(&longest_ms), same = count_same_fences(), falls = count_falls(),
        lost = count_lost();
    printf("     %s, %d times: %d grants, %d of them lost while they were held, %d while another believed in "
           "its "
           "own (for %lld ms at most); %d fences given twice, %d smaller than the one before\n",
           what, faults, count, lost, overlaps, (long long)longest_ms, same, falls);
    harness_evidence(may_overlap ? "two hold for less than a time to live, no fence is given twice"
                                 : "one holds, no fence is given twice",
                     what, faults, redis_name(),
                     "\"grants\":%d,\"grants_lost\":%d,\"ttl_ms\":%d,\"overlap_ms\":%lld,\"fences_twice\":%d",
                     count, lost, TTL_MS, (long long)longest_ms, same);
    CHECK(overlaps == 0 || may_overlap);
    CHECK(longest_ms < TTL_MS);
    CHECK_INT(same, 0);
    CHECK_INT(falls, 0);
}

/* ---- the faults ---- */

static int seconds; /* that each fault is repeated for */
static int64_t torture_until_ms;

static void begin_torture(void) {
    torture_until_ms = harness_now_ms() + 1000LL * seconds;
}

static bool goes_on(void) {
    return harness_now_ms() < torture_until_ms;
}

static struct redis_sentinel sentinel;

/* The server that all Sentinels name; NULL: they do not agree. */
static struct redis_server *named(void) {
    struct redis_server *server = NULL;
    for (int i = 0; i < REDIS_SENTINELS; i++) {
        const char *answer =
            redis_command(&sentinel.sentinel[i], "SENTINEL", "GET-MASTER-ADDR-BY-NAME", "shop", NULL);
        bool first = strstr(answer, harness_format(" %d]", sentinel.server[0].port));
        struct redis_server *each = &sentinel.server[first ? 0 : 1];
        if (server && each != server)
            return NULL;
        server = each;
    }
    return server;
}

static bool names_other(void *master) {
    struct redis_server *server = named();
    return server && server != master;
}

/* The other server replicates the one that is named, and the Sentinels know it. */
static bool is_settled(void *arg) {
    (void)arg;
    struct redis_server *master = named();
    if (!master || redis_sentinel_master(&sentinel) != master)
        return false;
    const struct redis_server *other = &sentinel.server[master == &sentinel.server[0]];
    if (!strstr(redis_command(other, "INFO", "replication", NULL), "master_link_status:up"))
        return false;
    for (int i = 0; i < REDIS_SENTINELS; i++) {
        const struct redis_server *each = &sentinel.sentinel[i];
        if (!strstr(redis_command(each, "SENTINEL", "MASTER", "shop", NULL), "flags master ") ||
            !strstr(redis_command(each, "SENTINEL", "REPLICAS", "shop", NULL), "flags slave ") ||
            !strstr(redis_command(each, "SENTINEL", "REPLICAS", "shop", NULL), "master-link-status ok "))
            return false;
    }
    return true;
}

static bool fails_over(void *arg) {
    return strcmp(redis_command(arg, "SENTINEL", "FAILOVER", "shop", NULL), "OK") == 0;
}

/* `cut`: the replica that takes over has not got the last grants. So many holders are slow then that one
 * mostly believes in a grant that is lost. */
static void replace_masters(const char *what, bool cut) {
    uint64_t random = harness_seed();
    int faults = 0;
    redis_sentinel_start(&sentinel);
    start_workers(redis_sentinel_url(&sentinel), &random, cut ? "4" : MOSTLY_QUICK);
    begin_torture();
    do {
        CHECK(harness_wait(is_settled, NULL, 3 * PATIENCE_MS));
        wait_for_all();
        struct redis_server *master = named();
        if (cut) {
            replica_cut(master, &sentinel.server[master == &sentinel.server[0]]);
            harness_pause_ms((int)(harness_random(&random) % TTL_MS));
        }
        CHECK(harness_wait(fails_over, &sentinel.sentinel[harness_random(&random) % REDIS_SENTINELS],
                           PATIENCE_MS));
        CHECK(harness_wait(names_other, master, 3 * PATIENCE_MS));
        harness_pause_ms(3 * TTL_MS); /* the old master takes commands for ten seconds */
        wait_for_all();
        if (cut)
            CHECK_STR(redis_command(master, "ACL", "SETUSER", "default", "+psync", "+sync", NULL), "OK");
        faults++;
    } while (goes_on());
    judge(what, faults, true);
}

static void orderly(void) {
    replace_masters("Sentinels: SENTINEL FAILOVER", false);
}

static void cut_off(void) {
    replace_masters("Sentinels: the replica is cut off, SENTINEL FAILOVER", true);
}

static void killed(void) {
    uint64_t random = harness_seed();
    int faults = 0;
    redis_sentinel_start(&sentinel);
    start_workers(redis_sentinel_url(&sentinel), &random, MOSTLY_QUICK);
    begin_torture();
    do {
        CHECK(harness_wait(is_settled, NULL, 3 * PATIENCE_MS));
        wait_for_all();
        struct redis_server *master = named();
        redis_kill(master);
        CHECK(harness_wait(names_other, master, 3 * PATIENCE_MS));
        if (harness_random(&random) % 2)
            wait_for_all();
        redis_restart(master);
        wait_for_all();
        faults++;
    } while (goes_on());
    judge("Sentinels: kill -9 of the master", faults, true);
}

static struct redis_cluster cluster;

static void moved(void) {
    static const char *tag = "{a}";
    uint64_t random = harness_seed();
    int faults = 0;
    redis_cluster_start(&cluster, 2, 0);
    start_workers(redis_cluster_url(&cluster), &random, MOSTLY_QUICK);
    begin_torture();
    do {
        wait_for_all();
        struct redis_server *from = redis_cluster_of(&cluster, tag);
        CHECK(from);
        struct redis_server *to = &cluster.server[from == &cluster.server[0]];
        redis_cluster_begin_move(tag, from, to);
        harness_pause_ms((int)(harness_random(&random) % 100));
        while (redis_cluster_move_keys(tag, from, to, 100) > 0)
            ;
        harness_pause_ms((int)(harness_random(&random) % 100));
        redis_cluster_end_move(&cluster, tag, to);
        wait_for_all();
        faults++;
    } while (goes_on() || faults < 5);
    judge("a cluster: moves of the slot", faults, false);
}

/* The server of the slot, and the one that replicates it. */
static struct redis_server *cluster_pair(struct redis_server **replica) {
    struct redis_server *master = redis_cluster_of(&cluster, "{a}");
    if (master)
        *replica = &cluster.server[(master - cluster.server + 3) % 6];
    return master;
}

static bool is_paired(void *arg) {
    struct redis_server *replica;
    (void)arg;
    return cluster_pair(&replica) && proc_running(&replica->proc) &&
           strstr(redis_command(replica, "INFO", "replication", NULL), "master_link_status:up");
}

static bool has_slot(void *server) {
    struct redis_server *replica;
    return cluster_pair(&replica) == server;
}

/* A server that has just come back may not be heard by its master yet: then it gives up after five seconds.
 */
static void take_over(struct redis_server *replica) {
    enum { TRIES = 10, TRY_MS = 6000 };
    bool done = false;
    for (int i = 0; i < TRIES && !done; i++) {
        redis_command(replica, "CLUSTER", "FAILOVER", NULL);
        done = harness_wait(has_slot, replica, TRY_MS);
    }
    CHECK(done);
}

/* In order, and by a death, in turn. */
static void taken_over(void) {
    uint64_t random = harness_seed();
    int faults = 0;
    redis_cluster_start(&cluster, 3, 1);
    start_workers(redis_cluster_url(&cluster), &random, MOSTLY_QUICK);
    begin_torture();
    do {
        CHECK(harness_wait(is_paired, NULL, 3 * PATIENCE_MS));
        wait_for_all();
        struct redis_server *replica = NULL, *master = cluster_pair(&replica);
        CHECK(master && replica);
        if (faults % 2 == 0)
            take_over(replica);
        else
            redis_kill(master);
        CHECK(harness_wait(has_slot, replica, 3 * PATIENCE_MS));
        wait_for_all();
        if (faults % 2 == 1)
            redis_restart(master);
        faults++;
    } while (goes_on() || faults < 2);
    judge("a cluster: failovers in order, and by kill -9", faults, true);
}

int main(int argc, char **argv) {
    if (argc == 6 && strcmp(argv[1], "worker") == 0)
        return run_worker(argv[2], *argv[3] == '1', strtoull(argv[4], NULL, 10),
                          (unsigned)strtoul(argv[5], NULL, 10));
    const char *wanted_seconds = getenv("SECKILL_TORTURE_SECONDS");
    harness_begin(argc, argv);
    if (wanted_seconds)
        seconds = (int)strtol(wanted_seconds, NULL, 10);
    harness_limit(300 + 5 * (unsigned)seconds);
    harness_run("orderly failovers", orderly);
    harness_run("masters that are killed", killed);
    harness_run("replicas that were cut off", cut_off);
    harness_run("slots that move", moved);
    harness_run("failovers in a cluster", taken_over);
    return harness_finish();
}
