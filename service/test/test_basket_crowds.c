/* A hundred baskets at once over the same ten items, their lines in random order, through two services, under
 * each lock: all end, each is there whole or not at all, and the books balance. */
#include <stdio.h>
#include <string.h>

#include "service/test/crowd.h"
#include "service/test/shop.h"

enum {
    ITEMS = 10,
    STOCK = 60,
    THREADS = 100,
    BASKETS = 200,
    LINES_LEAST = 2,
    LINES_MOST = 6,
    PATIENCE_MS = 5000
};

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

/* ---- beside purchases ---- */

static bool waits_for_a_lock(void *arg) {
    (void)arg;
    return shop_metric(services[0].port, "seckill_lock_waiting") == 1;
}

static bool waits_in_the_queue(void *arg) {
    (void)arg;
    return shop_metric(services[0].port, "seckill_pool_waiting") == 1;
}

static void begin_basket(struct web_conn *conn, const char *lines) {
    const char *body = shop_basket_body("u", lines);
    web_send_text(conn, harness_format("POST /v1/baskets HTTP/1.1\r\nHost: x\r\nIdempotency-Key: %.1s\r\n"
                                       "Content-Length: %zu\r\n\r\n%s",
                                       lines, strlen(body), body));
}

/* On a slow store, a crowd that wants `item`, and one basket that waits for a lock which somebody else has.
 */
static struct crowd *begin_beside(const char *item, struct web_conn *waiting) {
    static struct redis_server locks;
    redis_start(&redis, "--appendfsync", "no", NULL);
    redis_start(&locks, "--appendfsync", "no", NULL);
    struct proxy *proxy = proxy_start(redis.port);
    seckilld_start(&services[0], proxy_port(proxy), "--workers", "1", "--lock",
                   harness_format("redis://127.0.0.1:%d", locks.port), "--lock-ttl", "20000", NULL);
    seckilld_wait_ready(&services[0], 200);
    shop_put(services[0].port, "a", "\"stock\":1");
    shop_put(services[0].port, "b", "\"stock\":1");
    shop_put(services[0].port, "x", "\"stock\":1000000");
    CHECK_STR(redis_command(&locks, "SET", "lock:{seckill:a}", "somebody", NULL), "OK");
    proxy_set(proxy, PROXY_DELAY, 50, NULL);
    struct crowd_plan plan = {
        .ports = {services[0].port}, .item = item, .prefix = "k", .threads = 64, .purchases = 1000000};
    struct crowd *crowd = crowd_start(&plan);
    crowd_wait(crowd, 200);
    CHECK(web_open(waiting, services[0].port));
    begin_basket(waiting, "a:1");
    CHECK(harness_wait(waits_for_a_lock, NULL, PATIENCE_MS));
    return crowd;
}

/* The other basket is made while the first one waits on. */
static void end_beside(struct web_conn *waiting, struct web_conn *other) {
    struct web_response response;
    CHECK_INT(web_read_response(other, &response), WEB_OK);
    CHECK_INT(response.status, 201);
    CHECK(waits_for_a_lock(NULL));
    web_close(other);
    web_close(waiting);
}

static void beside_those_who_buy(void) {
    struct web_conn waiting, other;
    struct crowd *crowd = begin_beside("x", &waiting);
    CHECK(web_open(&other, services[0].port));
    begin_basket(&other, "b:1");
    CHECK(harness_wait(waits_in_the_queue, NULL, PATIENCE_MS));
    harness_pause_ms(1000);
    CHECK(waits_in_the_queue(NULL));
    crowd_stop(crowd);
    end_beside(&waiting, &other);
}

static void beside_those_who_ask_for_nothing(void) {
    struct web_conn waiting, other;
    struct crowd *crowd = begin_beside("nothing", &waiting);
    CHECK(web_open(&other, services[0].port));
    begin_basket(&other, "b:1");
    end_beside(&waiting, &other);
    crowd_stop(crowd);
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
    harness_run("after purchases that are made", beside_those_who_buy);
    harness_run("not after purchases of what is not there", beside_those_who_ask_for_nothing);
    return harness_finish();
}
