/* Sales in which the store's master is killed and its replica promoted, judged by seckill-load: what was
 * acknowledged is in the books, or its shortage is told. SECKILL_TORTURE_ROUNDS (1): how many sales of each
 * kind. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "loadtest/test/attack.h"
#include "test/harness.h"

enum { SERVICES = 2, STOCK_MAX = 3000, REQUESTS = 4000, PATIENCE_MS = 60000 };

enum store { PAIR, SENTINEL, CLUSTER };

/* How a master dies. */
struct death {
    const char *name;
    enum store store;     /* PAIR: the test promotes the replica; otherwise the servers do, after seconds */
    bool cut;             /* its replica has not got the last orders */
    const char *replicas; /* that an order waits for */
    /* Of all rounds: */
    int rounds;
    long long acknowledged, put_back, shortage, lost, unknown;
};

static struct death deaths[] = {
    {.name = "killed", .replicas = "0"},
    {.name = "cut off and killed", .cut = true, .replicas = "0"},
    {.name = "cut off and killed, with --replicas 1", .cut = true, .replicas = "1"},
    {.name = "killed below Sentinels", .store = SENTINEL, .replicas = "0"},
    {.name = "killed in a cluster, with --replicas 1", .store = CLUSTER, .replicas = "1"},
};
static struct death *death; /* of the current round */
static uint64_t position;   /* in the random numbers */

struct sale {
    struct pair pair;
    struct redis_sentinel sentinel;
    struct redis_cluster cluster;
    struct redis_server *master; /* of the item */
    struct seckilld services[SERVICES];
    struct redis_server next_replica; /* of the promoted one */
    struct proc load;
    long long answered;
};

static long long metric(const struct seckilld *service, const char *name) {
    struct web_response metrics;
    if (web_call(service->port, "GET", "/metrics", NULL, NULL, &metrics) != 200)
        return 0;
    const char *line = strstr(metrics.body, harness_format("\n%s ", name));
    return line ? strtoll(strchr(line, ' '), NULL, 10) : 0;
}

static bool has_sold(void *arg) {
    struct sale *sale = arg;
    const char *sold = redis_command(sale->master, "HGET", stock_key("demo"), "sold", NULL);
    return strtoll(sold, NULL, 10) >= sale->answered || !proc_running(&sale->load);
}

/* Who is master of the item; NULL: nobody is. */
static struct redis_server *find_master(struct sale *sale) {
    switch (death->store) {
    case PAIR: return &sale->pair.master;
    case SENTINEL: return redis_sentinel_master(&sale->sentinel);
    case CLUSTER: break;
    }
    return redis_cluster_of(&sale->cluster, stock_key("demo"));
}

static const char *start_store(struct sale *sale) {
    switch (death->store) {
    case PAIR: pair_start(&sale->pair); return pair_url(&sale->pair);
    case SENTINEL: redis_sentinel_start(&sale->sentinel); return redis_sentinel_url(&sale->sentinel);
    case CLUSTER: break;
    }
    redis_cluster_start(&sale->cluster, 3, 1);
    return redis_cluster_url(&sale->cluster);
}

static void open_sale(struct sale *sale) {
    const char *url = start_store(sale);
    sale->master = find_master(sale);
    for (int i = 0; i < SERVICES; i++)
        seckilld_start(&sale->services[i], 0, "--redis", url, "--store-timeout", "500", "--replicas",
                       death->replicas, NULL);
    for (int i = 0; i < SERVICES; i++)
        seckilld_wait_whole(&sale->services[i]);
    attack_put(&sale->services[0], "demo", harness_format("{\"stock\":%d}", STOCK_MAX));
    if (death->store == PAIR)
        redis_wait_copied(&sale->pair.master, &sale->pair.replica);
}

static bool has_other_master(void *arg) {
    struct sale *sale = arg;
    struct redis_server *master = find_master(sale);
    return master && master != sale->master;
}

/* Somewhere in the sale. With the link cut it goes on for a while; what is acknowledged then is lost. */
static void strike(struct sale *sale) {
    sale->answered = 200 + (long long)(harness_random(&position) % (STOCK_MAX / 2));
    CHECK(harness_wait(has_sold, sale, PATIENCE_MS));
    if (death->store != PAIR) {
        redis_kill(sale->master);
        CHECK(harness_wait(has_other_master, sale, PATIENCE_MS));
        redis_restart(sale->master); /* a replica from now on */
        return;
    }
    if (death->cut) {
        pair_cut(&sale->pair);
        harness_pause_ms((int)(harness_random(&position) % 200));
    }
    pair_fail_over(&sale->pair);
    if (strcmp(death->replicas, "0") != 0)
        redis_start_replica(&sale->next_replica, &sale->pair.replica);
}

static void judge(struct sale *sale, const struct attack_result *outcome) {
    static const char *const never[] = {"duplicated", "oversold", "phantom", "unresolved", "unchecked"};
    long long shortage = 0;
    if (!*outcome->json)
        FAIL("seckill-load wrote no results: %s", outcome->text);
    for (int i = 0; i < SERVICES; i++) {
        death->put_back += metric(&sale->services[i], "seckill_put_back_total");
        shortage += metric(&sale->services[i], "seckill_shortage_total");
    }
    death->rounds++;
    death->acknowledged += attack_number_of(outcome, "accepted");
    death->unknown += attack_number_of(outcome, "unknown");
    death->lost += attack_verdict_of(outcome, "lost");
    death->shortage += shortage;
    for (size_t i = 0; i < sizeof never / sizeof *never; i++) {
        if (attack_verdict_of(outcome, never[i]) != 0)
            FAIL("%s: %s", never[i], outcome->text);
    }
    if (attack_verdict_of(outcome, "lost") > shortage)
        FAIL("%lld orders are lost, and %lld are told: %s", attack_verdict_of(outcome, "lost"), shortage,
             outcome->text);
}

static void play(void) {
    struct sale sale;
    open_sale(&sale);
    attack_start(&sale.load,
                 harness_format("%s --item demo --token test-token --connections 32 --requests %d "
                                "--retries --duplicates 10 --timeout 3000",
                                attack_urls(sale.services, SERVICES), REQUESTS));
    strike(&sale);
    struct attack_result outcome = attack_finish(&sale.load);
    judge(&sale, &outcome);
    if (strcmp(death->replicas, "0") != 0)
        CHECK_INT(death->put_back, 0); /* it was never lost */
}

static void report(void) {
    for (const struct death *of = deaths; of < deaths + sizeof deaths / sizeof *deaths; of++) {
        harness_evidence(strcmp(of->replicas, "0") ? "with --replicas 1 nothing is lost"
                                                   : "what is lost is put back, or told by name",
                         harness_format("the master is %s, while 32 buyers buy", of->name), of->rounds,
                         redis_name(), "\"acknowledged\":%lld,\"lost\":%lld,\"put_back\":%lld,\"told\":%lld",
                         of->acknowledged, of->lost, of->put_back,
                         of->lost < of->shortage ? of->lost : of->shortage);
        printf("     %d times %s: %lld acknowledged, %lld put back, %lld short, %lld lost; %lld unknown at "
               "first, none at the end\n",
               of->rounds, of->name, of->acknowledged, of->put_back, of->shortage, of->lost, of->unknown);
    }
}

int main(int argc, char **argv) {
    const char *wanted = getenv("SECKILL_TORTURE_ROUNDS");
    int rounds = wanted && *wanted ? (int)strtol(wanted, NULL, 10) : 1;
    harness_begin(argc, argv);
    position = harness_seed();
    harness_limit(240 + 60 * (unsigned)rounds);
    for (size_t i = 0; i < sizeof deaths / sizeof *deaths; i++) {
        death = &deaths[i];
        for (int round = 1; round <= rounds && !harness_failed(); round++)
            harness_run(harness_format("%s, round %d", death->name, round), play);
    }
    if (*harness_dir())
        report();
    return harness_finish();
}
