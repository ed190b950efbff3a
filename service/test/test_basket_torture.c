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

enum {
    ITEMS = 5,
    STOCK = 1000000,
    BASKETS = 24,
    TRANSFERS = 8,
    LINES_MOST = 4,
    STEPS = 260,
    PATIENCE_MS = 30000
};

static struct redis_server redis, locks;
static struct etcd_server etcd;
static struct seckilld services[2];
static uint64_t seed;
static int64_t sold[ITEMS], orders[ITEMS], moved[ITEMS];
static int round_number, killed, stopped, accepted, transferred;

/* The seed of what request i of this round asks for: a retry asks for the same. */
static uint64_t random_of(int i, int kind) {
    return seed + (uint64_t)round_number * 1000 + (uint64_t)i * 2 + (uint64_t)kind;
}

static int lines_of(int i, int items[LINES_MOST]) {
    uint64_t random = random_of(i, 0);
    int count = 1 + (int)(harness_random(&random) % LINES_MOST);
    for (int k = 0; k < count; k++)
        items[k] = (int)(harness_random(&random) % ITEMS);
    return count;
}

static void write_basket(void *ctx, int i, char *body, size_t size) {
    (void)ctx;
    int items[LINES_MOST], count = lines_of(i, items);
    int length = snprintf(body, size, "{\"user\":\"u%d\",\"lines\":[", i);
    for (int k = 0; k < count; k++)
        length += snprintf(body + length, size - (size_t)length, "%s{\"item\":\"i%d\",\"quantity\":%d}",
                           k ? "," : "", items[k], k + 1);
    snprintf(body + length, size - (size_t)length, "]}");
}

static void ends_of(int i, int *from, int *to) {
    uint64_t random = random_of(i, 1);
    *from = (int)(harness_random(&random) % ITEMS);
    *to = (*from + 1 + (int)(harness_random(&random) % (ITEMS - 1))) % ITEMS;
}

static void write_transfer(void *ctx, int i, char *body, size_t size) {
    (void)ctx;
    int from, to;
    ends_of(i, &from, &to);
    snprintf(body, size, "{\"from\":\"i%d\",\"to\":\"i%d\",\"quantity\":%d}", from, to, i + 1);
}

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

static void note(const struct crowd *baskets, const struct crowd *transfers) {
    for (int i = 0; i < BASKETS; i++) {
        int items[LINES_MOST], count = lines_of(i, items);
        CHECK_INT(crowd_receipt(baskets, i)->status, 201);
        accepted++;
        for (int k = 0; k < count; k++) {
            sold[items[k]] += k + 1;
            orders[items[k]]++;
        }
    }
    for (int i = 0; i < TRANSFERS; i++) {
        int from, to;
        ends_of(i, &from, &to);
        CHECK_INT(crowd_receipt(transfers, i)->status, 200);
        transferred++;
        moved[from] -= i + 1;
        moved[to] += i + 1;
    }
}

static void check_books(void) {
    for (int i = 0; i < ITEMS; i++) {
        const char *item = harness_format("i%d", i);
        CHECK_INT(shop_audit(services[1].port, item, "sold"), sold[i]);
        CHECK_INT(shop_audit(services[1].port, item, "orders"), orders[i]);
        CHECK_INT(shop_audit(services[1].port, item, "pending"), 0);
        CHECK_INT(shop_audit(services[1].port, item, "stock"), STOCK + moved[i]);
        CHECK_INT(shop_audit(services[1].port, item, "available"), STOCK + moved[i] - sold[i]);
    }
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
    for (int i = 0; i < ITEMS && round_number == 0; i++)
        shop_put(services[1].port, harness_format("i%d", i), harness_format("\"stock\":%d", STOCK));
    struct crowd_plan plan = {.ports = {services[0].port, services[1].port},
                              .prefix = harness_format("r%d", round_number),
                              .path = "/v1/baskets",
                              .write_body = write_basket,
                              .threads = 8,
                              .purchases = BASKETS,
                              .retries = true};
    struct crowd *baskets = crowd_start(&plan);
    plan.path = "/v1/transfers";
    plan.write_body = write_transfer;
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
    note(baskets, transfers);
    check_books();
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
            printf("     round %d: killed %d, stopped %d, %d baskets and %d transfers\n", round_number + 1,
                   killed, stopped, accepted, transferred);
            fflush(stdout);
        }
    }
    printf("     %d rounds: killed %d times, stopped %d times; %d baskets and %d transfers, all whole\n",
           count, killed, stopped, accepted, transferred);
    harness_evidence("no basket or transfer is torn",
                     "one Redis: an instance is killed or stopped at a random step of a basket or transfer",
                     count, redis_name(), "\"acknowledged\":%d,\"lost\":0", accepted + transferred);
}

int main(int argc, char **argv) {
    harness_begin(argc, argv);
    harness_limit(240 + 20 * (unsigned)rounds());
    harness_run("random steps, two services", torture);
    return harness_finish();
}
