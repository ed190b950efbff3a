/* A hundred baskets at once over the same ten items, their lines in random order, through two services, under
 * each lock: all end, each is there whole or not at all, and the books balance. */
#include <stdio.h>
#include <string.h>

#include "service/test/crowd.h"
#include "service/test/shop.h"

enum { ITEMS = 10, STOCK = 60, THREADS = 100, BASKETS = 200, LINES_LEAST = 2, LINES_MOST = 6 };

static struct redis_server redis, nodes[3];
static struct etcd_server etcd;
static struct zookeeper_server zookeeper;
static struct seckilld services[2];
static uint64_t seed;

/* One of the locks; `services` share it, or there is only one. */
static void open_services(const char *lock, const char *way, int count) {
    services[1].port = 0;
    for (int i = 0; i < count; i++) {
        seckilld_start(&services[i], redis.port, "--lock", lock, "--lock-ttl", "60000", "--basket", way,
                       NULL);
        seckilld_wait_ready(&services[i], 200);
    }
    for (int i = 0; i < ITEMS; i++)
        shop_put(services[0].port, harness_format("i%d", i), harness_format("\"stock\":%d", STOCK));
}

/* The lines of basket i: always the same, so that a retry asks for the same. */
static int lines_of(int i, int items[LINES_MOST], int quantities[LINES_MOST]) {
    uint64_t random = seed + (uint64_t)i * 1000003;
    int count = LINES_LEAST + (int)(harness_random(&random) % (LINES_MOST - LINES_LEAST + 1));
    for (int k = 0; k < count; k++) {
        items[k] = (int)(harness_random(&random) % ITEMS);
        quantities[k] = 1 + (int)(harness_random(&random) % 3);
    }
    return count;
}

static void write_basket(void *ctx, int i, char *body, size_t size) {
    (void)ctx;
    int items[LINES_MOST], quantities[LINES_MOST], count = lines_of(i, items, quantities);
    int length = snprintf(body, size, "{\"user\":\"u%d\",\"lines\":[", i);
    for (int k = 0; k < count; k++)
        length += snprintf(body + length, size - (size_t)length, "%s{\"item\":\"i%d\",\"quantity\":%d}",
                           k ? "," : "", items[k], quantities[k]);
    snprintf(body + length, size - (size_t)length, "]}");
}

/* What was acknowledged is what is in the books, item by item: no basket is there in parts. */
static void check_books(const struct crowd *crowd) {
    int sold[ITEMS] = {0}, orders[ITEMS] = {0};
    for (int i = 0; i < BASKETS; i++) {
        int items[LINES_MOST], quantities[LINES_MOST], count = lines_of(i, items, quantities);
        const struct receipt *receipt = crowd_receipt(crowd, i);
        if (receipt->status != 201 && strcmp(receipt->type, "sold-out") != 0)
            FAIL("basket %d was answered with %d %s", i, receipt->status, receipt->type);
        for (int k = 0; k < count && receipt->status == 201; k++) {
            sold[items[k]] += quantities[k];
            orders[items[k]]++;
        }
    }
    for (int i = 0; i < ITEMS; i++) {
        const char *item = harness_format("i%d", i);
        CHECK_INT(shop_audit(services[0].port, item, "sold"), sold[i]);
        CHECK_INT(shop_audit(services[0].port, item, "orders"), orders[i]);
        CHECK_INT(shop_audit(services[0].port, item, "available"), STOCK - sold[i]);
    }
}

static void crowd_of_baskets(const char *lock, const char *way, int count) {
    seed = harness_seed();
    open_services(lock, way, count);
    struct crowd_plan plan = {.ports = {services[0].port, services[1].port},
                              .prefix = "k",
                              .path = "/v1/baskets",
                              .write_body = write_basket,
                              .threads = THREADS,
                              .purchases = BASKETS,
                              .retries = true};
    struct crowd *crowd = crowd_run(&plan);
    CHECK(crowd_count(crowd, 201) > 20 && crowd_count(crowd, 409) > 20);
    check_books(crowd);
    crowd_check_orders(crowd, services[0].port);
    for (int i = 0; i < count; i++)
        CHECK_INT(seckilld_stop(&services[i]), 0);
}

static void local(void) {
    redis_start(&redis, "--appendfsync", "no", NULL);
    crowd_of_baskets("local:", "locked", 1);
}

static void in_redis(void) {
    redis_start(&redis, "--appendfsync", "no", NULL);
    crowd_of_baskets(harness_format("redis://127.0.0.1:%d", redis.port), "locked", 2);
}

static void watchdog(void) {
    redis_start(&redis, "--appendfsync", "no", NULL);
    crowd_of_baskets(harness_format("redis://127.0.0.1:%d?variant=watchdog", redis.port), "locked", 2);
}

static void redlock(void) {
    redis_start(&redis, "--appendfsync", "no", NULL);
    for (int i = 0; i < 3; i++)
        redis_start(&nodes[i], "--appendfsync", "no", NULL);
    crowd_of_baskets(harness_format("redlock://127.0.0.1:%d,127.0.0.1:%d,127.0.0.1:%d", nodes[0].port,
                                    nodes[1].port, nodes[2].port),
                     "locked", 2);
}

static void in_etcd(void) {
    redis_start(&redis, "--appendfsync", "no", NULL);
    etcd_start(&etcd, NULL);
    crowd_of_baskets(harness_format("etcd://127.0.0.1:%d", etcd.port), "locked", 2);
}

static void fixed_key(void) {
    redis_start(&redis, "--appendfsync", "no", NULL);
    etcd_start(&etcd, NULL);
    crowd_of_baskets(harness_format("etcd://127.0.0.1:%d?variant=fixed-key", etcd.port), "locked", 2);
}

static void in_zookeeper(void) {
    redis_start(&redis, "--appendfsync", "no", NULL);
    zookeeper_start(&zookeeper);
    crowd_of_baskets(harness_format("zookeeper://127.0.0.1:%d", zookeeper.port), "locked", 2);
}

static void script(void) {
    redis_start(&redis, "--appendfsync", "no", NULL);
    crowd_of_baskets("local:", "script", 2);
}

int main(int argc, char **argv) {
    harness_begin(argc, argv);
    harness_run("local", local);
    harness_run("redis", in_redis);
    harness_run("redis, watchdog", watchdog);
    harness_run("redlock", redlock);
    harness_run("etcd", in_etcd);
    harness_run("etcd, fixed-key", fixed_key);
    harness_run("zookeeper", in_zookeeper);
    harness_run("one script, and no lock", script);
    return harness_finish();
}
