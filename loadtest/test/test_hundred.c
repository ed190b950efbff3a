/* The real service, judged by seckill-load, a hundred times for each strategy that should not oversell, each
 * time with another seed: a hundred units, 64 connections, 2,000 purchases of which a fifth repeat a key.
 * Exactly a hundred units are sold, every repeated key gets its first answer, the books balance. */
#include "loadtest/test/attack.h"

/* A sanitizer checks every access: fewer rounds suffice. */
#if defined __SANITIZE_ADDRESS__ || defined __SANITIZE_THREAD__
enum { ROUNDS = 5 };
#else
enum { ROUNDS = 100 };
#endif

static struct redis_server redis;
static struct seckilld service;

static void sell_out(const char *strategy, int round, uint64_t *random) {
    const char *item = harness_format("%s-%d", strategy, round);
    const char *terms = harness_format("{\"stock\":%d,\"strategy\":\"%s\"}", STOCK, strategy);
    CHECK_INT(
        web_call(service.port, "PUT", harness_format("/v1/items/%s", item), SECKILLD_ADMIN, terms, NULL),
        201);
    struct attack_result outcome =
        attack_run(harness_format("--url http://127.0.0.1:%d --token test-token --item %s --users 100000 "
                                  "--connections 64 --requests 2000 "
                                  "--duplicates 20 --seed %llu",
                                  service.port, item, (unsigned long long)(harness_random(random) >> 1)));
    attack_check_code(&outcome, 0);
    CHECK_HAS(outcome.json, "\"clean\": true");
    CHECK_INT(attack_number_of(&outcome, "attempts"), 2000);
    CHECK_INT(attack_number_of(&outcome, "orders"), STOCK);
    CHECK_INT(attack_number_of(&outcome, "unknown"), 0);
    CHECK_INT(attack_number_of(&outcome, "accepted") - attack_number_of(&outcome, "replayed"), STOCK);
    CHECK(attack_number_of(&outcome, "duplicates") > 320);
    CHECK(attack_number_of(&outcome, "replayed") > 0);
}

static void sell_out_often(const char *strategy) {
    uint64_t random = harness_seed();
    redis_start(&redis, "--appendfsync", "no", NULL);
    seckilld_start(&service, redis.port, NULL);
    seckilld_wait_ready(&service, 200);
    for (int round = 0; round < ROUNDS; round++)
        sell_out(strategy, round, &random);
    CHECK_INT(seckilld_stop(&service), 0);
}

static void batch(void) {
    sell_out_often("batch");
}
static void lua(void) {
    sell_out_often("lua");
}
static void decr(void) {
    sell_out_often("decr");
}
static void optimistic(void) {
    sell_out_often("optimistic");
}

int main(int argc, char **argv) {
    harness_begin(argc, argv);
    harness_run("a hundred sales by batch", batch);
    harness_run("a hundred sales by lua", lua);
    harness_run("a hundred sales by decr", decr);
    harness_run("a hundred sales by optimistic", optimistic);
    return harness_finish();
}
