/* Audits of a large item, from outside: beside buyers, for clients who leave, cut off, and at the end. */
#include <signal.h>
#include <string.h>

#include "service/test/crowd.h"
#include "service/test/shop.h"

enum { LARGE = 30000 };

#define AUDIT "/v1/items/x/audit"

static void put_large(const struct redis_server *redis, int port) {
    static const char script[] = "local orders = {}\n"
                                 "for i = ARGV[1] + 0, ARGV[1] + ARGV[2] - 1 do\n"
                                 "  orders[#orders + 1] = string.format('%022d', i)\n"
                                 "  orders[#orders + 1] = 'c 1 old' .. i .. ' 1700000000000'\n"
                                 "end\n"
                                 "redis.call('HSET', KEYS[1], unpack(orders))\n"
                                 "redis.call('HINCRBY', KEYS[1], 'sold', ARGV[2])\n"
                                 "return redis.call('HINCRBY', KEYS[1], 'available', -ARGV[2])\n";
    enum { STEP = 2000 };
    shop_put(port, "x", "\"stock\":1000000");
    for (int i = 0; i < LARGE; i += STEP)
        redis_integer(redis, "EVAL", script, "1", stock_key("x"), harness_format("%d", i),
                      harness_format("%d", STEP), NULL);
}

static void check_exact(int port, int orders) {
    struct web_response response;
    CHECK_INT(shop_admin(port, "GET", AUDIT, NULL, &response), 200);
    CHECK_HAS(response.body, "\"conserved\":true,\"exact\":true,\"off_by\":0,");
    CHECK_INT(shop_number(&response, "orders"), orders);
}

static void beside_buyers(void) {
    enum { MOST = 200000 };
    struct shop shop;
    struct web_response response;
    shop_open(&shop);
    put_large(&shop.redis, shop.port);
    struct crowd *crowd = crowd_start(&(struct crowd_plan){
        .ports = {shop.port}, .item = "x", .prefix = "c", .threads = 8, .purchases = MOST});
    crowd_wait(crowd, 1);
    for (int inexact = 0; inexact < 3;) {
        CHECK(crowd_answered(crowd) < MOST);
        CHECK_INT(shop_admin(shop.port, "GET", AUDIT, NULL, &response), 200);
        CHECK_HAS(response.body, "\"conserved\":true");
        long long sold = shop_number(&response, "sold"), counted = shop_number(&response, "counters.sold");
        CHECK(sold <= counted && counted - sold <= shop_number(&response, "off_by"));
        inexact += strstr(response.body, "\"exact\":false") != NULL;
    }
    crowd_stop(crowd);
    crowd_join(crowd);
    crowd_check_answers(crowd, NULL);
    check_exact(shop.port, LARGE + crowd_count(crowd, 201));
    shop_close(&shop);
}

static void clients_who_leave(void) {
    enum { LEAVERS = 30 };
    struct shop shop;
    struct web_conn conn;
    shop_open(&shop);
    put_large(&shop.redis, shop.port);
    for (int i = 0; i < LEAVERS; i++) {
        CHECK(web_open(&conn, shop.port));
        web_send_text(&conn, "GET " AUDIT " HTTP/1.1\r\nHost: x\r\n" SECKILLD_ADMIN "\r\n");
        if (i % 2)
            harness_pause_ms(5);
        web_close(&conn);
    }
    check_exact(shop.port, LARGE);
    shop_check_served(shop.port, "x");
    shop_close(&shop);
}

static void cut_off(void) {
    struct redis_server redis;
    struct seckilld service;
    struct web_response response;
    redis_start(&redis, NULL);
    struct proxy *proxy = proxy_start(redis.port);
    seckilld_start(&service, proxy_port(proxy), NULL);
    seckilld_wait_ready(&service, 200);
    put_large(&redis, service.port);
    double connections = shop_metric(service.port, "seckill_store_connects_total");
    proxy_set(proxy, PROXY_CUT, 2000, "HSCAN");
    shop_admin(service.port, "GET", AUDIT, NULL, &response);
    CHECK_PROBLEM(&response, 503, "store-unavailable");
    CHECK_INT(proxy_faults(proxy), 1);
    CHECK_INT(shop_buy(service.port, "x", "u", 1, "k", NULL), 201);
    CHECK(shop_metric(service.port, "seckill_store_connects_total") == connections);
    check_exact(service.port, LARGE + 1);
    CHECK_INT(seckilld_stop(&service), 0);
}

/* One that is in flight at SIGTERM has its answer. */
static void at_the_end(void) {
    struct shop shop;
    struct web_conn conn;
    struct web_response response;
    shop_open(&shop);
    put_large(&shop.redis, shop.port);
    CHECK(web_open(&conn, shop.port));
    web_send_text(&conn, "GET " AUDIT " HTTP/1.1\r\nHost: x\r\n" SECKILLD_ADMIN "\r\n");
    harness_pause_ms(20);
    kill(shop.service.proc.pid, SIGTERM);
    CHECK_INT(web_read_response(&conn, &response), WEB_OK);
    CHECK_INT(response.status, 200);
    CHECK_INT(shop_number(&response, "orders"), LARGE);
    int status;
    CHECK(proc_wait(&shop.service.proc, 20000, &status));
    CHECK_INT(status, 0);
}

/* One that is not done when the time for that is up hears so, and keeps nobody waiting. */
static void past_the_end(void) {
    struct redis_server redis;
    struct seckilld service;
    struct web_conn conn;
    struct web_response response;
    redis_start(&redis, NULL);
    struct proxy *proxy = proxy_start(redis.port);
    seckilld_start(&service, proxy_port(proxy), "--drain", "100", "--store-timeout", "20000", NULL);
    seckilld_wait_ready(&service, 200);
    put_large(&redis, service.port);
    proxy_set(proxy, PROXY_DELAY, 300, NULL);
    CHECK(web_open(&conn, service.port));
    web_send_text(&conn, "GET " AUDIT " HTTP/1.1\r\nHost: x\r\n" SECKILLD_ADMIN "\r\n");
    harness_pause_ms(20);
    kill(service.proc.pid, SIGTERM);
    CHECK_INT(web_read_response(&conn, &response), WEB_OK);
    CHECK_PROBLEM(&response, 503, "store-unavailable");
    int status;
    CHECK(proc_wait(&service.proc, 20000, &status));
    CHECK_INT(status, 0);
}

int main(int argc, char **argv) {
    harness_begin(argc, argv);
    harness_run("beside buyers", beside_buyers);
    harness_run("clients who leave", clients_who_leave);
    harness_run("cut off", cut_off);
    harness_run("at the end", at_the_end);
    harness_run("past the end", past_the_end);
    return harness_finish();
}
