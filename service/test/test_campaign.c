/* Failovers of the store while everything that the shop offers is asked for at random at two instances: what
 * was acknowledged is in the books, or it is told by name that it is not; and with --replicas 1 nothing is
 * ever lost. SECKILL_TORTURE_ROUNDS: how many rounds of each kind; without it a few kinds are played once. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "service/test/campaign.h"
#include "service/test/shop.h"

enum {
    BEFORE = 300,
    AFTER = 600,
    PATIENCE_MS = 90000,
    STOPPED_MS = 70000,
    TRY_MS = 6000,
    CUT_MS = 3000,
    FIND_MS = 30000,
    MASTERS = 3,
    PARTS = 8
};

enum fault {
    KILLED,
    CUT_AND_KILLED,
    STOPPED,
    SWITCHED,
    MOVED,
    MOVED_AND_KILLED,
    INSTANCE_KILLED,
    INSTANCE_RESTARTED,
    INSTANCE_STOPPED,
    FAULTS
};

static const char *const fault_names[] = {
    [KILLED] = "the master is killed",
    [CUT_AND_KILLED] = "the master is cut off and killed",
    [STOPPED] = "the master stands still",
    [SWITCHED] = "the master is replaced in order",
    [MOVED] = "slots move",
    [MOVED_AND_KILLED] = "the master that a slot moves to is killed once its replica has the keys",
    [INSTANCE_KILLED] = "an instance is killed, and the master once its replica has all",
    [INSTANCE_RESTARTED] = "an instance is restarted in order, then the master is killed",
    [INSTANCE_STOPPED] = "an instance stands still across a failover"};

/* A kind of round. */
static struct kind {
    enum shop_kind store;
    int copies;   /* replicas of a master, and */
    int replicas; /* so many of them have what is acknowledged */
    enum fault fault;
    /* Of all rounds: */
    int rounds, passed, acknowledged, lost, told;
    double put_back, unkept;
} kinds[2 * 3 * FAULTS];
static struct kind *kind; /* of this round */
static int kind_count;
static uint64_t position; /* in the random numbers */

struct round {
    struct shop_store store;
    struct redis_server locks;
    struct seckilld services[CAMPAIGN_SERVICES];
    const char *key;             /* that the fault is about, */
    struct redis_server *master; /* and who has it before */
    struct campaign *campaign;
    const atomic_int *count; /* of the campaign's, and how many are waited for */
    int enough;
    long long had;
};

static const char *item_name(int i) {
    return campaign_items[i].name;
}

static void open_round(struct round *round) {
    if (kind->store == SHOP_CLUSTER)
        redis_cluster_start(&round->store.cluster, MASTERS, kind->copies);
    else
        redis_sentinel_start_with(&round->store.sentinel, kind->copies);
    round->store.kind = kind->store;
    round->key = harness_format("{%s}", item_name((int)(harness_random(&position) % CAMPAIGN_ITEMS)));
    redis_start(&round->locks, NULL);
    for (int i = 0; i < CAMPAIGN_SERVICES; i++)
        seckilld_start(&round->services[i], 0, "--redis", shop_store_url(&round->store), "--store-timeout",
                       "1000", "--replicas", kind->replicas ? "1" : "0", "--lock",
                       harness_format("redis://127.0.0.1:%d", round->locks.port), "--lock-ttl", "2000", NULL);
    for (int i = 0; i < CAMPAIGN_SERVICES; i++)
        seckilld_wait_whole(&round->services[i]);
}

/* A server that stands still is not asked. */
static struct redis_server *master_of(struct round *round, const char *key) {
    struct redis_sentinel *sentinel = &round->store.sentinel;
    if (kind->store == SHOP_CLUSTER)
        return redis_cluster_of(&round->store.cluster, key);
    const char *named =
        redis_command(&sentinel->sentinel[0], "SENTINEL", "GET-MASTER-ADDR-BY-NAME", "shop", NULL);
    for (int i = 0; i < sentinel->count; i++) {
        if (strstr(named, harness_format(" %d]", sentinel->server[i].port)))
            return &sentinel->server[i];
    }
    return NULL;
}

struct finding {
    struct round *round;
    const char *key;
    const struct redis_server *master;
};

static bool is_found(void *arg) {
    struct finding *finding = arg;
    finding->master = master_of(finding->round, finding->key);
    return finding->master;
}

/* On a busy machine a cluster may take a second election. */
static const struct redis_server *find_master(void *arg, const char *key) {
    struct finding finding = {arg, key, NULL};
    CHECK(harness_wait(is_found, &finding, FIND_MS));
    return finding.master;
}

static struct redis_server *replica_of(struct round *round) {
    if (kind->store == SHOP_SENTINEL)
        return &round->store.sentinel.server[round->master == &round->store.sentinel.server[0]];
    return round->master + MASTERS;
}

static bool has_other_master(void *arg) {
    struct round *round = arg;
    struct redis_server *master = master_of(round, round->key);
    return master && master != round->master;
}

/* No client asks for anything any more. */
static bool has_ended(const struct round *round) {
    return atomic_load(&round->campaign->running) == 0;
}

static bool has_gone_on(void *arg) {
    struct round *round = arg;
    return atomic_load(round->count) >= round->enough || has_ended(round);
}

static bool waited_for(struct round *round, const atomic_int *count, int more, int patience_ms) {
    round->count = count;
    round->enough = atomic_load(count) + more;
    return harness_wait(has_gone_on, round, patience_ms);
}

static void wait_for(struct round *round, const atomic_int *count, int more) {
    CHECK(waited_for(round, count, more, PATIENCE_MS));
}

/* 0: it was replaced since it was found. */
static long long count_orders(struct round *round) {
    return strtoll(
        redis_command(find_master(round, stock_key("plain")), "HGET", stock_key("plain"), "sold", NULL), NULL,
        10);
}

static bool is_sold(void *arg) {
    struct round *round = arg;
    return count_orders(round) > round->had || has_ended(round);
}

/* It is sold where the servers say, not only at the master that they do not name any more. */
static void go_on(struct round *round) {
    round->had = count_orders(round);
    CHECK(harness_wait(is_sold, round, PATIENCE_MS));
    wait_for(round, &round->campaign->answers, AFTER);
}

static bool is_linked(void *replica) {
    return strstr(redis_command(replica, "INFO", "replication", NULL), "master_link_status:up");
}

/* One of two replicas is cut off, which will be promoted: the other has what is acknowledged. */
static void cut_one_off(struct round *round) {
    struct redis_server *replica = replica_of(round);
    CHECK_STR(
        redis_command(round->master, "ACL", "SETUSER", "lags", "on", ">lags", "~*", "&*", "+@all", NULL),
        "OK");
    CHECK_STR(redis_command(replica, "CONFIG", "SET", "masteruser", "lags", "masterauth", "lags",
                            "replica-priority", "1", NULL),
              "OK");
    CHECK_INT(redis_integer(round->master, "CLIENT", "KILL", "TYPE", "replica", NULL), 2);
    CHECK(harness_wait(is_linked, replica, PATIENCE_MS));
    CHECK_STR(redis_command(round->master, "ACL", "SETUSER", "lags", "-psync", "-sync", NULL), "OK");
    CHECK_INT(redis_integer(round->master, "CLIENT", "KILL", "USER", "lags", NULL), 1);
    waited_for(round, &round->campaign->answers, 50 + (int)(harness_random(&position) % 100), CUT_MS);
}

/* The replica gets nothing of what the master writes from now on; with --replicas 1 nothing is acknowledged
 * any more. Sentinels promote no replica whose link has been down for seven seconds. */
static void cut_off(struct round *round) {
    CHECK_STR(redis_command(round->master, "ACL", "SETUSER", "default", "-psync", "-sync", NULL), "OK");
    CHECK(redis_integer(round->master, "CLIENT", "KILL", "TYPE", "replica", NULL) >= 1);
    waited_for(round, kind->replicas ? &round->campaign->attempts : &round->campaign->answers,
               50 + (int)(harness_random(&position) % 100), CUT_MS);
}

static void kill_master(struct round *round) {
    redis_kill(round->master);
    if (kind->store == SHOP_CLUSTER && kind->copies > 1 && kind->fault == CUT_AND_KILLED)
        CHECK_STR(redis_command(replica_of(round), "CLUSTER", "FAILOVER", "TAKEOVER", NULL), "OK");
    CHECK(harness_wait(has_other_master, round, PATIENCE_MS));
    redis_restart(round->master); /* as a replica from now on */
}

/* A cluster's servers give a failover up if they are too slow. */
static void switch_master(struct round *round) {
    bool done = false;
    if (kind->store == SHOP_SENTINEL)
        CHECK_STR(redis_command(&round->store.sentinel.sentinel[0], "SENTINEL", "FAILOVER", "shop", NULL),
                  "OK");
    for (int try = 0; try < PATIENCE_MS / TRY_MS && !done; try++) {
        if (kind->store == SHOP_CLUSTER)
            redis_command(replica_of(round), "CLUSTER", "FAILOVER", NULL);
        done = harness_wait(has_other_master, round, TRY_MS);
    }
    CHECK(done);
}

/* ---- slots ---- */

static struct redis_server *next_to(struct round *round, const struct redis_server *master) {
    struct redis_server *servers = round->store.cluster.server;
    return &servers[(master - servers + 1) % MASTERS];
}

static void move_slot(struct round *round, const char *key) {
    struct redis_server *from = master_of(round, key);
    CHECK(from);
    redis_cluster_move(&round->store.cluster, key, from, next_to(round, from), &position);
}

/* All that the shop uses go from master to master, and back where they came from. */
static void move_slots(struct round *round) {
    for (int times = 0; times < MASTERS; times++) {
        for (int i = 0; i < CAMPAIGN_ITEMS; i++)
            move_slot(round, harness_format("{%s}", item_name(i)));
        for (int i = 0; i < PARTS; i++) {
            move_slot(round, harness_format("{baskets:%d}", i));
            move_slot(round, harness_format("{due:%d}", i));
        }
    }
}

struct view {
    const struct redis_server *of, *other;
};

/* For the one that must know. */
static bool is_master(void *arg) {
    const struct view *view = arg;
    const char *line = strstr(redis_command(view->of, "CLUSTER", "NODES", NULL),
                              harness_format("127.0.0.1:%d@", view->other->port));
    const char *role = line ? strstr(line, " master ") : NULL;
    return role && role < line + strcspn(line, "\n");
}

/* The other half of the slot's keys is where it was; the item cannot be reached until the operator goes on.
 */
static void kill_target(struct round *round) {
    struct redis_cluster *cluster = &round->store.cluster;
    const char *key = round->key;
    struct redis_server *from = round->master, *to = next_to(round, from);
    redis_cluster_begin_move(key, from, to);
    redis_cluster_move_keys(key, from, to, 1 + (int)(harness_random(&position) % 3));
    redis_wait_copied(to, to + MASTERS);
    redis_kill(to);
    wait_for(round, &round->campaign->attempts, 100);
    struct view view = {from, to + MASTERS};
    CHECK(harness_wait(is_master, &view, PATIENCE_MS));
    redis_restart(to);
    redis_cluster_move(cluster, key, from, to + MASTERS, &position);
}

static void strike(struct round *round) {
    struct seckilld *service = &round->services[harness_random(&position) % CAMPAIGN_SERVICES];
    round->master = master_of(round, round->key);
    switch (kind->fault) {
    case KILLED: kill_master(round); break;
    case CUT_AND_KILLED:
        (kind->copies > 1 ? cut_one_off : cut_off)(round);
        kill_master(round);
        break;
    case STOPPED:
        proc_kill(&round->master->proc, SIGSTOP);
        CHECK(harness_wait(has_other_master, round, PATIENCE_MS));
        proc_kill(&round->master->proc, SIGCONT);
        break;
    case SWITCHED: switch_master(round); break;
    case MOVED: move_slots(round); break;
    case MOVED_AND_KILLED: kill_target(round); break;
    case INSTANCE_KILLED:
        seckilld_kill(service);
        if (!kind->replicas)
            redis_wait_copied(round->master, replica_of(round));
        kill_master(round);
        seckilld_restart(service);
        break;
    case INSTANCE_RESTARTED:
        CHECK_INT(seckilld_stop(service), 0);
        kill_master(round);
        seckilld_restart(service);
        break;
    case INSTANCE_STOPPED:
        cut_off(round);
        proc_kill(&service->proc, SIGSTOP);
        kill_master(round);
        harness_pause_ms(STOPPED_MS);
        proc_kill(&service->proc, SIGCONT);
        break;
    case FAULTS: break;
    }
}

static void judge(struct round *round) {
    struct campaign_result result;
    for (int i = 0; i < CAMPAIGN_SERVICES; i++)
        seckilld_wait_ready(&round->services[i], 200);
    campaign_judge(round->campaign, find_master, round, &result);
    kind->acknowledged += result.acknowledged;
    kind->lost += result.lost;
    kind->told += result.told;
    for (int i = 0; i < CAMPAIGN_SERVICES; i++) {
        kind->put_back += shop_metric(round->services[i].port, "seckill_put_back_total");
        kind->unkept += shop_metric(round->services[i].port, "seckill_unkept_total");
    }
    if (result.told)
        printf("     told: %d, the last of them %s\n", result.told, result.last_told);
    if (result.first[0])
        FAIL("%d of %d that were acknowledged are lost, %d told; %s", result.lost, result.acknowledged,
             result.told, result.first);
    if (kind->replicas) {
        CHECK_INT(result.lost, 0);
        CHECK(kind->put_back == 0 || kind->copies > 1); /* it was never lost */
    }
    kind->passed++;
}

static void play(void) {
    struct round round;
    kind->rounds++;
    open_round(&round);
    round.campaign = campaign_start(round.services, harness_random(&position),
                                    kind->fault == INSTANCE_STOPPED && !kind->replicas);
    wait_for(&round, &round.campaign->answers, BEFORE + (int)(harness_random(&position) % BEFORE));
    strike(&round);
    go_on(&round);
    campaign_stop(round.campaign);
    judge(&round);
}

static const char *copies_of(const struct kind *of) {
    return of->copies > 1 ? "two replicas, " : "";
}

/* With --replicas nothing may depend on what the replica gets later. */
static const char *fault_of(const struct kind *of) {
    return of->fault == INSTANCE_KILLED && of->replicas ? "an instance and the master are killed"
                                                        : fault_names[of->fault];
}

static const char *name_of(const struct kind *of) {
    return harness_format("%s, %s%s, --replicas %d", shop_kinds[of->store], copies_of(of), fault_of(of),
                          of->replicas);
}

static void report(void) {
    for (int i = 0; i < kind_count; i++) {
        struct kind *of = &kinds[i];
        if (!of->rounds)
            continue;
        /* Wrong books, or a round that does not end, are something that is lost and not told, too. */
        if (of->lost - of->told < of->rounds - of->passed)
            of->lost = of->told + of->rounds - of->passed;
        harness_evidence(
            of->replicas ? "with --replicas 1 nothing is lost" : "what is lost is put back, or told by name",
            harness_format("%s: %s%s, while all is asked for at random", shop_kinds[of->store], copies_of(of),
                           fault_of(of)),
            of->rounds, redis_name(), "\"acknowledged\":%d,\"lost\":%d,\"put_back\":%.0f,\"told\":%d",
            of->acknowledged, of->lost, of->put_back, of->told);
        printf("     %d times %s: %d acknowledged, %.0f put back, %d lost, %d told, %d untold, %.0f "
               "times more than could be kept\n",
               of->rounds, name_of(of), of->acknowledged, of->put_back, of->lost, of->told,
               of->lost - of->told, of->unkept);
    }
}

/* All faults below Sentinels and in a cluster, without --replicas and with 1; and with 1 of two replicas,
 * where that makes a difference. Only a cluster has slots. */
static bool is_played(const struct kind *of) {
    bool slots = of->fault == MOVED || of->fault == MOVED_AND_KILLED;
    return (of->store == SHOP_CLUSTER || !slots) &&
           (of->copies == 1 || of->fault == KILLED || of->fault == CUT_AND_KILLED || of->fault == SWITCHED);
}

static void list_kinds(void) {
    for (int i = 0; i < 2 * 3 * FAULTS; i++) {
        int way = i / 2 % 3;
        struct kind each = {.store = i % 2 ? SHOP_CLUSTER : SHOP_SENTINEL,
                            .copies = way == 2 ? 2 : 1,
                            .replicas = way > 0,
                            .fault = (enum fault)(i / 6)};
        if (is_played(&each))
            kinds[kind_count++] = each;
    }
}

int main(int argc, char **argv) {
    const char *wanted = getenv("SECKILL_TORTURE_ROUNDS");
    int rounds = wanted && *wanted ? (int)strtol(wanted, NULL, 10) : 0;
    harness_begin(argc, argv);
    position = harness_seed();
    harness_limit(240 + 2000 * (unsigned)rounds);
    list_kinds();
    for (int i = 0; i < kind_count; i++) {
        kind = &kinds[i];
        bool briefly = kind->fault == CUT_AND_KILLED && !kind->replicas; /* also in a run of all tests */
        int most = rounds ? rounds : briefly;
        for (int round = 1; round <= most && kind->passed == kind->rounds; round++)
            harness_run(harness_format("%s, round %d", name_of(kind), round), play);
    }
    if (*harness_dir())
        report();
    return harness_finish();
}
