/* Purchases that wait: behind each other on one connection, for a dead store, for a place; and buyers who do
 * not wait for them. (How requests wait is tested in test_http.c.) */
#include <string.h>
#include <sys/socket.h>

#include "service/test/shop.h"

/* A store behind a proxy, and the item x on sale. */
static void open_shop(struct shop *shop) {
    shop_open_proxied(shop, "20000", "10000");
    shop_put(shop->port, "x", "\"stock\":1000000");
    CHECK_INT(shop_buy(shop->port, "x", "u", 1, "first", NULL), 201);
}

static void check_bought(struct web_conn *conn, const char *user) {
    struct web_response response;
    enum web_result result = web_read_response(conn, &response);
    if (result != WEB_OK || response.status != 201)
        FAIL("%s has no order: %d, %d %s", user, result, response.status, response.body);
    CHECK_STR(shop_text(&response, "user"), user);
}

static void ten_in_one_write(void) {
    static const int delays_ms[] = {0, 12};
    struct shop shop;
    struct web_conn conn;
    struct web_response response;
    open_shop(&shop);
    CHECK(web_open(&conn, shop.port));
    for (int k = 0; k < 2; k++) {
        proxy_set(shop.proxy, delays_ms[k] ? PROXY_DELAY : PROXY_PASS, delays_ms[k], NULL);
        const char *all = "";
        for (int i = 0; i < 10; i++)
            all = harness_format(
                "%s%s", all,
                shop_purchase_raw("x", harness_format("u%d", i), 1, harness_format("k-%d-%d", k, i)));
        web_send_text(&conn, all);
        for (int i = 0; i < 10; i++)
            check_bought(&conn, harness_format("u%d", i));
        /* What comes after a purchase is seen after it. */
        static const char get[] = "GET /v1/items/x HTTP/1.1\r\nHost: x\r\n\r\n";
        const char *post = shop_purchase_raw("x", "last", 1000, harness_format("last-%d", k));
        web_send_text(&conn,
                      harness_format("%s%s%s%s", get, post, get, "GET /livez HTTP/1.1\r\nHost: x\r\n\r\n"));
        CHECK_INT(web_read_response(&conn, &response), WEB_OK);
        long long before = shop_number(&response, "available");
        check_bought(&conn, "last");
        CHECK_INT(web_read_response(&conn, &response), WEB_OK);
        CHECK_INT(shop_number(&response, "available"), before - 1000);
        CHECK_INT(web_read_response(&conn, &response), WEB_OK);
        CHECK_STR(response.body, "{\"status\":\"ok\"}");
    }
    web_close(&conn);
}

struct count {
    struct shop *shop;
    int orders, connections;
};

static bool has_settled(void *arg) {
    struct count *count = arg;
    return redis_integer(&count->shop->redis, "HLEN", "seckill:{x}:orders", NULL) == count->orders &&
           shop_metric(count->shop->port, "seckill_purchases_waiting") == 0 &&
           shop_metric(count->shop->port, "seckill_http_connections") <= count->connections;
}

/* Who leaves has bought all the same, once his purchase is in flight; and finds it when he comes back. */
static void buyers_who_leave(void) {
    enum { LEAVERS = 60 };
    struct linger at_once = {.l_onoff = 1, .l_linger = 0};
    struct shop shop;
    struct web_response response;
    static struct web_conn conns[LEAVERS];
    open_shop(&shop);
    redis_pause(&shop.redis);
    for (int i = 0; i < LEAVERS; i++) {
        shop_buy_begin(&conns[i], shop.port, "x", "leaver", 1, harness_format("leaver-%d", i));
    }
    for (int64_t until_ms = harness_now_ms() + 10000;
         shop_metric(shop.port, "seckill_purchases_waiting") < LEAVERS;)
        CHECK(harness_now_ms() < until_ms);
    for (int i = 0; i < LEAVERS; i++) {
        if (i % 2)
            setsockopt(conns[i].fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
        web_close(&conns[i]);
    }
    redis_resume(&shop.redis);
    struct count count = {&shop, 1 + LEAVERS, 5};
    CHECK(harness_wait(has_settled, &count, 10000));
    for (int i = 0; i < LEAVERS; i++) {
        CHECK_INT(shop_buy(shop.port, "x", "leaver", 1, harness_format("leaver-%d", i), &response), 201);
        CHECK_STR(web_header(&response, "Idempotent-Replayed"), "true");
    }
    CHECK_INT(shop_audit(shop.port, "x", "orders"), 1 + LEAVERS);
    CHECK_INT(seckilld_stop(&shop.service), 0);
}

/* All of them hear something when it does not come back, within the bounds of the service. */
static void a_thousand_on_a_dead_store(void) {
    enum { MANY = 1000 };
    static struct web_conn conns[MANY];
    struct redis_server redis;
    struct seckilld service;
    redis_start(&redis, NULL);
    seckilld_start(&service, redis.port, "--store-timeout", "1000", NULL);
    seckilld_wait_ready(&service, 200);
    shop_put(service.port, "x", "\"stock\":1000000");
    redis_pause(&redis);
    for (int i = 0; i < MANY; i++) {
        CHECK(web_open(&conns[i], service.port));
        web_send_text(&conns[i], shop_purchase_raw("x", "u", 1, harness_format("k-%d", i)));
    }
    for (int i = 0; i < MANY; i++) {
        shop_check_answer(&conns[i], 503, "store-unavailable");
    }
    redis_resume(&redis);
    seckilld_wait_ready(&service, 200);
    CHECK_INT(shop_buy(service.port, "x", "u", 1, "after", NULL), 201);
    shop_audit(service.port, "x", "orders");
    CHECK_INT(seckilld_stop(&service), 0);
}

/* More than --connections wait until there is a place, also behind such as do nothing with theirs. */
static void more_than_connections(void) {
    enum { FLOOD = 100, MAY = 8 };
    static struct web_conn conns[FLOOD];
    struct redis_server redis;
    struct seckilld service;
    redis_start(&redis, NULL);
    seckilld_start(&service, redis.port, "--connections", "8", "--workers", "1", NULL);
    seckilld_wait_ready(&service, 200);
    shop_put(service.port, "x", "\"stock\":1000");
    for (int i = 0; i < FLOOD; i++) {
        CHECK(web_open(&conns[i], service.port));
        if (i >= MAY)
            web_send_text(&conns[i], shop_purchase_raw("x", harness_format("u%d", i), 1, "k"));
    }
    CHECK_STR(redis_command(&redis, "HLEN", "seckill:{x}:orders", NULL), "0");
    for (int i = 0; i < MAY; i++)
        web_close(&conns[i]);
    for (int i = MAY; i < FLOOD; i++) {
        check_bought(&conns[i], harness_format("u%d", i));
        web_close(&conns[i]);
    }
    CHECK_INT(shop_audit(service.port, "x", "orders"), FLOOD - MAY);
}

int main(int argc, char **argv) {
    harness_begin(argc, argv);
    harness_run("ten in one write", ten_in_one_write);
    harness_run("buyers who leave", buyers_who_leave);
    harness_run("a thousand on a dead store", a_thousand_on_a_dead_store);
    harness_run("more than --connections", more_than_connections);
    return harness_finish();
}
