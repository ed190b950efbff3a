/* Clients that are broken or many: the right answer or none, and the others are served. */
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
    harness_run("the end", the_end);
    return harness_finish();
}
