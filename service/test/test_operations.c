/* For those who run it: who may do what, what is where, /livez, /readyz and /metrics. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "service/test/shop.h"

/* Every call: method, path, and who may make it. Without --buyer-keys the shop is who has no credentials. */
enum who { ALL, SHOP, ADMIN };
static const struct {
    const char *method, *path;
    enum who who;
} calls[] = {
    {"POST", "/v1/purchases", SHOP},
    {"POST", "/v1/baskets", SHOP},
    {"GET", "/v1/baskets/b", SHOP},
    {"POST", "/v1/baskets/b/confirm", SHOP},
    {"POST", "/v1/baskets/b/cancel", SHOP},
    {"POST", "/v1/transfers", ADMIN},
    {"GET", "/v1/items/i", ALL},
    {"PUT", "/v1/items/i", ADMIN},
    {"POST", "/v1/items/i/restock", ADMIN},
    {"GET", "/v1/items/i/audit", ADMIN},
    {"GET", "/v1/orders/o", SHOP},
    {"POST", "/v1/orders/o/confirm", SHOP},
    {"POST", "/v1/orders/o/cancel", SHOP},
    {"PUT", "/v1/lock", ADMIN},
    {"GET", "/v1/lock", ADMIN},
    {"GET", "/livez", ALL},
    {"GET", "/readyz", ALL},
    {"GET", "/metrics", ALL},
    {"GET", "/openapi.json", ALL},
};
enum { CALLS = sizeof calls / sizeof *calls };

static struct shop shop;

/* Whoever has no credentials is not asked for them at the shop's calls; bad ones are refused at each call
 * that needs some. */
static void calls_need_credentials(void) {
    static const char *const bad[] = {NULL,
                                      "X-Authorization: Bearer test-token\r\n",
                                      "Authorization: test-token\r\n",
                                      "Authorization: Bearer \r\n",
                                      "Authorization: Bearer test-toke\r\n",
                                      "Authorization: Bearer test-tokenx\r\n",
                                      "Authorization: Bearer test-token test-token\r\n",
                                      "Authorization: Bearer\r\n",
                                      "Authorization: Bearer a.b.c\r\n",
                                      (SECKILLD_ADMIN SECKILLD_ADMIN),
                                      "Authorization: Basic dGVzdC10b2tlbg==\r\n"};
    struct web_response response;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        const char *headers = harness_format("%sIdempotency-Key: k\r\n", bad[i] ? bad[i] : "");
        for (int k = 0; k < CALLS; k++) {
            const char *body = strcmp(calls[k].method, "GET") == 0   ? NULL
                               : strcmp(calls[k].method, "PUT") == 0 ? "{\"stock\":1}"
                                                                     : "{\"quantity\":1}";
            int status = web_call(shop.port, calls[k].method, calls[k].path, headers, body, &response);
            bool none = i < 2, refused = calls[k].who == ADMIN || (!none && calls[k].who == SHOP);
            if (status == 0 || (status == 401) != refused)
                FAIL("%s %s with %s: %d", calls[k].method, calls[k].path, headers, status);
            if (!refused)
                continue;
            CHECK_PROBLEM(&response, 401, "unauthorized");
            CHECK_STR(web_header(&response, "WWW-Authenticate"),
                      none ? "Bearer realm=\"seckill\""
                           : "Bearer realm=\"seckill\", error=\"invalid_token\"");
        }
    }
    CHECK_INT(shop_get(shop.port, "/v1/items/i", NULL), 404);
    CHECK_INT(
        web_call(shop.port, "GET", "/v1/items/i/audit", "authorization:bearer test-token\r\n", NULL, NULL),
        404);
}

static void nothing_there(void) {
    static const char paths[] = "/ /v1/ /v1/purchases/ /v1/items /v1/items/i/ /v1/orders// /v2/purchases "
                                "/v1/purchasesx /LIVEZ /livez/ //livez /livez%00 /. /v1/items//audit "
                                "/favicon.ico";
    struct web_response response;
    char *rest = harness_format("%s", paths);
    for (char *path; (path = strsep(&rest, " "));) {
        shop_get(shop.port, path, &response);
        CHECK_PROBLEM(&response, 404, "not-found");
        shop_admin(shop.port, "POST", path, "{}", &response);
        CHECK_PROBLEM(&response, 404, "not-found");
    }
    CHECK_INT(shop_get(shop.port, "/livez?verbose=1", NULL), 200);
    CHECK_INT(shop_get(shop.port, "/livez?", NULL), 200);
    CHECK_INT(shop_get(shop.port, "/%6civez", NULL), 200);
}

static bool allows(const char *path, const char *method) {
    for (int i = 0; i < CALLS; i++)
        if (strcmp(calls[i].path, path) == 0 && strcmp(calls[i].method, method) == 0)
            return true;
    return strcmp(method, "HEAD") == 0 && allows(path, "GET");
}

static void wrong_methods(void) {
    static const char *const methods[] = {"GET", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "BREW", "get"};
    struct web_response response;
    for (int i = 0; i < CALLS; i++) {
        for (size_t k = 0; k < sizeof methods / sizeof *methods; k++) {
            if (allows(calls[i].path, methods[k]))
                continue;
            shop_admin(shop.port, methods[k], calls[i].path, k ? "{}" : NULL, &response);
            CHECK_PROBLEM(&response, 405, "method-not-allowed");
            const char *allow = web_header(&response, "Allow");
            CHECK(allow != NULL);
            for (size_t m = 0; m < sizeof methods / sizeof *methods; m++)
                CHECK((strstr(allow, methods[m]) != NULL) == allows(calls[i].path, methods[m]));
            CHECK((strstr(allow, "HEAD") != NULL) == allows(calls[i].path, "HEAD"));
        }
    }
}

/* HEAD is GET without the body, and leaves the connection in step. */
static void head(void) {
    struct web_conn conn;
    struct web_response got, headed;
    static const char *const paths[] = {"/livez", "/openapi.json", "/v1/items/none", "/v1/orders/none",
                                        "/none"};
    CHECK(web_open(&conn, shop.port));
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
        CHECK_INT(web_request(&conn, "GET", paths[i], NULL, NULL, &got), WEB_OK);
        CHECK_INT(web_request(&conn, "HEAD", paths[i], NULL, NULL, &headed), WEB_OK);
        CHECK_INT(headed.status, got.status);
        CHECK_STR(web_header(&headed, "Content-Type"), web_header(&got, "Content-Type"));
        CHECK_STR(web_header(&headed, "Content-Length"), harness_format("%zu", got.len));
        CHECK_STR(web_header(&got, "Cache-Control"), "no-store");
        CHECK_STR(web_header(&headed, "Cache-Control"), "no-store");
    }
    CHECK_INT(conn.held, 0);
    web_close(&conn);
    CHECK_INT(web_call(shop.port, "HEAD", "/v1/items/i/audit", NULL, NULL, NULL), 401);
}

/* ---- health ---- */

struct promise {
    int port;
    const char *appendonly, *appendfsync, *loses;
    struct web_response response;
};

static bool promises(void *arg) {
    struct promise *promise = arg;
    struct web_response *response = &promise->response;
    return shop_get(promise->port, "/readyz", response) == 200 &&
           strcmp(shop_text(response, "durability.appendonly"), promise->appendonly) == 0 &&
           strcmp(shop_text(response, "durability.appendfsync"), promise->appendfsync) == 0;
}

/* It may be a second old. */
static void check_ready(int port, const char *appendonly, const char *appendfsync) {
    struct promise promise = {.port = port, .appendonly = appendonly, .appendfsync = appendfsync};
    if (!harness_wait(promises, &promise, 10000))
        FAIL("/readyz says %s", promise.response.body);
    CHECK_STR(web_header(&promise.response, "Content-Type"), "application/json");
    CHECK_HAS(promise.response.body, "\"ready\":true");
    CHECK_STR(shop_text(&promise.response, "store_role"), "master");
}

/* /readyz names each master, and what its death loses. */
static bool tells_loss(void *arg) {
    const struct promise *promise = arg;
    struct web_response response;
    return shop_get(promise->port, "/readyz", &response) == 200 && strstr(response.body, promise->loses);
}

static void check_loss(int port, const char *loses) {
    struct promise promise = {.port = port, .loses = loses};
    CHECK(harness_wait(tells_loss, &promise, 20000));
}

static void what_a_death_loses(void) {
    struct redis_server redis, replica;
    struct seckilld one, sure;
    struct web_response response;
    redis_start(&redis, NULL);
    seckilld_start(&one, redis.port, NULL);
    check_loss(one.port, harness_format("{\"server\":\"127.0.0.1:%d\",\"replicas\":0,", redis.port));
    check_loss(one.port, "no replica follows it");
    seckilld_start(&sure, redis.port, "--replicas", "1", NULL);
    const char *lack =
        harness_format("127.0.0.1:%d has 0 of the 1 replicas that --replicas 1 needs", redis.port);
    shop_wait_unready(sure.port, lack);
    CHECK_INT(shop_buy(sure.port, "phone", "ann", 1, "k", &response), 503);
    redis_start_replica(&replica, &redis);
    seckilld_wait_ready(&sure, 200);
    /* Also while nobody buys, and once somebody has tried. */
    redis_kill(&replica);
    shop_wait_unready(sure.port, lack);
    shop_buy(sure.port, "phone", "ann", 1, "k2", &response);
    CHECK_PROBLEM(&response, 503, "store-unavailable");
    shop_wait_unready(sure.port, lack);
    CHECK_INT(shop_get(one.port, "/readyz", NULL), 200);
    redis_restart(&replica);
    seckilld_wait_ready(&sure, 200);
    check_loss(one.port, "what its replicas have not got yet");
    check_loss(sure.port, "\"replicas\":1,\"servers\":[{");
    check_loss(sure.port, "\"replicas\":1,\"proven\":1,");
    check_loss(one.port, "\"replicas\":1,\"proven\":0,");
    check_loss(sure.port, "\"its_death_loses\":\"nothing that was acknowledged\"");
}

static void what_the_store_promises(void) {
    check_ready(shop.port, "yes", "no");
    CHECK_STR(redis_command(&shop.redis, "CONFIG", "SET", "appendfsync", "everysec", NULL), "OK");
    check_ready(shop.port, "yes", "everysec");
    CHECK_STR(redis_command(&shop.redis, "CONFIG", "SET", "appendonly", "no", NULL), "OK");
    check_ready(shop.port, "no", "everysec");
    /* A store that does not say sells all the same. */
    struct redis_server redis;
    struct seckilld service;
    redis_start(&redis, "--rename-command", "CONFIG", "", NULL);
    seckilld_start_ready(&service, redis.port, NULL);
    check_ready(service.port, "yes", "unknown");
    shop_put(service.port, "i", "\"stock\":1");
}

/* How often the store was asked for what it promises. */
static int times_asked(const struct redis_server *redis) {
    const char *name = "cmdstat_config|get:calls=";
    const char *at = strstr(redis_command(redis, "INFO", "commandstats", NULL), name);
    return at ? (int)strtol(at + strlen(name), NULL, 10) : 0;
}

/* The health once, and each inventory, which asks for itself when it begins and every five seconds. */
static bool all_have_asked(void *redis) {
    return times_asked(redis) >= 1 + 2;
}

/* Whoever asks, and however many: the store is asked once a second, and by one call at a time. */
static void many_ask(void) {
    enum { CLIENTS = 30 };
    struct web_conn conns[CLIENTS];
    struct web_response response;
    struct redis_server redis;
    struct seckilld service;
    redis_start(&redis, NULL);
    seckilld_start_ready(&service, redis.port, "--workers", "1", NULL);
    CHECK(harness_wait(all_have_asked, &redis, 5000));
    for (int i = 0; i < CLIENTS; i++)
        CHECK(web_open(&conns[i], service.port));
    int before = times_asked(&redis);
    int64_t from_ms = harness_now_ms();
    for (int i = 0; i < 20 * CLIENTS; i++) {
        CHECK_INT(web_request(&conns[i % CLIENTS], "GET", "/readyz", NULL, NULL, &response), WEB_OK);
        CHECK_INT(response.status, 200);
    }
    CHECK(times_asked(&redis) - before <= 1 + (harness_now_ms() - from_ms) / 1000);

    harness_pause_ms(1100); /* what was asked is too old by now */
    redis_pause(&redis);
    for (int i = 0; i < CLIENTS; i++)
        web_send_text(&conns[i], "GET /readyz HTTP/1.1\r\nHost: x\r\n\r\n");
    harness_pause_ms(100);
    redis_resume(&redis);
    before = times_asked(&redis);
    for (int i = 0; i < CLIENTS; i++) {
        shop_check_answer(&conns[i], 200, NULL);
    }
    CHECK(times_asked(&redis) - before <= 2);
}

struct words {
    const struct seckilld *service;
    const char *text;
};

/* The store is looked at when somebody asks. */
static bool logged(void *arg) {
    const struct words *words = arg;
    shop_get(words->service->port, "/readyz", NULL);
    return strstr(proc_output(&words->service->proc), words->text);
}

static void check_logs(const struct seckilld *service, const char *text) {
    struct words words = {service, text};
    if (!harness_wait(logged, &words, 10000))
        FAIL("the log says nothing of \"%s\": %s", text, proc_output(&service->proc));
}

/* Whoever is woken at night reads the log first. */
static void the_log_tells_of_the_store(void) {
    struct redis_server redis;
    struct seckilld service;
    int nowhere = harness_free_port();
    seckilld_start(&service, 1, "--redis", harness_format("redis://u:hunter2@127.0.0.1:%d", nowhere), NULL);
    check_logs(
        &service,
        harness_format("error the store redis://127.0.0.1:%d/0 is not there: Connection refused", nowhere));
    CHECK(!strstr(proc_output(&service.proc), "hunter2"));
    redis_start(&redis, NULL);
    seckilld_start_ready(&service, redis.port, NULL);
    redis_kill(&redis);
    check_logs(&service, harness_format("error the store redis://127.0.0.1:%d/0 is gone: ", redis.port));
    CHECK_HAS(proc_output(&service.proc),
              harness_format("info  the store redis://127.0.0.1:%d/0 is there\n", redis.port));
    CHECK(!strstr(proc_output(&service.proc), "append-only"));
}

/* Once, when it is so at the start, and when it changes. */
static void the_log_warns_of_the_store(void) {
    struct redis_server redis;
    struct seckilld service;
    redis_start(&redis, "--appendonly", "no", "--maxmemory", "1gb", "--maxmemory-policy", "allkeys-lru",
                NULL);
    seckilld_start(&service, redis.port, NULL);
    check_logs(&service, "error the store keeps no append-only file (appendonly no)");
    check_logs(&service, "error the store may evict orders");
    shop_wait_unready(service.port, "evict");
    CHECK_STR(redis_command(&redis, "CONFIG", "SET", "maxmemory-policy", "noeviction", NULL), "OK");
    check_logs(&service, "info  the store is ready again");
    CHECK_STR(redis_command(&redis, "CONFIG", "SET", "appendonly", "yes", NULL), "OK");
    check_logs(&service, "info  the store keeps an append-only file now");
    const char *first = strstr(proc_output(&service.proc), "(appendonly no)");
    CHECK(!strstr(first + 1, "(appendonly no)"));
}

/* ---- metrics ---- */

static bool is_name(const char *text, size_t length) {
    return length > 8 && strncmp(text, "seckill_", 8) == 0 &&
           strspn(text, "abcdefghijklmnopqrstuvwxyz_") == length;
}

/* One family: HELP, TYPE, samples; returns the line after it. */
static const char *check_family(const char *at) {
    char name[128], again[128], type[32], help[256];
    int length = 0;
    CHECK(sscanf(at, "# HELP %127s %255[^\n]\n%n", name, help, &length) == 2 && length > 0);
    CHECK(is_name(name, strlen(name)));
    at += length;
    length = 0;
    CHECK(sscanf(at, "# TYPE %127s %31s\n%n", again, type, &length) == 2 && length > 0);
    CHECK_STR(again, name);
    CHECK_HAS("counter gauge histogram", type);
    CHECK((strcmp(type, "counter") == 0) ==
          (strlen(name) > 6 && strcmp(name + strlen(name) - 6, "_total") == 0));
    int samples = 0;
    for (at += length; *at && *at != '#'; samples++) {
        CHECK(strncmp(at, name, strlen(name)) == 0);
        size_t named = strcspn(at, "{ ");
        const char *suffix = harness_format("%.*s", (int)(named - strlen(name)), at + strlen(name));
        CHECK(*suffix == '\0' || (strcmp(type, "histogram") == 0 && strstr("_bucket_sum_count", suffix)));
        at += named;
        if (*at == '{')
            at = strchr(at, '}') + 1;
        char *end;
        CHECK(*at == ' ' && strtod(at + 1, &end) >= 0 && *end == '\n');
        at = end + 1;
    }
    CHECK(samples > 0);
    return at;
}

static void metrics(void) {
    struct seckilld service;
    struct web_response response;
    seckilld_start_ready(&service, shop.redis.port, "--workers", "3", NULL);
    shop_put(service.port, "m", "\"stock\":3,\"per_user_limit\":2");
    double refused = shop_metric(service.port, "seckill_http_responses_total{class=\"5xx\"}");
    double answers = shop_metric(service.port, "seckill_http_responses_total{class=\"2xx\"}");
    for (int i = 0; i < 6; i++)
        shop_buy(service.port, "m", "u", 1, harness_format("k%d", i % 3), NULL); /* 2 sold, 1 over, twice */
    CHECK_INT(shop_buy(service.port, "m", "v", 1, "v", NULL), 201);
    for (int i = 0; i < 5; i++)
        CHECK_INT(shop_buy(service.port, "m", "w", 1, "w", NULL), 409);
    CHECK_INT(shop_buy(service.port, "m", "v", 2, "v", NULL), 422);
    CHECK_INT(shop_buy(service.port, "none", "x", 1, "v", NULL), 404);
    static const struct {
        const char *outcome;
        int count;
    } want[] = {{"sold", 3},        {"replayed", 2},   {"purchase_limit", 2},
                {"sold_out", 5},    {"key_reused", 1}, {"unknown_item", 1},
                {"unavailable", 0}, {"unknown", 0},    {"stale", 0}};
    for (size_t i = 0; i < sizeof want / sizeof *want; i++)
        CHECK_INT(shop_metric(service.port,
                              harness_format("seckill_purchases_total{outcome=\"%s\"}", want[i].outcome)),
                  want[i].count);
    CHECK_INT(shop_metric(service.port, "seckill_purchase_seconds_count{outcome=\"sold\"}"), 5);
    CHECK_INT(shop_metric(service.port, "seckill_purchase_seconds_bucket{outcome=\"rejected\",le=\"+Inf\"}"),
              9);
    CHECK_INT(shop_metric(service.port, "seckill_purchases_waiting"), 0);
    CHECK(shop_metric(service.port, "seckill_store_connects_total") >= 3);
    /* 5 purchases, and each /metrics up to this one. */
    CHECK_INT(shop_metric(service.port, "seckill_http_responses_total{class=\"2xx\"}"), answers + 5 + 14);
    CHECK_INT(shop_metric(service.port, "seckill_http_responses_total{class=\"5xx\"}"), refused);
    CHECK_INT(shop_get(service.port, "/metrics", &response), 200);
    CHECK_HAS(web_header(&response, "Content-Type"), "text/plain; version=0.0.4");
    int families = 0;
    for (const char *at = response.body; *at; families++)
        at = check_family(at);
    CHECK(families > 10);
}

/* The item's terms, which the answer tells, take a second call. */
static void a_refusal_is_timed_until_its_answer(void) {
    enum { DELAY_MS = 200 };
    struct seckilld service;
    struct proxy *proxy = proxy_start(shop.redis.port);
    seckilld_start_ready(&service, proxy_port(proxy), "--workers", "1", NULL);
    shop_put(service.port, "timed", "\"stock\":3,\"per_user_limit\":1");
    CHECK_INT(shop_buy(service.port, "timed", "u", 1, "k", NULL), 201);
    proxy_set(proxy, PROXY_DELAY, DELAY_MS, NULL);
    CHECK_INT(shop_buy(service.port, "timed", "u", 1, "k2", NULL), 409);
    CHECK(shop_metric(service.port, "seckill_purchase_seconds_sum{outcome=\"rejected\"}") >=
          1.5 * DELAY_MS / 1000);
    CHECK_INT(shop_metric(service.port, "seckill_purchase_seconds_count{outcome=\"rejected\"}"), 1);
    CHECK_INT(shop_metric(service.port, "seckill_purchases_total{outcome=\"purchase_limit\"}"), 1);
    CHECK_INT(seckilld_stop(&service), 0);
}

/* Workers come up one after the other, while those that are there already answer. */
static void metrics_from_the_first_moment(void) {
    for (int round = 0; round < 3; round++) {
        struct proc proc;
        int port = harness_free_port(), status, answers = 0;
        const char *argv[] = {harness_format("%s/seckilld", harness_build()),
                              "--workers",
                              "100",
                              "--listen",
                              harness_format("127.0.0.1:%d", port),
                              "--redis",
                              harness_format("redis://127.0.0.1:%d", shop.redis.port),
                              NULL};
        proc_spawn(&proc, argv, NULL, harness_format("%s/early-%d.log", harness_dir(), round));
        for (int64_t until_ms = harness_now_ms() + 10000; answers < 200 && harness_now_ms() < until_ms;) {
            answers += shop_get(port, "/metrics", NULL) == 200;
            CHECK(proc_running(&proc));
        }
        CHECK_INT(answers, 200);
        proc_kill(&proc, SIGTERM);
        CHECK(proc_wait(&proc, 15000, &status));
        CHECK_INT(status, 0);
    }
}

static void the_end(void) {
    shop_close(&shop);
}

int main(int argc, char **argv) {
    harness_begin(argc, argv);
    if (argc < 2 || strcmp(argv[1], "-l") != 0)
        shop_open(&shop);
    harness_run("calls need credentials", calls_need_credentials);
    harness_run("not found", nothing_there);
    harness_run("wrong methods", wrong_methods);
    harness_run("HEAD", head);
    harness_run("what the store promises", what_the_store_promises);
    harness_run("what a death loses", what_a_death_loses);
    harness_run("the log tells of the store", the_log_tells_of_the_store);
    harness_run("the log warns of a store that keeps nothing", the_log_warns_of_the_store);
    harness_run("many ask whether it is ready", many_ask);
    harness_run("metrics", metrics);
    harness_run("a refusal is timed until its answer", a_refusal_is_timed_until_its_answer);
    harness_run("metrics from the first moment", metrics_from_the_first_moment);
    harness_run("the end", the_end);
    return harness_finish();
}
