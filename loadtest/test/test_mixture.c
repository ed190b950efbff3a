/* Two services sell single items and baskets, with transfers between the items, while one part after another
 * fails: nothing is oversold, lost, torn or left unfinished. SECKILL_TORTURE_ROUNDS (3): number of sales. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include "loadtest/test/attack.h"
#include "test/harness.h"

enum { SERVICES = 2, ITEMS = 8, EACH = 60, REQUESTS = 900, LOCK_TTL_MS = 500, PATIENCE_MS = 60000 };

static struct redis_server redis;
static struct seckilld services[SERVICES];
static int faults;
static long long acknowledged;

static void strike(uint64_t *random) {
    struct seckilld *service = &services[harness_random(random) % SERVICES];
    switch (harness_random(random) % 5) {
    case 0:
        seckilld_kill(service);
        seckilld_restart(service);
        break;
    case 1: /* longer than the TTL of its locks */
        proc_kill(&service->proc, SIGSTOP);
        harness_pause_ms(2 * LOCK_TTL_MS);
        proc_kill(&service->proc, SIGCONT);
        break;
    case 2:
        redis_kill(&redis);
        redis_restart(&redis);
        break;
    case 3: CHECK(redis_integer(&redis, "CLIENT", "KILL", "TYPE", "normal", NULL) >= 0); break;
    default: CHECK_STR(redis_command(&redis, "SCRIPT", "FLUSH", NULL), "OK"); break;
    }
    faults++;
}

static bool is_settled(void *arg) {
    (void)arg;
    return journal_open(&redis) == 0;
}

/* The program reads the audits first, so the items must exist. */
static bool has_begun(void *arg) {
    const char *key = stock_key(harness_format("r%d-0", *(int *)arg));
    return redis_integer(&redis, "HGET", key, "available", NULL) < EACH;
}

static void put_on_sale(int round) {
    for (int i = 0; i < SERVICES; i++)
        seckilld_wait_ready(&services[i], 200);
    for (int i = 0; i < ITEMS; i++)
        attack_put(&services[0], harness_format("r%d-%d", round, i), harness_format("{\"stock\":%d}", EACH));
}

static void sale(int round, uint64_t *random) {
    struct proc load;
    put_on_sale(round);
    attack_start(&load,
                 harness_format(
                     "%s --token test-token --item r%d --items %d --zipf 0.5 --basket-lines 3 --purchases 50 "
                     "--transfers 10 --duplicates 20 --retries --users 500 --connections 24 "
                     "--timeout 2000 --requests %d",
                     attack_urls(services, SERVICES), round, ITEMS, REQUESTS));
    CHECK(harness_wait(has_begun, &round, PATIENCE_MS));
    while (proc_running(&load)) {
        strike(random);
        harness_pause_ms(100 + (int)(harness_random(random) % 400));
    }
    struct attack_result outcome = attack_finish(&load);
    attack_check_code(&outcome, 0);
    CHECK(harness_wait(is_settled, NULL, PATIENCE_MS));
    acknowledged += attack_number_of(&outcome, "accepted");
    printf("     sale %d: %lld attempts, %lld acknowledged, %lld unknown at first; all resolved\n", round,
           attack_number_of(&outcome, "attempts"), attack_number_of(&outcome, "accepted"),
           attack_number_of(&outcome, "unknown"));
}

static int rounds(void) {
    const char *text = getenv("SECKILL_TORTURE_ROUNDS");
    return text ? (int)strtol(text, NULL, 10) : 3;
}

static void mixture(void) {
    uint64_t random = harness_seed();
    redis_start(&redis, NULL);
    for (int i = 0; i < SERVICES; i++)
        seckilld_start(&services[i], redis.port, "--lock", harness_format("redis://127.0.0.1:%d", redis.port),
                       "--lock-ttl", harness_format("%d", LOCK_TTL_MS), "--store-timeout", "500", NULL);
    for (int round = 1; round <= rounds(); round++)
        sale(round, &random);
    printf("     %d faults\n", faults);
    harness_evidence("nothing is torn, lost or oversold",
                     "one Redis: it or an instance is killed or stopped, while single items, baskets and "
                     "transfers are bought",
                     faults, redis_name(), "\"acknowledged\":%lld,\"lost\":0", acknowledged);
    for (int i = 0; i < SERVICES; i++)
        CHECK_INT(seckilld_stop(&services[i]), 0);
}

int main(int argc, char **argv) {
    harness_begin(argc, argv);
    harness_limit(240 + 60 * (unsigned)rounds());
    harness_run("single items, baskets and transfers, and faults", mixture);
    return harness_finish();
}
