/* A hundred baskets at once over the same ten items, their lines in random order, through two services, under
 * each lock: all end, each is there whole or not at all, and the books balance. */
#include <string.h>

#include "service/test/crowd.h"
#include "service/test/shop.h"

enum { THREADS = 100, BASKETS = 200, PATIENCE_MS = 5000 };

static struct redis_server redis;
static struct seckilld services[2];

static const struct way {
    const char *name, *scheme, *options, *basket;
    int services;
} ways[] = {{"local", "local", "", "locked", 1},
            {"redis", "redis", "", "locked", 2},
            {"redis, watchdog", "redis", "?variant=watchdog", "locked", 2},
            {"redlock", "redlock", "", "locked", 2},
            {"etcd", "etcd", "", "locked", 2},
            {"etcd, fixed-key", "etcd", "?variant=fixed-key", "locked", 2},
            {"zookeeper", "zookeeper", "", "locked", 2},
            {"one script, and no lock", "local", "", "script", 2}};
static const struct way *way;

static void crowd_of_baskets(void) {
    struct goods goods = {.seed = harness_seed(),
                          .items = 10,
                          .lines_least = 2,
                          .lines_most = 6,
                          .quantity_most = 3,
                          .stock = 60};
    redis_start(&redis, "--appendfsync", "no", NULL);
    const char *lock = harness_format("%s%s", shop_lock_start(way->scheme), way->options);
    services[1].port = 0;
    for (int i = 0; i < way->services; i++) {
        seckilld_start_ready(&services[i], redis.port, "--lock", lock, "--lock-ttl", "60000", "--basket",
                             way->basket, NULL);
    }
    goods_put(&goods, services[0].port);
    struct crowd_plan plan = {.ports = {services[0].port, services[1].port},
                              .prefix = "k",
                              .path = "/v1/baskets",
                              .write_body = goods_write_basket,
                              .ctx = &goods,
                              .threads = THREADS,
                              .purchases = BASKETS,
                              .retries = true};
    struct crowd *crowd = crowd_run(&plan);
    CHECK(crowd_count(crowd, 201) > 20 && crowd_count(crowd, 409) > 20);
    crowd_check_answers(crowd, "sold-out");
    goods_note_baskets(&goods, crowd);
    goods_check_books(&goods, services[0].port);
    crowd_check_orders(crowd, services[0].port);
    for (int i = 0; i < way->services; i++)
        CHECK_INT(seckilld_stop(&services[i]), 0);
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

/* On a slow store, a crowd that wants `item`, and one basket that waits for a lock which somebody else has.
 */
static struct crowd *begin_beside(const char *item, struct web_conn *waiting) {
    static struct redis_server locks;
    redis_start(&redis, "--appendfsync", "no", NULL);
    redis_start(&locks, "--appendfsync", "no", NULL);
    struct proxy *proxy = proxy_start(redis.port);
    seckilld_start_ready(&services[0], proxy_port(proxy), "--workers", "1", "--lock",
                         harness_format("redis://127.0.0.1:%d", locks.port), "--lock-ttl", "20000", NULL);
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
    web_send_text(waiting, shop_basket_raw("u", "a:1", "a"));
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
    web_send_text(&other, shop_basket_raw("u", "b:1", "b"));
    CHECK(harness_wait(waits_in_the_queue, NULL, PATIENCE_MS));
    harness_pause_ms(300);
    CHECK(waits_in_the_queue(NULL));
    crowd_stop(crowd);
    end_beside(&waiting, &other);
}

static void beside_those_who_ask_for_nothing(void) {
    struct web_conn waiting, other;
    struct crowd *crowd = begin_beside("nothing", &waiting);
    CHECK(web_open(&other, services[0].port));
    web_send_text(&other, shop_basket_raw("u", "b:1", "b"));
    end_beside(&waiting, &other);
    crowd_stop(crowd);
}

int main(int argc, char **argv) {
    harness_begin(argc, argv);
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        way = &ways[i];
        harness_run(way->name, crowd_of_baskets);
    }
    harness_run("after purchases that are made", beside_those_who_buy);
    harness_run("not after purchases of what is not there", beside_those_who_ask_for_nothing);
    return harness_finish();
}
