/* The service killed, drained and replaced while people buy, and several of it on one store. */
#include <signal.h>
#include <string.h>
#include <sys/wait.h>

#include "service/test/crowd.h"
#include "service/test/shop.h"

enum { THREADS = 24, STOP_MS = 25000 };

static void open_two(struct redis_server *redis, struct seckilld services[2]) {
    redis_start(redis, NULL);
    for (int i = 0; i < 2; i++)
        seckilld_start(&services[i], redis->port, NULL);
    for (int i = 0; i < 2; i++)
        seckilld_wait_ready(&services[i], 200);
}

/* ---- killed ---- */

/* The store answers after `delay_ms`, from now on. */
static void open_slow(struct shop *shop, int delay_ms, const char *drain_ms) {
    shop_open_proxied(shop, "60000", drain_ms);
    shop_put(shop->port, "x", "\"stock\":1000");
    if (delay_ms)
        proxy_set(shop->proxy, PROXY_DELAY, delay_ms, NULL);
}

/* The store has it, the buyer does not know, the service is new: the key tells. */
static void killed_before_it_could_answer(void) {
    struct shop shop;
    struct web_conn conn;
    struct web_response response;
    open_slow(&shop, 0, "1000");
    CHECK_INT(shop_buy(shop.port, "x", "u", 1, "first", NULL), 201);
    proxy_set(shop.proxy, PROXY_DELAY, 60000, "}:x");
    shop_buy_begin(&conn, shop.port, "x", "u", 2, "k");
    for (int64_t until_ms = harness_now_ms() + 5000;
         stock_orders(&shop.redis, "x") != 2;)
        CHECK(harness_now_ms() < until_ms);
    seckilld_kill(&shop.service);
    CHECK_INT(web_read_response(&conn, &response), WEB_CLOSED);
    proxy_set(shop.proxy, PROXY_PASS, 0, NULL);
    seckilld_restart(&shop.service);
    seckilld_wait_ready(&shop.service, 200);
    CHECK_INT(shop_buy(shop.port, "x", "u", 2, "k", &response), 201);
    CHECK_STR(web_header(&response, "Idempotent-Replayed"), "true");
    CHECK_INT(shop_audit(shop.port, "x", "available"), 1000 - 3);
}

/* ---- two ---- */

static void two_on_one_store(void) {
    struct redis_server redis;
    struct seckilld services[2];
    struct web_response first, again;
    open_two(&redis, services);
    int a = services[0].port, b = services[1].port;
    shop_put(a, "x", "\"stock\":2,\"per_user_limit\":2");
    CHECK_INT(shop_admin(b, "PUT", "/v1/items/x", "{\"stock\":2,\"per_user_limit\":2}", NULL), 200);
    CHECK_INT(shop_buy(a, "x", "u", 2, "k", &first), 201);
    /* Sold out at one is so at the other, which has never sold any, and retries are right at both. */
    shop_buy(b, "x", "v", 1, "v", &again);
    CHECK_PROBLEM(&again, 409, "sold-out");
    CHECK_INT(shop_buy(b, "x", "u", 2, "k", &again), 201);
    CHECK_STR(again.body, first.body);
    CHECK_STR(web_header(&again, "Idempotent-Replayed"), "true");
    /* Restocked at one, it sells at the other at once. */
    CHECK_INT(shop_restock(a, "x", 1, "r", NULL), 200);
    CHECK_INT(shop_buy(b, "x", "v", 1, "v", NULL), 201);
    CHECK_INT(shop_restock(b, "x", 1, "r", &again), 200);
    CHECK_STR(web_header(&again, "Idempotent-Replayed"), "true");
    CHECK_INT(shop_buy(a, "x", "w", 1, "w", NULL), 409);
    /* Held at one, settled at the other. */
    shop_put(b, "h", "\"stock\":1,\"hold_seconds\":600");
    CHECK_INT(shop_buy(a, "h", "u", 1, "k", &first), 201);
    CHECK_INT(shop_order(b, shop_text(&first, "order"), "cancel", NULL), 200);
    CHECK_INT(shop_order(a, shop_text(&first, "order"), "confirm", NULL), 409);
    CHECK_INT(shop_audit(b, "h", "available"), 1);
    CHECK_INT(shop_audit(a, "x", "orders"), 2);
}

/* ---- drained ---- */

/* All who got no answer were not begun: their keys are new to the other one. */
static void drained_under_load(void) {
    struct redis_server redis;
    struct seckilld services[2];
    enum { BUYERS = 20000 };
    open_two(&redis, services);
    int other = services[1].port;
    shop_put(other, "x", harness_format("\"stock\":%d", 2 * BUYERS));
    struct crowd_plan plan = {
        .ports = {services[0].port}, .item = "x", .prefix = "k", .threads = 64, .purchases = BUYERS};
    struct crowd *crowd = crowd_start(&plan);
    crowd_wait(crowd, 1000);
    CHECK_INT(seckilld_stop(&services[0]), 0);
    crowd_stop(crowd);
    crowd_join(crowd);
    CHECK(!harness_failed());
    CHECK_HAS(proc_output(&services[0].proc), "draining");
    crowd_check_orders(crowd, other);
    CHECK_INT(shop_audit(other, "x", "orders"), crowd_count(crowd, 201));
    CHECK_INT(crowd_count(crowd, 201) + crowd_count(crowd, 0), crowd_answered(crowd));
}

static int finish(struct proc *proc) {
    int status;
    if (!proc_wait(proc, STOP_MS, &status))
        FAIL("it still runs");
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static bool waits(void *arg) {
    return shop_metric(*(int *)arg, "seckill_purchases_waiting") >= 50;
}

/* Sent before the signal, and not read yet, nor all of the connections taken in. */
static void what_was_sent_is_answered(void) {
    enum { MANY = 100, EARLY = 30 };
    static struct web_conn conns[MANY];
    struct web_response response;
    struct shop shop;
    shop_open(&shop);
    shop_put(shop.port, "x", "\"stock\":1000");
    for (int i = 0; i < EARLY; i++) {
        CHECK(web_open(&conns[i], shop.port));
        CHECK_INT(web_request(&conns[i], "GET", "/livez", NULL, NULL, &response), WEB_OK);
    }
    proc_kill(&shop.service.proc, SIGSTOP);
    for (int i = 0; i < MANY; i++) {
        CHECK(i < EARLY || web_open(&conns[i], shop.port));
        web_send_text(&conns[i], shop_purchase_raw("x", "u", 1, harness_format("k%d", i)));
    }
    proc_kill(&shop.service.proc, SIGTERM);
    proc_kill(&shop.service.proc, SIGCONT);
    for (int i = 0; i < MANY; i++) {
        shop_check_answer(&conns[i], 201, NULL);
    }
    CHECK_INT(finish(&shop.service.proc), 0);
}

/* A store that never answers, a buyer who never sends all of his request, and one who reads no answer: none
 * holds it for longer than the bound. */
static void the_bound(void) {
    struct shop shop;
    struct web_conn hanging, half, deaf;
    struct web_response response;
    open_slow(&shop, 100000, "300");
    const char *request = shop_purchase_raw("x", "u", 1, "k");
    CHECK(web_open(&hanging, shop.port) && web_open(&half, shop.port) && web_open(&deaf, shop.port));
    CHECK_INT(web_send_raw(&hanging, request, strlen(request)), WEB_OK);
    CHECK_INT(web_send_raw(&half, request, strlen(request) - 1), WEB_OK);
    deaf.timeout_ms = 200;
    static const char big[] = "GET /openapi.json HTTP/1.1\r\nHost: x\r\n\r\n";
    while (web_send_raw(&deaf, big, sizeof big - 1) == WEB_OK)
        continue; /* until no more is taken */
    proc_kill(&shop.service.proc, SIGTERM);
    CHECK_INT(web_read_response(&hanging, &response), WEB_OK);
    CHECK_PROBLEM(&response, 503, "store-unavailable");
    CHECK_INT(finish(&shop.service.proc), 0);
    web_close(&hanging);
    web_close(&half);
    web_close(&deaf);
}

static bool waits_for_thread(void *arg) {
    return shop_metric(*(int *)arg, "seckill_pool_waiting") > 0;
}

/* Purchases in their work delay, and others that wait for the lock or for a thread, past the bound; and those
 * whose request has arrived but was not read yet, or not even their connection taken in. */
static void the_bound_with_work_in_flight(void) {
    static const char *const strategies[] = {"naive", "locked"};
    enum { MANY = 60 };
    static struct web_conn conns[MANY];
    for (int k = 0; k < 2; k++) {
        struct redis_server redis;
        struct seckilld service;
        redis_start(&redis, NULL);
        seckilld_start_ready(&service, redis.port, "--teaching", "--work-delay", "30000", "--drain", "300",
                             "--lock-ttl", "60000", NULL);
        shop_put(service.port, "x", harness_format("\"stock\":1000,\"strategy\":\"%s\"", strategies[k]));
        for (int i = 0; i < MANY; i++) {
            const char *request = shop_purchase_raw("x", "u", 1, harness_format("k%d", i));
            CHECK(web_open(&conns[i], service.port));
            CHECK_INT(web_send_raw(&conns[i], request, strlen(request)), WEB_OK);
        }
        CHECK(harness_wait(k == 0 ? waits : waits_for_thread, &service.port, 5000));
        proc_kill(&service.proc, SIGTERM);
        CHECK_INT(finish(&service.proc), 0);
        for (int i = 0; i < MANY; i++) {
            shop_check_answer(&conns[i], 503, NULL);
        }
    }
}

static void signals(void) {
    struct shop shop;
    struct shop idle;
    struct web_conn conn;
    shop_open(&idle);
    CHECK(web_open(&conn, idle.port));
    proc_kill(&idle.service.proc, SIGINT);
    CHECK_INT(finish(&idle.service.proc), 0);
    CHECK_INT(web_read_end(&conn), WEB_CLOSED);
    /* A second one ends at once what drains. */
    open_slow(&shop, 100000, "600000");
    const char *request = shop_purchase_raw("x", "u", 1, "k");
    CHECK(web_open(&conn, shop.port));
    CHECK_INT(web_send_raw(&conn, request, strlen(request)), WEB_OK);
    proc_kill(&shop.service.proc, SIGTERM);
    for (int64_t until_ms = harness_now_ms() + 5000; !strstr(proc_output(&shop.service.proc), "draining");)
        CHECK(harness_now_ms() < until_ms);
    for (int64_t until_ms = harness_now_ms() + 10000; proc_running(&shop.service.proc);) {
        proc_kill(&shop.service.proc, SIGTERM);
        CHECK(harness_now_ms() < until_ms);
        harness_pause_ms(5);
    }
    CHECK_INT(finish(&shop.service.proc), 128 + SIGTERM);
}

int main(int argc, char **argv) {
    harness_begin(argc, argv);
    harness_run("killed before it could answer", killed_before_it_could_answer);
    harness_run("two on one store", two_on_one_store);
    harness_run("drained under load", drained_under_load);
    for (int i = 0; i < 5; i++)
        harness_run("what was sent is answered", what_was_sent_is_answered);
    harness_run("the bound of the drain", the_bound);
    harness_run("the bound of the drain, with work in flight", the_bound_with_work_in_flight);
    harness_run("signals", signals);
    return harness_finish();
}
