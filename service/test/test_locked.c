/* Strategy `locked` under locks in a Redis and in etcd: two services, work that outlives the lock, a pause in
 * the middle. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "service/test/crowd.h"
#include "service/test/shop.h"

enum { STOCK = 40, THREADS = 16 };

static struct redis_server redis;
static struct seckilld services[2];

/* Two services on one Redis, with the lock at `lock`. */
static void open_with(const char *lock, const char *work_delay, const char *fencing) {
    for (int i = 0; i < 2; i++) {
        seckilld_start(&services[i], redis.port, "--teaching", "--lock", lock, "--work-delay", work_delay,
                       "--fencing", fencing, NULL);
        seckilld_wait_ready(&services[i], 200);
    }
    shop_put(services[0].port, "x", harness_format("\"stock\":%d,\"strategy\":\"locked\"", STOCK));
}

/* The same Redis has the lock as well. */
static void open_services(const char *lock_options, const char *work_delay, const char *fencing) {
    redis_start(&redis, "--appendfsync", "no", NULL);
    open_with(harness_format("redis://127.0.0.1:%d?%s", redis.port, lock_options), work_delay, fencing);
}

static void open_with_etcd(const char *lock_options, const char *work_delay, const char *fencing) {
    static struct etcd_server etcd;
    redis_start(&redis, "--appendfsync", "no", NULL);
    etcd_start(&etcd, NULL);
    open_with(harness_format("etcd://127.0.0.1:%d?%s", etcd.port, lock_options), work_delay, fencing);
}

static struct crowd *sell(int purchases) {
    struct crowd_plan plan = {.ports = {services[0].port, services[1].port},
                              .item = "x",
                              .prefix = "k",
                              .threads = THREADS,
                              .purchases = purchases};
    return crowd_run(&plan);
}

/* Everybody waits his turn, in two processes; exactly what there is is sold. */
static void sells_what_there_is(void) {
    struct crowd *crowd = sell(1000);
    CHECK_INT(crowd_count(crowd, 201), STOCK);
    CHECK_INT(crowd_count(crowd, 409), 1000 - STOCK);
    CHECK_INT(shop_metric(services[0].port, "seckill_lock_acquired_total") +
                  shop_metric(services[1].port, "seckill_lock_acquired_total"),
              1000);
    CHECK_INT(shop_metric(services[0].port, "seckill_lock_waiting"), 0);
    CHECK(shop_metric(services[0].port, "seckill_lock_hold_seconds_total") > 0);
    CHECK_INT(shop_audit(services[1].port, "x", "sold"), STOCK);
    crowd_check_orders(crowd, services[1].port);
}

static void owner(void) {
    open_services("variant=owner", "0", "on");
    sells_what_there_is();
    CHECK(shop_metric(services[0].port, "seckill_lock_passed_total") > 0);
}

static void watchdog(void) {
    open_services("variant=watchdog", "0", "on");
    sells_what_there_is();
}

static void etcd_queue(void) {
    open_with_etcd("ttl=10000", "0", "on");
    sells_what_there_is();
}

/* The work takes longer than the lock lasts, and what then deletes the lock deletes another's: sold twice, on
 * every run. */
static void set_del_oversells(void) {
    struct web_response audit;
    open_services("variant=set-del&ttl=60", "75", "off");
    struct crowd *crowd = sell(1500);
    int sold = crowd_count(crowd, 201);
    CHECK(sold > STOCK);
    CHECK_INT(shop_admin(services[0].port, "GET", "/v1/items/x/audit", NULL, &audit), 200);
    CHECK_HAS(audit.body, "\"conserved\":false");
    CHECK_INT(shop_number(&audit, "oversold"), sold - STOCK);
}

/* The same with the right lock: it is lost in the middle of the work just as often, but the holder that
 * writes then has an older fence and is refused. */
static void owner_with_a_fence_does_not(void) {
    struct web_response response;
    open_services("ttl=60", "75", "on");
    struct crowd *crowd = sell(100);
    int sold = crowd_count(crowd, 201), refused = crowd_count(crowd, 503), out = crowd_count(crowd, 409);
    CHECK_INT(sold + refused + out, 100);
    CHECK(refused > 0);
    CHECK(shop_metric(services[0].port, "seckill_purchases_total{outcome=\"stale\"}") > 0);
    CHECK_INT(shop_audit(services[0].port, "x", "sold"), sold);
    crowd_check_orders(crowd, services[0].port);
    /* Alone, nobody has a newer one. */
    CHECK_INT(shop_buy(services[1].port, "x", "lone", 1, "lone", &response), sold < STOCK ? 201 : 409);
}

static const char *basket_raw(const char *lines, const char *key) {
    const char *body = shop_basket_body("u", lines);
    return harness_format("POST /v1/baskets HTTP/1.1\r\nHost: shop\r\nIdempotency-Key: %s\r\n"
                          "Content-Length: %zu\r\n\r\n%s",
                          key, strlen(body), body);
}

/* A purchase has read what it works out its write from. */
static bool has_read(void *fenced) {
    if (*(bool *)fenced)
        return redis_integer(&redis, "EXISTS", stock_key("x:token"), NULL) == 1;
    return strstr(redis_command(&redis, "SLOWLOG", "GET", "128", NULL),
                  harness_format("HGET %s @", stock_key("x")));
}

/* A lock that was slow to connect is refused for a moment. */
static bool buys_quickly(void *arg) {
    struct web_response response;
    int status = shop_buy(services[1].port, "x", "quick", 1, "quick", &response);
    (void)arg;
    CHECK(status == 201 || status == 503);
    return status == 201;
}

/* A service is stopped between its read and its write, and goes on when another has sold since. */
static void paused(bool fenced) {
    struct web_conn conn;
    struct web_response response;
    CHECK_STR(redis_command(&redis, "CONFIG", "SET", "slowlog-log-slower-than", "0", NULL), "OK"); /* all */
    CHECK(web_open(&conn, services[0].port));
    web_send_text(&conn, shop_purchase_raw("x", "paused", 1, "paused"));
    CHECK(harness_wait(has_read, &fenced, 5000));
    proc_kill(&services[0].proc, SIGSTOP);
    CHECK(harness_wait(buys_quickly, NULL, 10000));
    proc_kill(&services[0].proc, SIGCONT);
    CHECK_INT(web_read_response(&conn, &response), WEB_OK);
    CHECK_INT(response.status, fenced ? 503 : 201);
    long long available = redis_integer(&redis, "HGET", stock_key("x"), "available", NULL);
    long long orders = stock_orders(&redis, "x");
    CHECK_INT(orders, fenced ? 1 : 2);
    CHECK_INT(available, STOCK - 1); /* both wrote what they had worked out */
    web_close(&conn);
}

static void paused_with_a_fence(void) {
    for (int i = 0; i < 3; i++) {
        open_services("ttl=300", "800", "on");
        paused(true);
    }
}

/* Longer than the lease, which no lock of etcd goes without: the other has to wait for its end. */
static void paused_with_etcd(void) {
    open_with_etcd("ttl=300", "800", "on");
    paused(true);
}

static void paused_with_etcd_without_a_fence(void) {
    open_with_etcd("ttl=300", "800", "off");
    paused(false);
}

static void paused_without(void) {
    for (int i = 0; i < 3; i++) {
        open_services("ttl=300", "800", "off");
        paused(false);
    }
}

/* Somebody else has the lock. Of more who want it than threads serve, nobody waits for longer than the time
 * to live since he came. */
static void waits_once(void) {
    enum { BUYERS = 160, TTL_MS = 2000, WAIT_MS = 2 * TTL_MS };
    static struct web_conn conns[BUYERS];
    struct web_response response;
    redis_start(&redis, "--appendfsync", "no", NULL);
    seckilld_start(&services[0], redis.port, "--teaching", "--lock",
                   harness_format("redis://127.0.0.1:%d", redis.port), "--lock-ttl",
                   harness_format("%d", TTL_MS), NULL);
    seckilld_wait_ready(&services[0], 200);
    shop_put(services[0].port, "x", "\"stock\":10,\"strategy\":\"locked\"");
    CHECK_STR(redis_command(&redis, "SET", "lock:{seckill:x}", "somebody", NULL), "OK");
    int64_t since_ms = harness_now_ms();
    for (int i = 0; i < BUYERS; i++) {
        const char *key = harness_format("k%d", i);
        CHECK(web_open(&conns[i], services[0].port));
        web_send_text(&conns[i], i % 2 ? shop_purchase_raw("x", "u", 1, key) : basket_raw("x:1", key));
    }
    for (int i = 0; i < BUYERS; i++) {
        conns[i].timeout_ms = 20000;
        CHECK_INT(web_read_response(&conns[i], &response), WEB_OK);
        CHECK_PROBLEM(&response, 503, "overloaded");
        CHECK_HAS(shop_text(&response, "detail"), "not free in time");
        web_close(&conns[i]);
    }
    CHECK(harness_now_ms() - since_ms < WAIT_MS);
    CHECK_STR(redis_command(&redis, "DEL", "lock:{seckill:x}", NULL), "1");
    CHECK_INT(shop_buy(services[0].port, "x", "u", 1, "k", NULL), 201);
    CHECK_INT(seckilld_stop(&services[0]), 0);
}

/* The lock's store is gone: a buyer hears so, and nothing is sold. */
static void no_lock_store(void) {
    struct redis_server locks;
    struct web_response response;
    redis_start(&redis, NULL);
    redis_start(&locks, NULL);
    seckilld_start(&services[0], redis.port, "--teaching", "--lock",
                   harness_format("redis://127.0.0.1:%d", locks.port), NULL);
    seckilld_wait_ready(&services[0], 200);
    shop_put(services[0].port, "x", "\"stock\":10,\"strategy\":\"locked\"");
    shop_buy(services[0].port, "x", "u", 1, "first", &response);
    CHECK_INT(response.status, 201);
    redis_kill(&locks);
    shop_buy(services[0].port, "x", "u", 1, "second", &response);
    CHECK_PROBLEM(&response, 503, "lock-unavailable");
    CHECK_INT(shop_metric(services[0].port, "seckill_purchases_total{outcome=\"lock_unavailable\"}"), 1);
    CHECK_INT(shop_metric(services[0].port, "seckill_purchases_total{outcome=\"overloaded\"}"), 0);
    redis_restart(&locks);
    for (int i = 0; i < 100 && response.status != 201; i++) {
        harness_pause_ms(50);
        shop_buy(services[0].port, "x", "u", 1, "second", &response);
    }
    CHECK_INT(response.status, 201);
    CHECK_INT(shop_audit(services[0].port, "x", "sold"), 2);
}

int main(int argc, char **argv) {
    harness_begin(argc, argv);
    harness_run("owner sells what there is", owner);
    harness_run("watchdog sells what there is", watchdog);
    harness_run("etcd sells what there is", etcd_queue);
    harness_run("set-del oversells", set_del_oversells);
    harness_run("owner with a fence does not", owner_with_a_fence_does_not);
    harness_run("paused, with a fence", paused_with_a_fence);
    harness_run("paused, without", paused_without);
    harness_run("paused, with a fence, in etcd", paused_with_etcd);
    harness_run("paused, without, in etcd", paused_with_etcd_without_a_fence);
    harness_run("nobody waits twice", waits_once);
    harness_run("the lock's store is gone", no_lock_store);
    return harness_finish();
}
