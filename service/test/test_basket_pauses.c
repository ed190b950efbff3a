/* One of two services is stopped for longer than its locks last in the middle of a basket, under each lock
 * that has a fence. */
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "service/test/shop.h"
#include "test/harness.h"

enum { DEATH_MS = 20000, RECOVERY_MS = 30000 };

static struct redis_server redis;
static struct seckilld sleeper, service;

static const char *const items[] = {"a", "b", "c"};

static void put_items(int port) {
    for (int i = 0; i < 3; i++)
        shop_put(port, items[i], "\"stock\":10");
}

static bool is_stopped_or_answers(void *conn) {
    struct pollfd socket = {.fd = ((struct web_conn *)conn)->fd, .events = POLLIN};
    return proc_stopped(&sleeper.proc) || poll(&socket, 1, 0) > 0;
}

/* Sends ann's basket to the service that stops in it. A lock that was slow to connect may refuse it first. */
static void send_until_stopped(struct web_conn *conn) {
    const char *request = shop_basket_raw("ann", "a:8 b:8 c:8", "k");
    for (int64_t until_ms = harness_now_ms() + DEATH_MS;;) {
        struct web_response response;
        CHECK(web_open(conn, sleeper.port));
        conn->timeout_ms = 60000;
        web_send_text(conn, request);
        CHECK(harness_wait(is_stopped_or_answers, conn, DEATH_MS));
        if (proc_stopped(&sleeper.proc))
            return;
        CHECK_INT(web_read_response(conn, &response), WEB_OK);
        CHECK_INT(response.status, 503);
        CHECK(harness_now_ms() < until_ms);
        web_close(conn);
    }
}

/* Two services, one of which stops at `step`, and ann's basket there until it does. */
static void stop_at(struct web_conn *conn, const char *step, const char *lock, const char *ttl,
                    const char *way, const char *fencing) {
    const char *teaching = strcmp(way, "naive") == 0 ? "--teaching=on" : "--teaching=off";
    redis_start(&redis, "--appendfsync", "no", NULL);
    seckilld_start_stopping(&sleeper, step, redis.port, "--lock", lock, "--lock-ttl", ttl, "--basket", way,
                            "--fencing", fencing, teaching, NULL);
    seckilld_start(&service, redis.port, "--lock", lock, "--lock-ttl", ttl, "--basket", way, "--fencing",
                   fencing, teaching, NULL);
    seckilld_wait_ready(&sleeper, 200);
    seckilld_wait_ready(&service, 200);
    put_items(sleeper.port);
    send_until_stopped(conn);
}

/* Another buys through the other service, once the locks of the one that was stopped are over. */
static void buy_meanwhile(const char *lines) {
    int other = 503;
    for (int64_t until_ms = harness_now_ms() + RECOVERY_MS; other != 201 && harness_now_ms() < until_ms;)
        other = shop_basket(service.port, "bob", lines, "other", NULL);
    CHECK_INT(other, 201);
}

static void go_on(struct web_conn *conn, struct web_response *response) {
    proc_kill(&sleeper.proc, SIGCONT);
    CHECK_INT(web_read_response(conn, response), WEB_OK);
    web_close(conn);
}

static double of_both(const char *sample) {
    return shop_metric(service.port, sample) + shop_metric(sleeper.port, sample);
}

static bool is_phantom_told(void *arg) {
    (void)arg;
    return of_both("seckill_basket_phantom_seconds_count{outcome=\"aborted\"}") >= 1 &&
           of_both("seckill_basket_phantom_seconds_sum{outcome=\"aborted\"}") > 0;
}

/* One of two services is stopped in the middle of a basket for longer than its locks last. Another buyer has
 * what is left meanwhile; then it goes on, and its writes come too late. */
static void stopped_in_steps(const char *lock, const char *ttl) {
    struct web_response response;
    struct web_conn conn;
    stop_at(&conn, "STOP before debit 1", lock, ttl, "locked", "on");
    buy_meanwhile("a:2 b:8 c:8");
    go_on(&conn, &response);
    CHECK_PROBLEM(&response, 503, "overloaded");
    CHECK_HAS(response.body, "the lock was lost");
    CHECK_INT(shop_metric(sleeper.port, "seckill_baskets_total{outcome=\"stale\"}"), 1);
    shop_wait_settled(&redis);
    CHECK(harness_wait(is_phantom_told, NULL, RECOVERY_MS));
    static const int left[] = {8, 2, 2};
    for (int i = 0; i < 3; i++) {
        shop_check_left(service.port, items[i], left[i], 0, 10 - left[i]);
        CHECK_INT(shop_audit(service.port, items[i], "orders"), 1);
    }
    /* The buyer who was overtaken hears the truth. */
    shop_basket(service.port, "ann", "a:8 b:8 c:8", "k", &response);
    CHECK_PROBLEM(&response, 409, "sold-out");
    CHECK_INT(shop_number(&response, "line"), 1);
    CHECK_INT(seckilld_stop(&service), 0);
    CHECK_INT(seckilld_stop(&sleeper), 0);
}

/* The same of baskets as people write them: the fence stops the late write, and nothing else does. */
static void stopped_naively(const char *lock, const char *ttl, bool fenced) {
    struct web_response response, audit;
    struct web_conn conn;
    stop_at(&conn, "STOP before sell 0", lock, ttl, "naive", fenced ? "on" : "off");
    buy_meanwhile("a:8 b:8 c:8");
    go_on(&conn, &response);
    if (fenced)
        CHECK_PROBLEM(&response, 503, "overloaded");
    else
        CHECK_INT(response.status, 201);
    for (int i = 0; i < 3; i++) {
        CHECK_INT(
            shop_admin(service.port, "GET", harness_format("/v1/items/%s/audit", items[i]), NULL, &audit),
            200);
        CHECK_INT(shop_number(&audit, "oversold"), fenced ? 0 : 6);
        CHECK_INT(shop_number(&audit, "sold"), fenced ? 8 : 16);
    }
    CHECK_INT(seckilld_stop(&service), 0);
    CHECK_INT(seckilld_stop(&sleeper), 0);
}

/* Two services whose locks know nothing of each other, and one buyer who tries at both with one key: what he
 * is told of the attempt that was overtaken is not that somebody else came first. */
static void one_key_at_both(void) {
    struct web_response response;
    struct web_conn conn;
    stop_at(&conn, "STOP before debit 1", "local:", "500", "locked", "on");
    CHECK_INT(shop_buy(service.port, "b", "bob", 8, "bob", NULL), 201);
    int status = 503;
    for (int64_t until_ms = harness_now_ms() + RECOVERY_MS; status == 503 && harness_now_ms() < until_ms;)
        status = shop_basket(service.port, "ann", "a:8 b:8 c:8", "k", &response);
    CHECK_PROBLEM(&response, 409, "sold-out");
    go_on(&conn, &response);
    CHECK_PROBLEM(&response, 503, "overloaded");
    CHECK_HAS(response.body, "or another attempt with this key");
    shop_wait_settled(&redis);
    CHECK_INT(shop_audit(service.port, "a", "available"), 10);
    CHECK_INT(seckilld_stop(&service), 0);
    CHECK_INT(seckilld_stop(&sleeper), 0);
}

static const struct locks {
    const char *name, *scheme, *options, *ttl;
} all_locks[] = {{"redis", "redis", "", "500"},
                 {"redis, watchdog", "redis", "?variant=watchdog", "500"},
                 {"etcd", "etcd", "", "1000"},
                 {"zookeeper", "zookeeper", "", "1000"}};
static const struct locks *locks;

static void stopped(void) {
    const char *lock = harness_format("%s%s", shop_lock_start(locks->scheme), locks->options);
    stopped_in_steps(lock, locks->ttl);
    if (locks != &all_locks[0])
        return;
    stopped_naively(lock, locks->ttl, false);
    stopped_naively(lock, locks->ttl, true);
}

int main(int argc, char **argv) {
    harness_begin(argc, argv);
    harness_run("one key at both, local", one_key_at_both);
    for (size_t i = 0; i < sizeof all_locks / sizeof *all_locks; i++) {
        locks = &all_locks[i];
        harness_run(locks->name, stopped);
    }
    return harness_finish();
}
