/* Locks whose store cannot be reached: they are not switched to, and one that is in force is told to be so.
 */
#include <stdio.h>
#include <string.h>

#include "service/test/shop.h"

enum { PATIENCE_MS = 20000 };

static struct redis_server redis, locks; /* the store, and one for locks alone */
static struct seckilld service;

static const char *lock_url(void) {
    return harness_format("redis://:hunter2@127.0.0.1:%d?ttl=5000", locks.port);
}

static const char *said(void) {
    return proc_output(&service.proc);
}

static int count(const char *piece) {
    int n = 0;
    for (const char *at = said(); (at = strstr(at, piece)); at += strlen(piece))
        n++;
    return n;
}

static void open_service(const char *lock, const char *basket, const char *teaching) {
    redis_start(&redis, "--appendfsync", "no", NULL);
    seckilld_start_ready(&service, redis.port, "--lock", lock, "--basket", basket, teaching, NULL);
    shop_put(service.port, "a", "\"stock\":100");
    shop_put(service.port, "b", "\"stock\":100");
}

static int put_lock(const char *url, struct web_response *response) {
    return shop_admin(service.port, "PUT", "/v1/lock", harness_format("{\"lock\":\"%s\"}", url), response);
}

static void get_lock(struct web_response *response) {
    CHECK_INT(shop_admin(service.port, "GET", "/v1/lock", NULL, response), 200);
}

static bool is_told(void *arg) {
    struct web_response response;
    get_lock(&response);
    return strstr(response.body, arg);
}

/* Waits until GET /v1/lock says so. */
static void wait_told(const char *what) {
    if (!harness_wait(is_told, harness_format("\"reachable\":%s", what), PATIENCE_MS))
        FAIL("it is not told to be reachable: %s", what);
}

/* Purchases are sold; what needs the lock is refused, and all who ask are told. */
static void check_unreachable(const char *key, const char *baskets, const char *why) {
    struct web_response response;
    get_lock(&response);
    CHECK_HAS(shop_text(&response, "problem"), why);
    CHECK_INT(shop_get(service.port, "/readyz", &response), 200);
    CHECK_HAS(shop_text(&response, "baskets"), baskets);
    CHECK_HAS(shop_text(&response, "transfers"), harness_format("unavailable: %s", why));
    double refused = shop_metric(service.port, "seckill_transfers_total{outcome=\"lock_unavailable\"}");
    shop_transfer(service.port, "a", "b", 1, key, &response);
    CHECK_PROBLEM(&response, 503, "lock-unavailable");
    CHECK_STR(shop_text(&response, "title"), "Lock unavailable");
    CHECK_INT(shop_metric(service.port, "seckill_transfers_total{outcome=\"lock_unavailable\"}"),
              refused + 1);
    CHECK_INT(shop_metric(service.port, "seckill_transfers_total{outcome=\"overloaded\"}"), 0);
    CHECK_INT(shop_metric(service.port, "seckill_lock_reachable"), 0);
    CHECK_INT(shop_buy(service.port, "a", "u", 1, key, NULL), 201);
}

static void check_reachable(const char *key) {
    struct web_response response;
    CHECK_INT(shop_get(service.port, "/readyz", &response), 200);
    CHECK_STR(shop_text(&response, "baskets"), "ok");
    CHECK_STR(shop_text(&response, "transfers"), "ok");
    CHECK_INT(shop_metric(service.port, "seckill_lock_reachable"), 1);
    CHECK_INT(shop_basket(service.port, "u", "a:1 b:1", key, NULL), 201);
}

/* What in force is stays. */
static void not_switched_to(void) {
    struct web_response response;
    open_service("local:", "locked", NULL);
    wait_told("true");
    int port = harness_free_port();
    static const char *const schemes[] = {"redis", "etcd", "etcd", "zookeeper", "redlock"};
    const char *nobody = harness_format("127.0.0.1:%d", port);
    for (size_t i = 0; i < sizeof schemes / sizeof *schemes; i++) {
        put_lock(harness_format("%s://%s%s", schemes[i], nobody, i == 2 ? "?variant=fixed-key" : ""),
                 &response);
        CHECK_PROBLEM(&response, 503, "lock-unavailable");
        CHECK_HAS(shop_text(&response, "detail"), nobody);
        CHECK_HAS(shop_text(&response, "detail"), "the one in force stays");
        if (i == 0 || i == 4) /* the others' libraries have words of their own */
            CHECK_HAS(shop_text(&response, "detail"), "refused");
    }
    redis_start(&locks, "--requirepass", "hunter2", NULL);
    put_lock(harness_format("redis://:wr0ng@127.0.0.1:%d", locks.port), &response);
    CHECK_PROBLEM(&response, 503, "lock-unavailable");
    CHECK_HAS(shop_text(&response, "detail"), "password");
    CHECK(!strstr(response.body, "wr0ng"));
    get_lock(&response);
    CHECK_STR(shop_text(&response, "lock"), "local:");
    CHECK_STR(shop_text(&response, "state"), "in-force");
    CHECK_INT(shop_number(&response, "epoch"), 1);
    check_reachable("k");
    CHECK_INT(put_lock(lock_url(), &response), 200);
    CHECK_INT(shop_number(&response, "epoch"), 2);
    wait_told("true");
    check_reachable("k2");
    CHECK(!strstr(said(), "cannot be reached"));
}

/* It starts and says so, and is as it should be once the store is there. */
static void dead_at_the_start(void) {
    struct web_response response;
    redis_start(&locks, "--requirepass", "hunter2", NULL);
    redis_kill(&locks);
    open_service(lock_url(), "locked", NULL);
    wait_told("false");
    get_lock(&response);
    CHECK_STR(shop_text(&response, "lock"), harness_format("redis://127.0.0.1:%d?ttl=5000", locks.port));
    const char *why = harness_format("127.0.0.1:%d: Connection refused", locks.port);
    check_unreachable("k", harness_format("unavailable: %s", why), why);
    redis_restart(&locks);
    wait_told("true");
    check_reachable("k2");
    CHECK_HAS(said(), harness_format("warn  the lock redis://127.0.0.1:%d?ttl=5000 cannot be reached: %s;",
                                     locks.port, why));
    CHECK_INT(count("cannot be reached"), 1);
    CHECK_INT(count("can be reached again"), 1);
    CHECK(!strstr(said(), "hunter2"));
    CHECK_INT(seckilld_stop(&service), 0);
}

/* After a call that fails the lock is tried at once; without any call it is tried now and then. Baskets that
 * are made by one script need no lock. */
static void dead_while_it_runs(void) {
    struct web_response response;
    redis_start(&locks, "--requirepass", "hunter2", NULL);
    open_service(lock_url(), "script", "--teaching");
    shop_put(service.port, "lesson", "\"stock\":10,\"strategy\":\"locked\"");
    wait_told("true");
    redis_kill(&locks);
    const char *why = harness_format("127.0.0.1:%d: Connection refused", locks.port);
    shop_transfer(service.port, "a", "b", 1, "k", &response);
    CHECK_PROBLEM(&response, 503, "lock-unavailable");
    wait_told("false");
    check_unreachable("k1", "ok", why);
    CHECK_INT(shop_basket(service.port, "u", "a:1 b:1", "k2", NULL), 201);
    shop_buy(service.port, "lesson", "u", 1, "k3", &response); /* strategy locked */
    CHECK_PROBLEM(&response, 503, "lock-unavailable");
    CHECK_INT(shop_metric(service.port, "seckill_purchases_total{outcome=\"lock_unavailable\"}"), 1);
    redis_restart(&locks);
    wait_told("true");
    CHECK_INT(shop_buy(service.port, "lesson", "u", 1, "k3", NULL), 201);
    CHECK_INT(shop_transfer(service.port, "a", "b", 1, "k", NULL), 200);
    redis_kill(&locks);
    wait_told("false");
    CHECK_INT(count("cannot be reached"), 2);
    CHECK_INT(count("can be reached again"), 1);
    CHECK_INT(seckilld_stop(&service), 0);
}

/* Nobody says that all is well while the first try of it has no answer. */
static bool is_untried_or_gone(void *arg) {
    struct web_response response;
    (void)arg;
    get_lock(&response);
    CHECK(!strstr(response.body, "\"reachable\":true"));
    bool gone = strstr(response.body, "\"reachable\":false");
    CHECK_INT(shop_get(service.port, "/readyz", &response), 200);
    CHECK(strcmp(shop_text(&response, "baskets"), "ok") != 0);
    CHECK(strcmp(shop_text(&response, "transfers"), "ok") != 0);
    return gone;
}

/* A store that does not answer holds up each call for seconds; once that is known, a call is refused at once.
 */
static void does_not_answer(void) {
    enum { AT_ONCE_MS = 1000 };
    struct web_response response;
    redis_start(&locks, "--requirepass", "hunter2", NULL);
    redis_pause(&locks);
    open_service(lock_url(), "locked", NULL);
    CHECK(harness_wait(is_untried_or_gone, NULL, PATIENCE_MS));
    for (int i = 0; i < 5; i++) {
        int64_t since_ms = harness_now_ms();
        shop_transfer(service.port, "a", "b", 1, "k", &response);
        CHECK_PROBLEM(&response, 503, "lock-unavailable");
        CHECK(harness_now_ms() - since_ms < AT_ONCE_MS);
    }
    redis_resume(&locks);
    wait_told("true");
    check_reachable("k");
    CHECK_INT(seckilld_stop(&service), 0);
}

/* ---- a Redis Cluster ---- */

static bool has_tried_another(void *arg) {
    return redis_integer(arg, "EXISTS", "lock:{seckilld:probe:1}:fence", NULL) == 1;
}

static void check_partly(struct seckilld *instance, const char *key) {
    struct web_response response;
    shop_basket(instance->port, "u", "a:1 b:1", key, &response);
    CHECK_PROBLEM(&response, 503, "lock-unavailable");
    CHECK_INT(shop_basket(instance->port, "u", "b:1 c:1", key, NULL), 201);
    CHECK_INT(shop_transfer(instance->port, "c", "b", 1, key, NULL), 200);
}

/* A master without a replica is gone, and with it the locks of some items. The others are sold, also by an
 * instance that starts then. */
static void master_gone(void) {
    struct redis_cluster cluster;
    struct seckilld second;
    redis_cluster_start(&cluster, 3, 0);
    const char *url = harness_format("%s?ttl=5000", redis_cluster_url(&cluster));
    open_service(url, "locked", NULL);
    shop_put(service.port, "c", "\"stock\":100");
    wait_told("true");
    check_reachable("k");
    struct redis_server *gone = redis_cluster_of(&cluster, "lock:{seckilld:probe}");
    CHECK(gone == &cluster.server[2] && gone == redis_cluster_of(&cluster, "lock:{seckill:a}"));
    CHECK(gone != redis_cluster_of(&cluster, "lock:{seckill:b}") &&
          gone != redis_cluster_of(&cluster, "lock:{seckill:c}"));
    redis_kill(gone);
    check_partly(&service, "k1");
    CHECK(harness_wait(has_tried_another, &cluster.server[1], PATIENCE_MS));
    check_partly(&service, "k2");
    wait_told("true");
    seckilld_start_ready(&second, redis.port, "--lock", url, "--basket", "locked", NULL);
    CHECK_INT(seckilld_stop(&service), 0);
    service = second;
    wait_told("true");
    check_partly(&service, "k3");
    CHECK_INT(shop_metric(service.port, "seckill_lock_reachable"), 1);
    CHECK(!strstr(said(), "cannot be reached"));
    CHECK_INT(seckilld_stop(&service), 0);
}

int main(int argc, char **argv) {
    harness_begin(argc, argv);
    harness_run("a lock that cannot be had is not switched to", not_switched_to);
    harness_run("dead at the start", dead_at_the_start);
    harness_run("dead while it runs", dead_while_it_runs);
    harness_run("does not answer", does_not_answer);
    harness_run("a master of a cluster is gone", master_gone);
    return harness_finish();
}
