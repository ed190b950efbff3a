/* Who holds a lock, and who believes it, while its Redis fails over, or its slot moves: see beliefs.h.
 * SECKILL_TORTURE_SECONDS: how long each kind of fault is repeated (without: once). */
#include <stdlib.h>
#include <string.h>

#include "lock/test/beliefs.h"

enum { TTL_MS = 2000, PROCESSES = 6, MOSTLY_QUICK = 64 };

/* With one thread each: a process that has not reached the new master yet may pass its grant on to another of
 * its threads, with a fence that is below the new master's. */
static void start(const char *url, int slow_in, uint64_t *random) {
    beliefs_start(&(struct beliefs_plan){url, TTL_MS, PROCESSES, 1, slow_in}, random);
}

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
    start(redis_sentinel_url(&sentinel), cut ? 8 : MOSTLY_QUICK, &random);
    begin_torture();
    do {
        CHECK(harness_wait(is_settled, NULL, 3 * PATIENCE_MS));
        beliefs_wait();
        struct redis_server *master = named();
        if (cut) {
            replica_cut(master, &sentinel.server[master == &sentinel.server[0]]);
            harness_pause_ms((int)(harness_random(&random) % TTL_MS));
        }
        CHECK(harness_wait(fails_over, &sentinel.sentinel[harness_random(&random) % REDIS_SENTINELS],
                           PATIENCE_MS));
        CHECK(harness_wait(names_other, master, 3 * PATIENCE_MS));
        harness_pause_ms(3 * TTL_MS); /* the old master takes commands for ten seconds */
        beliefs_wait();
        if (cut)
            CHECK_STR(redis_command(master, "ACL", "SETUSER", "default", "+psync", "+sync", NULL), "OK");
        faults++;
    } while (goes_on());
    beliefs_judge(what, faults, redis_name(), true);
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
    start(redis_sentinel_url(&sentinel), MOSTLY_QUICK, &random);
    begin_torture();
    do {
        CHECK(harness_wait(is_settled, NULL, 3 * PATIENCE_MS));
        beliefs_wait();
        struct redis_server *master = named();
        redis_kill(master);
        CHECK(harness_wait(names_other, master, 3 * PATIENCE_MS));
        if (harness_random(&random) % 2)
            beliefs_wait();
        redis_restart(master);
        beliefs_wait();
        faults++;
    } while (goes_on());
    beliefs_judge("Sentinels: kill -9 of the master", faults, redis_name(), true);
}

static struct redis_cluster cluster;

static void moved(void) {
    static const char *tag = "{a}";
    uint64_t random = harness_seed();
    int faults = 0;
    redis_cluster_start(&cluster, 2, 0);
    start(redis_cluster_url(&cluster), MOSTLY_QUICK, &random);
    begin_torture();
    do {
        beliefs_wait();
        struct redis_server *from = redis_cluster_of(&cluster, tag);
        CHECK(from);
        struct redis_server *to = &cluster.server[from == &cluster.server[0]];
        redis_cluster_begin_move(tag, from, to);
        harness_pause_ms((int)(harness_random(&random) % 100));
        while (redis_cluster_move_keys(tag, from, to, 100) > 0)
            ;
        harness_pause_ms((int)(harness_random(&random) % 100));
        redis_cluster_end_move(&cluster, tag, to);
        beliefs_wait();
        faults++;
    } while (goes_on() || faults < 3);
    beliefs_judge("a cluster: moves of the slot", faults, redis_name(), false);
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
    start(redis_cluster_url(&cluster), MOSTLY_QUICK, &random);
    begin_torture();
    do {
        CHECK(harness_wait(is_paired, NULL, 3 * PATIENCE_MS));
        beliefs_wait();
        struct redis_server *replica = NULL, *master = cluster_pair(&replica);
        CHECK(master && replica);
        if (faults % 2 == 0)
            take_over(replica);
        else
            redis_kill(master);
        CHECK(harness_wait(has_slot, replica, 3 * PATIENCE_MS));
        beliefs_wait();
        if (faults % 2 == 1)
            redis_restart(master);
        faults++;
    } while (goes_on() || faults < 2);
    beliefs_judge("a cluster: failovers in order, and by kill -9", faults, redis_name(), true);
}

int main(int argc, char **argv) {
    beliefs_work(argc, argv);
    const char *wanted_seconds = getenv("SECKILL_TORTURE_SECONDS");
    harness_begin(argc, argv);
    if (wanted_seconds)
        seconds = (int)strtol(wanted_seconds, NULL, 10);
    harness_limit(300 + 5 * (unsigned)seconds);
    if (seconds) /* the next but one is the same, and worse */
        harness_run("orderly failovers", orderly);
    harness_run("masters that are killed", killed);
    harness_run("replicas that were cut off", cut_off);
    harness_run("slots that move", moved);
    harness_run("failovers in a cluster", taken_over);
    return harness_finish();
}
