/* Failovers of the store while everything that the shop offers is asked for at random at two instances: what
 * was acknowledged is in the books, or it is told by name that it is not; and with --replicas 1 nothing is
 * ever lost. SECKILL_TORTURE_ROUNDS: how many rounds of each kind; without it a few kinds are played once. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "service/test/campaign.h"
#include "service/test/shop.h"

enum { BEFORE = 300, AFTER = 600, PATIENCE_MS = 90000, STOPPED_MS = 70000, MASTERS = 3 };

enum fault {
    KILLED,
    CUT_AND_KILLED,
    STOPPED,
    SWITCHED,
    INSTANCE_KILLED,
    INSTANCE_RESTARTED,
    INSTANCE_STOPPED
};

static const char *const fault_names[] = {[KILLED] = "the master is killed",
                                          [CUT_AND_KILLED] = "the master is cut off and killed",
                                          [STOPPED] = "the master stands still",
                                          [SWITCHED] = "the master is replaced in order",
                                          [INSTANCE_KILLED] = "an instance is killed",
                                          [INSTANCE_RESTARTED] = "an instance is restarted",
                                          [INSTANCE_STOPPED] = "an instance stands still across a failover"};

/* A kind of round. */
struct kind {
    enum shop_kind store;
    const char *replicas;
    enum fault fault;
    bool briefly; /* also in a run of all tests */
    /* Of all rounds: */
    int rounds, acknowledged, lost, told;
    double put_back, unkept;
};

static struct kind kinds[] = {
    {.store = SHOP_SENTINEL, .replicas = "0", .fault = CUT_AND_KILLED, .briefly = true},
    {.store = SHOP_CLUSTER, .replicas = "0", .fault = CUT_AND_KILLED, .briefly = true},
    {.store = SHOP_SENTINEL, .replicas = "0", .fault = KILLED},
    {.store = SHOP_SENTINEL, .replicas = "0", .fault = STOPPED},
    {.store = SHOP_SENTINEL, .replicas = "0", .fault = SWITCHED},
    {.store = SHOP_SENTINEL, .replicas = "0", .fault = INSTANCE_KILLED},
    {.store = SHOP_SENTINEL, .replicas = "0", .fault = INSTANCE_RESTARTED},
    {.store = SHOP_SENTINEL, .replicas = "0", .fault = INSTANCE_STOPPED},
    {.store = SHOP_CLUSTER, .replicas = "0", .fault = KILLED},
    {.store = SHOP_CLUSTER, .replicas = "0", .fault = SWITCHED},
    {.store = SHOP_CLUSTER, .replicas = "0", .fault = INSTANCE_KILLED},
    {.store = SHOP_CLUSTER, .replicas = "0", .fault = INSTANCE_RESTARTED},
    {.store = SHOP_SENTINEL, .replicas = "1", .fault = KILLED},
    {.store = SHOP_SENTINEL, .replicas = "1", .fault = SWITCHED},
    {.store = SHOP_CLUSTER, .replicas = "1", .fault = KILLED},
    {.store = SHOP_CLUSTER, .replicas = "1", .fault = SWITCHED}};
static struct kind *kind; /* of this round */
static uint64_t position; /* in the random numbers */

struct round {
    struct shop_store store;
    struct redis_server locks;
    struct seckilld services[CAMPAIGN_SERVICES];
    struct redis_server *master; /* that the fault is about */
    struct campaign *campaign;
    int answers;
};

static void open_round(struct round *round) {
    if (kind->store == SHOP_CLUSTER)
        redis_cluster_start(&round->store.cluster, MASTERS, 1);
    else
        redis_sentinel_start(&round->store.sentinel);
    round->store.kind = kind->store;
    redis_start(&round->locks, NULL);
    for (int i = 0; i < CAMPAIGN_SERVICES; i++)
        seckilld_start(&round->services[i], 0, "--redis", shop_store_url(&round->store), "--store-timeout",
                       "1000", "--replicas", kind->replicas, "--lock",
                       harness_format("redis://127.0.0.1:%d", round->locks.port), "--lock-ttl", "2000", NULL);
    for (int i = 0; i < CAMPAIGN_SERVICES; i++)
        seckilld_wait_ready(&round->services[i], 200);
}

/* Who is master now, of the first item in a cluster. A server that stands still is not asked. */
static struct redis_server *find_master(struct round *round) {
    struct redis_sentinel *sentinel = &round->store.sentinel;
    if (kind->store == SHOP_CLUSTER)
        return redis_cluster_of(&round->store.cluster, "{lamp}");
    const char *named =
        redis_command(&sentinel->sentinel[0], "SENTINEL", "GET-MASTER-ADDR-BY-NAME", "shop", NULL);
    for (int i = 0; i < sentinel->count; i++) {
        if (strstr(named, harness_format(" %d]", sentinel->server[i].port)))
            return &sentinel->server[i];
    }
    return NULL;
}

static struct redis_server *replica_of(struct round *round) {
    if (kind->store == SHOP_SENTINEL)
        return &round->store.sentinel.server[round->master == &round->store.sentinel.server[0]];
    return round->master + MASTERS;
}

static bool has_other_master(void *arg) {
    struct round *round = arg;
    struct redis_server *master = find_master(round);
    return master && master != round->master;
}

static bool has_gone_on(void *arg) {
    struct round *round = arg;
    return campaign_answers(round->campaign) >= round->answers || campaign_has_ended(round->campaign);
}

static void wait_for_answers(struct round *round, int more) {
    round->answers = campaign_answers(round->campaign) + more;
    CHECK(harness_wait(has_gone_on, round, PATIENCE_MS));
}

/* The replica gets nothing of what the master writes from now on. */
static void cut_off(struct round *round) {
    CHECK_STR(redis_command(round->master, "ACL", "SETUSER", "default", "-psync", "-sync", NULL), "OK");
    CHECK(redis_integer(round->master, "CLIENT", "KILL", "TYPE", "replica", NULL) >= 1);
    wait_for_answers(round, 50 + (int)(harness_random(&position) % 100));
}

static void kill_master(struct round *round) {
    redis_kill(round->master);
    CHECK(harness_wait(has_other_master, round, PATIENCE_MS));
    redis_restart(round->master); /* as a replica from now on */
}

static void switch_master(struct round *round) {
    if (kind->store == SHOP_SENTINEL)
        CHECK_STR(redis_command(&round->store.sentinel.sentinel[0], "SENTINEL", "FAILOVER", "shop", NULL),
                  "OK");
    else
        CHECK_STR(redis_command(replica_of(round), "CLUSTER", "FAILOVER", NULL), "OK");
    CHECK(harness_wait(has_other_master, round, PATIENCE_MS));
}

static void strike(struct round *round) {
    struct seckilld *service = &round->services[harness_random(&position) % CAMPAIGN_SERVICES];
    round->master = find_master(round);
    switch (kind->fault) {
    case KILLED: kill_master(round); break;
    case CUT_AND_KILLED:
        cut_off(round);
        kill_master(round);
        break;
    case STOPPED:
        proc_kill(&round->master->proc, SIGSTOP);
        CHECK(harness_wait(has_other_master, round, PATIENCE_MS));
        proc_kill(&round->master->proc, SIGCONT);
        break;
    case SWITCHED: switch_master(round); break;
    case INSTANCE_KILLED:
        seckilld_kill(service);
        seckilld_restart(service);
        break;
    case INSTANCE_RESTARTED:
        CHECK_INT(seckilld_stop(service), 0);
        seckilld_restart(service);
        break;
    case INSTANCE_STOPPED:
        cut_off(round);
        proc_kill(&service->proc, SIGSTOP);
        kill_master(round);
        harness_pause_ms(STOPPED_MS);
        proc_kill(&service->proc, SIGCONT);
        break;
    }
}

static void judge(struct round *round) {
    struct campaign_result result;
    for (int i = 0; i < CAMPAIGN_SERVICES; i++)
        seckilld_wait_ready(&round->services[i], 200);
    campaign_judge(round->campaign, &result);
    kind->rounds++;
    kind->acknowledged += result.acknowledged;
    kind->lost += result.lost;
    kind->told += result.told;
    for (int i = 0; i < CAMPAIGN_SERVICES; i++) {
        kind->put_back += shop_metric(round->services[i].port, "seckill_put_back_total");
        kind->unkept += shop_metric(round->services[i].port, "seckill_unkept_total");
    }
    if (result.first[0])
        FAIL("%d of %d that were acknowledged are lost, %d told; %s", result.lost, result.acknowledged,
             result.told, result.first);
    if (strcmp(kind->replicas, "0") != 0)
        CHECK_INT(result.lost, 0);
}

static void play(void) {
    struct round round;
    open_round(&round);
    round.campaign = campaign_start(round.services, harness_random(&position));
    wait_for_answers(&round, BEFORE + (int)(harness_random(&position) % BEFORE));
    strike(&round);
    wait_for_answers(&round, AFTER);
    campaign_stop(round.campaign);
    judge(&round);
}

static void report(void) {
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        const struct kind *of = &kinds[i];
        if (of->rounds)
            printf("     %d times %s, %s, --replicas %s: %d acknowledged, %.0f put back, %d lost, %d told, "
                   "%d untold\n",
                   of->rounds, shop_kinds[of->store], fault_names[of->fault], of->replicas, of->acknowledged,
                   of->put_back, of->lost, of->told, of->lost - of->told);
    }
}

int main(int argc, char **argv) {
    const char *wanted = getenv("SECKILL_TORTURE_ROUNDS");
    int rounds = wanted && *wanted ? (int)strtol(wanted, NULL, 10) : 0;
    harness_begin(argc, argv);
    position = harness_seed();
    harness_limit(240 + 2000 * (unsigned)rounds);
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        kind = &kinds[i];
        int most = rounds ? rounds : kind->briefly;
        for (int round = 1; round <= most && !harness_failed(); round++)
            harness_run(harness_format("%s, %s, --replicas %s, round %d", shop_kinds[kind->store],
                                       fault_names[kind->fault], kind->replicas, round),
                        play);
    }
    if (*harness_dir())
        report();
    return harness_finish();
}
