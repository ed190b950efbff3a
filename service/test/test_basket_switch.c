/* The lock of baskets and transfers, switched fifty times from etcd to Redis and back while two services sell
 * them. */
#include <stdio.h>
#include <string.h>

#include "service/test/crowd.h"
#include "service/test/shop.h"
#include "service/test/witness.h"

enum { SWITCHES = 50, ITEMS = 6, STOCK = 1000000, THREADS = 12, ENDLESS = 100000 };

static struct redis_server redis, locks;
static struct etcd_server etcd;
static struct seckilld services[2];
static uint64_t seed;

/* What request i asks for, as one number; a retry asks for the same. */
static uint64_t draw(int i) {
    uint64_t random = seed + (uint64_t)i;
    return harness_random(&random);
}

static void write_basket(void *ctx, int i, char *body, size_t size) {
    (void)ctx;
    uint64_t drawn = draw(i);
    snprintf(
        body, size,
        "{\"user\":\"u%d\",\"lines\":[{\"item\":\"i%d\",\"quantity\":1},{\"item\":\"i%d\",\"quantity\":2}]}",
        i, (int)(drawn % ITEMS), (int)(drawn / ITEMS % ITEMS));
}

static void write_transfer(void *ctx, int i, char *body, size_t size) {
    (void)ctx;
    uint64_t drawn = draw(i);
    snprintf(body, size, "{\"from\":\"i%d\",\"to\":\"i%d\",\"quantity\":3}", (int)(drawn % ITEMS),
             (int)((drawn % ITEMS + 1 + drawn / ITEMS % (ITEMS - 1)) % ITEMS));
}

static void check_books(const struct crowd *baskets, const struct crowd *transfers) {
    int64_t sold[ITEMS] = {0}, moved[ITEMS] = {0};
    for (int i = 0; crowd_receipt(baskets, i)->tries > 0; i++) {
        CHECK_INT(crowd_receipt(baskets, i)->status, 201);
        sold[draw(i) % ITEMS] += 1;
        sold[draw(i) / ITEMS % ITEMS] += 2;
    }
    for (int i = 0; crowd_receipt(transfers, i)->tries > 0; i++) {
        CHECK_INT(crowd_receipt(transfers, i)->status, 200);
        moved[draw(i) % ITEMS] -= 3;
        moved[(draw(i) % ITEMS + 1 + draw(i) / ITEMS % (ITEMS - 1)) % ITEMS] += 3;
    }
    for (int i = 0; i < ITEMS; i++) {
        const char *item = harness_format("i%d", i);
        CHECK_INT(shop_audit(services[0].port, item, "sold"), sold[i]);
        CHECK_INT(shop_audit(services[0].port, item, "pending"), 0);
        CHECK_INT(shop_audit(services[0].port, item, "available"), STOCK + moved[i] - sold[i]);
    }
}

static void switched(void) {
    struct web_response response;
    seed = harness_seed();
    redis_start(&redis, "--appendfsync", "no", NULL);
    redis_start(&locks, "--appendfsync", "no", NULL);
    etcd_start(&etcd, NULL);
    const char *urls[] = {harness_format("etcd://127.0.0.1:%d", etcd.port),
                          harness_format("redis://127.0.0.1:%d", locks.port)};
    for (int i = 0; i < 2; i++) {
        seckilld_start(&services[i], redis.port, "--lock", urls[0], NULL);
        seckilld_wait_ready(&services[i], 200);
    }
    for (int i = 0; i < ITEMS; i++)
        shop_put(services[0].port, harness_format("i%d", i), harness_format("\"stock\":%d", STOCK));
    struct witness *witness = witness_call(&redis);
    struct crowd_plan plan = {.ports = {services[0].port, services[1].port},
                              .prefix = "k",
                              .path = "/v1/baskets",
                              .write_body = write_basket,
                              .threads = THREADS,
                              .purchases = ENDLESS,
                              .retries = true};
    struct crowd *baskets = crowd_start(&plan);
    plan.path = "/v1/transfers";
    plan.write_body = write_transfer;
    plan.threads = 4;
    struct crowd *transfers = crowd_start(&plan);
    for (int i = 0; i < SWITCHES; i++) {
        crowd_wait(baskets, crowd_answered(baskets) + 5);
        crowd_wait(transfers, crowd_answered(transfers) + 1);
        const char *body = harness_format("{\"lock\":\"%s\"}", urls[(i + 1) % 2]);
        if (shop_admin(services[i % 2].port, "PUT", "/v1/lock", body, &response) != 200)
            FAIL("switch %d: %s", i, response.body);
    }
    crowd_wait(baskets, crowd_answered(baskets) + 5);
    crowd_stop(baskets);
    crowd_stop(transfers);
    crowd_join(baskets);
    crowd_join(transfers);
    CHECK(witness_end(witness, SWITCHES + 1) > 4 * crowd_answered(baskets));
    check_books(baskets, transfers);
    for (int i = 0; i < 2; i++) {
        CHECK_INT(shop_metric(services[i].port, "seckill_baskets_total{outcome=\"stale\"}"), 0);
        CHECK_INT(seckilld_stop(&services[i]), 0);
    }
    printf("     %d baskets and %d transfers\n", crowd_answered(baskets), crowd_answered(transfers));
}

int main(int argc, char **argv) {
    harness_begin(argc, argv);
    harness_run("the lock is switched fifty times under load", switched);
    return harness_finish();
}
