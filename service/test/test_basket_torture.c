/* Two services, one of which is killed or stopped at a random step of a basket or transfer, each round, while
 * crowds buy and move units through both. Then everything is finished, and the books are as the answers said.
 * SECKILL_TORTURE_ROUNDS: how many (6). */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "service/test/crowd.h"
#include "service/test/shop.h"
#include "test/harness.h"

enum { BASKETS = 24, TRANSFERS = 8, STEPS = 260, PATIENCE_MS = 30000 };

static struct redis_server redis, locks;
static struct etcd_server etcd;
static struct seckilld services[2];
static uint64_t seed;
static struct goods goods = {
    .items = 5, .lines_least = 1, .lines_most = 4, .quantity_most = 8, .stock = 1000000};
static int round_number, killed, stopped;

/* ---- a round ---- */

static const char *lock_of_round(void) {
    return round_number % 4 == 3 ? harness_format("etcd://127.0.0.1:%d", etcd.port)
                                 : harness_format("redis://127.0.0.1:%d", locks.port);
}

static int ttl_of_round_ms(void) {
    return round_number % 4 == 3 ? 1000 : 300;
}

/* The one that was stopped goes on once its locks are over; for the one that was killed another begins. */
static void continue_or_restart(struct seckilld *service, int64_t *stopped_ms) {
    if (!proc_running(&service->proc)) {
        int status;
        CHECK(proc_wait(&service->proc, 0, &status));
        seckilld_start(service, redis.port, "--lock", lock_of_round(), "--lock-ttl",
                       harness_format("%d", ttl_of_round_ms()), NULL);
        killed++;
    } else if (proc_stopped(&service->proc)) {
        if (*stopped_ms == 0)
            *stopped_ms = harness_now_ms();
        if (harness_now_ms() - *stopped_ms > 3 * (int64_t)ttl_of_round_ms()) {
            proc_kill(&service->proc, SIGCONT);
            stopped++;
            *stopped_ms = 0;
        }
    }
}

static bool is_settled(void *arg) {
    (void)arg;
    return journal_open(&redis) == 0;
}

static void one_round(void) {
    uint64_t random = seed + (uint64_t)round_number;
    const char *lock = lock_of_round(), *ttl = harness_format("%d", ttl_of_round_ms());
    const char *stop = harness_format("%s %d", harness_random(&random) % 2 ? "KILL" : "STOP",
                                      (int)(harness_random(&random) % STEPS));
    int64_t stopped_ms = 0;
    seckilld_start_stopping(&services[0], stop, redis.port, "--lock", lock, "--lock-ttl", ttl, NULL);
    seckilld_start(&services[1], redis.port, "--lock", lock, "--lock-ttl", ttl, NULL);
    seckilld_wait_ready(&services[0], 200);
    seckilld_wait_ready(&services[1], 200);
    if (round_number == 0)
        goods_put(&goods, services[1].port);
    goods.seed = seed + (uint64_t)round_number;
    struct crowd_plan plan = {.ports = {services[0].port, services[1].port},
                              .prefix = harness_format("r%d", round_number),
                              .path = "/v1/baskets",
                              .write_body = goods_write_basket,
                              .ctx = &goods,
                              .threads = 8,
                              .purchases = BASKETS,
                              .retries = true};
    struct crowd *baskets = crowd_start(&plan);
    plan.path = "/v1/transfers";
    plan.write_body = goods_write_transfer;
    plan.threads = 2;
    plan.purchases = TRANSFERS;
    struct crowd *transfers = crowd_start(&plan);
    while (crowd_answered(baskets) < BASKETS || crowd_answered(transfers) < TRANSFERS) {
        continue_or_restart(&services[0], &stopped_ms);
        harness_pause_ms(5);
    }
    crowd_join(baskets);
    crowd_join(transfers);
    int64_t until_ms = harness_now_ms() + PATIENCE_MS;
    while (proc_stopped(&services[0].proc) || !is_settled(NULL)) {
        continue_or_restart(&services[0], &stopped_ms);
        if (harness_now_ms() > until_ms)
            FAIL("round %d: not all was finished", round_number);
        harness_pause_ms(5);
    }
    crowd_check_answers(baskets, NULL);
    CHECK_INT(crowd_count(transfers, 200), TRANSFERS);
    goods_note_baskets(&goods, baskets);
    goods_note_transfers(&goods, transfers);
    goods_check_books(&goods, services[1].port);
    for (int i = 0; i < 2; i++)
        CHECK_INT(seckilld_stop(&services[i]), 0);
}

static int rounds(void) {
    const char *text = getenv("SECKILL_TORTURE_ROUNDS");
    return text ? (int)strtol(text, NULL, 10) : 6;
}

static void torture(void) {
    int count = rounds();
    seed = harness_seed();
    redis_start(&redis, NULL);
    redis_start(&locks, "--appendfsync", "no", NULL);
    etcd_start(&etcd, NULL);
    for (round_number = 0; round_number < count; round_number++) {
        one_round();
        if (count > 20 && round_number % 10 == 9) {
            printf("     round %d: killed %d, stopped %d\n", round_number + 1, killed, stopped);
            fflush(stdout);
        }
    }
    printf("     %d rounds: killed %d times, stopped %d times; %d baskets and %d transfers, all whole\n",
           count, killed, stopped, count * BASKETS, count * TRANSFERS);
    harness_evidence("no basket or transfer is torn",
                     "one Redis: an instance is killed or stopped at a random step of a basket or transfer",
                     count, redis_name(), "\"acknowledged\":%d,\"lost\":0", count * (BASKETS + TRANSFERS));
}

int main(int argc, char **argv) {
    harness_begin(argc, argv);
    harness_limit(240 + 20 * (unsigned)rounds());
    harness_run("random steps, two services", torture);
    return harness_finish();
}
