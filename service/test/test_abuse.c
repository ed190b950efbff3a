/* Clients that are broken, many, or gone, or that send requests in a row: each has the right answer or none,
 * and the others are served. (How requests wait is tested in test_http.c.) */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "service/test/crowd.h"
#include "service/test/shop.h"

enum { RSS_MAX_KB = 300 * 1024, IDLE = 10000, IDLE_LEAST = 9000 };

static struct shop shop;

/* The sanitizers keep much more than the program does. */
static void check_memory(void) {
    char line[256];
    long kb = 0;
    FILE *file = fopen(harness_format("/proc/%d/status", (int)shop.service.proc.pid), "re");
    CHECK(file != NULL);
    while (fgets(line, sizeof line, file))
        if (strncmp(line, "VmRSS:", 6) == 0)
            kb = strtol(line + 6, NULL, 10);
    fclose(file);
    CHECK(kb > 0);
    if (!strstr(harness_build(), "san") && kb > RSS_MAX_KB)
        FAIL("seckilld has %ld MB", kb / 1024);
}

/* ---- garbage ---- */

static const char *random_bytes(uint64_t *position, size_t size) {
    char *bytes = harness_alloc(size);
    for (size_t i = 0; i < size; i++)
        bytes[i] = (char)harness_random(position);
    return bytes;
}

static void garbage(void) {
    uint64_t position = harness_seed();
    static const char *const bad[] = {"\r\n\r\n\r\n", "GET\r\n\r\n", " / HTTP/1.1\r\n\r\n",
                                      "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
                                      "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        shop_check_refused(shop.port, bad[i], strlen(bad[i]));
    for (int i = 0; i < 100; i++) {
        size_t size = harness_random(&position) % 3000 + 1;
        shop_check_refused(shop.port, random_bytes(&position, size), size);
    }
    /* Real requests with a few bytes that are not as they were. */
    for (int i = 0; i < 100; i++) {
        struct web_conn conn;
        struct web_response response;
        const char *good = shop_purchase_raw("x", "mutant", 1, harness_format("mutant-%d", i));
        /* Some with their target in absolute form. */
        char *request =
            i % 3 ? harness_format("%s", good) : harness_format("POST http://x:1%s", good + strlen("POST "));
        size_t length = strlen(request);
        for (int k = 0; k < 3; k++)
            request[harness_random(&position) % length] = (char)harness_random(&position);
        CHECK(web_open(&conn, shop.port));
        CHECK_INT(web_send_raw(&conn, request, length), WEB_OK);
        shutdown(conn.fd, SHUT_WR);
        if (web_read_response(&conn, &response) == WEB_OK)
            CHECK(response.status != 500);
        web_close(&conn);
    }
    shop_check_served(shop.port, "x");
    shop_audit(shop.port, "x", "orders");
}

/* ---- many ---- */

static void ten_thousand_idle(void) {
    struct rlimit limit;
    CHECK_INT(getrlimit(RLIMIT_NOFILE, &limit), 0);
    int many = limit.rlim_max >= IDLE + 300 ? IDLE : (int)limit.rlim_max - 300;
    if (many < IDLE)
        printf("     only %d connections: the hard limit of open files is %ld\n", many, (long)limit.rlim_max);
    CHECK(many >= IDLE_LEAST);
    limit.rlim_cur = limit.rlim_max;
    CHECK_INT(setrlimit(RLIMIT_NOFILE, &limit), 0);
    static int fds[IDLE];
    static const char half[] = "POST /v1/purchases HTTP/1.1\r\nHost: x\r\nContent-Le";
    for (int i = 0; i < many; i++) {
        struct web_conn conn;
        CHECK(web_open(&conn, shop.port));
        fds[i] = conn.fd;
        if (i % 2) /* half of them have begun a request */
            CHECK_INT(web_send_raw(&conn, half, sizeof half - 1), WEB_OK);
    }
    struct crowd_plan plan = {
        .ports = {shop.port}, .item = "x", .prefix = "crowded", .threads = 32, .purchases = 2000};
    struct crowd *crowd = crowd_run(&plan);
    CHECK_INT(crowd_count(crowd, 201), plan.purchases);
    for (int64_t until_ms = harness_now_ms() + 10000;
         shop_metric(shop.port, "seckill_http_connections") < many;)
        CHECK(harness_now_ms() < until_ms);
    check_memory();
    for (int i = 0; i < many; i++)
        close(fds[i]);
    for (int64_t until_ms = harness_now_ms() + 10000;
         shop_metric(shop.port, "seckill_http_connections") > 10;)
        CHECK(harness_now_ms() < until_ms);
    shop_check_served(shop.port, "x");
}

/* ---- in a row, or gone: on a slow store ---- */

/* A store behind a proxy, and the item x on sale. */
static void open_slow(struct shop *slow) {
    shop_open_proxied(slow, "20000", "10000");
    shop_put(slow->port, "x", "\"stock\":1000000");
    CHECK_INT(shop_buy(slow->port, "x", "u", 1, "first", NULL), 201);
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
    struct shop slow;
    struct web_conn conn;
    struct web_response response;
    open_slow(&slow);
    CHECK(web_open(&conn, slow.port));
    for (int k = 0; k < 2; k++) {
        proxy_set(slow.proxy, delays_ms[k] ? PROXY_DELAY : PROXY_PASS, delays_ms[k], NULL);
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
    return stock_orders(&count->shop->redis, "x") == count->orders &&
           shop_metric(count->shop->port, "seckill_purchases_waiting") == 0 &&
           shop_metric(count->shop->port, "seckill_http_connections") <= count->connections;
}

/* Who leaves has bought all the same, once his purchase is in flight; and finds it when he comes back. */
static void buyers_who_leave(void) {
    enum { LEAVERS = 60 };
    struct linger at_once = {.l_onoff = 1, .l_linger = 0};
    struct shop slow;
    struct web_response response;
    static struct web_conn conns[LEAVERS];
    open_slow(&slow);
    redis_pause(&slow.redis);
    for (int i = 0; i < LEAVERS; i++)
        shop_buy_begin(&conns[i], slow.port, "x", "leaver", 1, harness_format("leaver-%d", i));
    for (int64_t until_ms = harness_now_ms() + 10000;
         shop_metric(slow.port, "seckill_purchases_waiting") < LEAVERS;)
        CHECK(harness_now_ms() < until_ms);
    for (int i = 0; i < LEAVERS; i++) {
        if (i % 2)
            setsockopt(conns[i].fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
        web_close(&conns[i]);
    }
    redis_resume(&slow.redis);
    struct count count = {&slow, 1 + LEAVERS, 5};
    CHECK(harness_wait(has_settled, &count, 10000));
    for (int i = 0; i < LEAVERS; i++) {
        CHECK_INT(shop_buy(slow.port, "x", "leaver", 1, harness_format("leaver-%d", i), &response), 201);
        CHECK_STR(web_header(&response, "Idempotent-Replayed"), "true");
    }
    CHECK_INT(shop_audit(slow.port, "x", "orders"), 1 + LEAVERS);
    CHECK_INT(seckilld_stop(&slow.service), 0);
}

/* More than --connections wait until there is a place, also behind such as do nothing with theirs. */
static void more_than_connections(void) {
    enum { FLOOD = 100, MAY = 8 };
    static struct web_conn conns[FLOOD];
    struct redis_server redis;
    struct seckilld service;
    redis_start(&redis, NULL);
    seckilld_start_ready(&service, redis.port, "--connections", "8", "--workers", "1", NULL);
    shop_put(service.port, "x", "\"stock\":1000");
    for (int i = 0; i < FLOOD; i++) {
        CHECK(web_open(&conns[i], service.port));
        if (i >= MAY)
            web_send_text(&conns[i], shop_purchase_raw("x", harness_format("u%d", i), 1, "k"));
    }
    CHECK_INT(stock_orders(&redis, "x"), 0);
    for (int i = 0; i < MAY; i++)
        web_close(&conns[i]);
    for (int i = MAY; i < FLOOD; i++) {
        check_bought(&conns[i], harness_format("u%d", i));
        web_close(&conns[i]);
    }
    CHECK_INT(shop_audit(service.port, "x", "orders"), FLOOD - MAY);
}

static void the_end(void) {
    shop_close(&shop);
}

int main(int argc, char **argv) {
    harness_begin(argc, argv);
    if (argc < 2 || strcmp(argv[1], "-l") != 0) {
        shop_open(&shop);
        shop_put(shop.port, "x", "\"stock\":1000000");
    }
    harness_run("garbage", garbage);
    harness_run("10,000 idle connections", ten_thousand_idle);
    harness_run("ten in one write", ten_in_one_write);
    harness_run("buyers who leave", buyers_who_leave);
    harness_run("more than --connections", more_than_connections);
    harness_run("the end", the_end);
    return harness_finish();
}
