/* A sale in a Redis Cluster whose slots move all the time, judged by seckill-load. SECKILL_TORTURE_SECONDS
 * (4): how long. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "loadtest/test/attack.h"
#include "test/harness.h"

enum { MASTERS = 3, ITEMS = 12, SERVICES = 2, CONNECTIONS = 16 };

static struct redis_cluster cluster;
static int seconds = 4;

/* From the master that has it to the next one. */
static void move_item(int i, uint64_t *position) {
    const char *key = stock_key(harness_format("demo-%d", i));
    struct redis_server *from = redis_cluster_of(&cluster, key);
    CHECK(from);
    struct redis_server *to = &cluster.server[(from - cluster.server + 1) % MASTERS];
    redis_cluster_move(&cluster, key, from, to, position);
}

/* Of the answers that were neither 201 nor 409. */
static long long count_503(const struct attack_result *outcome) {
    json_t *json = json_loads(outcome->json, 0, NULL), *value;
    long long count = 0;
    const char *cause;
    CHECK(json);
    json_object_foreach(json_object_get(json, "unknowns"), cause, value) {
        if (json_integer_value(value) != 0 && strncmp(cause, "503", 3) != 0)
            FAIL("%lld answers were %s: %s", (long long)json_integer_value(value), cause, outcome->text);
        count += json_integer_value(value);
    }
    json_decref(json);
    return count;
}

static void slots_move(void) {
    struct seckilld services[SERVICES];
    struct proc load;
    uint64_t position = harness_seed();
    int moves = 0;
    redis_cluster_start(&cluster, MASTERS, 0);
    for (int i = 0; i < SERVICES; i++) {
        seckilld_start(&services[i], 0, "--redis", redis_cluster_url(&cluster), NULL);
        seckilld_wait_whole(&services[i]);
    }
    for (int i = 0; i < ITEMS; i++)
        attack_put(&services[0], harness_format("demo-%d", i),
                   harness_format("{\"stock\":%d}", 1000 + 1000000 * (i % 2)));
    attack_start(&load, harness_format("%s --item demo --items %d --token test-token --connections %d "
                                       "--duration %ds --retries --duplicates 10",
                                       attack_urls(services, SERVICES), ITEMS, CONNECTIONS, seconds));
    int64_t until_ms = harness_now_ms() + 1000LL * seconds;
    while (harness_now_ms() < until_ms && proc_running(&load)) {
        move_item((int)(harness_random(&position) % ITEMS), &position);
        moves++;
    }
    struct attack_result outcome = attack_finish(&load);
    attack_check_code(&outcome, 0);
    long long refused = count_503(&outcome);
    printf("     %d moves in %d s, %lld acknowledged, %lld times 503\n", moves, seconds,
           attack_number_of(&outcome, "accepted"), refused);
    harness_evidence("no order is lost while slots move",
                     "a cluster: slots move all the time, while 16 buyers buy", moves, redis_name(),
                     "\"acknowledged\":%lld,\"lost\":%lld", attack_number_of(&outcome, "accepted"),
                     attack_verdict_of(&outcome, "lost"));
    if (refused > (long long)moves * CONNECTIONS)
        FAIL("%lld times 503 with %d moves: %s", refused, moves, outcome.text);
}

int main(int argc, char **argv) {
    const char *wanted = getenv("SECKILL_TORTURE_SECONDS");
    harness_begin(argc, argv);
    if (wanted && *wanted)
        seconds = (int)strtol(wanted, NULL, 10);
    harness_limit(120 + 3 * (unsigned)seconds);
    harness_run("slots move", slots_move);
    return harness_finish();
}
