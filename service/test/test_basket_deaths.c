/* A service that is killed, or stopped for longer than its locks last, on the way of a basket or transfer. */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#include "service/test/shop.h"

enum { DEATH_MS = 20000, RECOVERY_MS = 30000 };

static struct redis_server redis;
static struct seckilld dying, service;
static const char *lock_url;
static const char *ttl_ms;

static const char *const items[] = {"a", "b", "c"};

static void open_store(void) {
    redis_start(&redis, "--appendfsync", "no", NULL);
    lock_url = harness_format("redis://127.0.0.1:%d", redis.port);
    ttl_ms = "300";
}

static void open_sale(void) {
    CHECK_STR(redis_command(&redis, "FLUSHALL", NULL), "OK");
}

static void put_items(int port) {
    for (int i = 0; i < 3; i++)
        shop_put(port, items[i], "\"stock\":10");
}

/* ---- what is asked ---- */

struct scene {
    const char *name;
    bool transfer;
};

static const struct scene basket = {"a basket", false}, transfer = {"a transfer", true};

static int ask(const struct scene *scene, int port, struct web_response *response) {
    return scene->transfer ? shop_transfer(port, "b", "a", 4, "k", response)
                           : shop_basket(port, "ann", "c:1 a:2 b:3 a:1", "k", response);
}

static long long available(int port, int item) {
    return shop_audit(port, items[item], "available");
}

/* The books balance, and it was done, or it was not. */
static bool check_whole(const struct scene *scene, int port) {
    static const int basket_left[] = {7, 7, 9}, transfer_left[] = {14, 6, 10};
    const int *left = scene->transfer ? transfer_left : basket_left;
    bool done = available(port, 0) != 10;
    for (int i = 0; i < 3; i++) {
        CHECK_INT(available(port, i), done ? left[i] : 10);
        CHECK_INT(shop_audit(port, items[i], "pending"), 0);
        CHECK_INT(shop_audit(port, items[i], "held"), 0);
    }
    CHECK_INT(shop_audit(port, "a", "orders"), done && !scene->transfer ? 2 : 0);
    return done;
}

/* ---- killed ---- */

static bool is_settled(void *arg) {
    (void)arg;
    return redis_integer(&redis, "ZCARD", "seckill:{baskets}:open", NULL) == 0;
}

/* False: it has fewer steps. */
static bool killed_at(const struct scene *scene, int step) {
    int status;
    struct web_response response;
    open_sale();
    seckilld_start_stopping(&dying, harness_format("KILL %d", step), redis.port, "--lock", lock_url,
                            "--lock-ttl", ttl_ms, NULL);
    seckilld_wait_ready(&dying, 200);
    put_items(dying.port);
    int told = ask(scene, dying.port, &response);
    if (told != 0 && !proc_wait(&dying.proc, 100, &status)) {
        seckilld_stop(&dying);
        return false;
    }
    CHECK(told != 0 || proc_wait(&dying.proc, DEATH_MS, &status));
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    seckilld_start(&service, redis.port, "--lock", lock_url, "--lock-ttl", ttl_ms, NULL);
    seckilld_wait_ready(&service, 200);
    /* Either it is finished by itself, or by whoever tries again. */
    if (step % 2) {
        CHECK(harness_wait(is_settled, NULL, RECOVERY_MS));
        check_whole(scene, service.port);
    }
    int again = 503;
    for (int64_t until_ms = harness_now_ms() + RECOVERY_MS; again == 503 && harness_now_ms() < until_ms;)
        again = ask(scene, service.port, &response);
    CHECK_INT(again, scene->transfer ? 200 : 201);
    CHECK(check_whole(scene, service.port));
    if (told != 0)
        CHECK_STR(web_header(&response, "Idempotent-Replayed"), "true");
    CHECK_INT(seckilld_stop(&service), 0);
    return true;
}

static void killed(const struct scene *scene) {
    int steps = 0;
    open_store();
    while (killed_at(scene, steps))
        steps++;
    CHECK(steps > 12);
    printf("     killed at each of %d steps of %s\n", steps, scene->name);
}

static void killed_in_basket(void) {
    killed(&basket);
}

static void killed_in_transfer(void) {
    killed(&transfer);
}

/* ---- stopped ---- */

static bool is_stopped(void *arg) {
    (void)arg;
    return proc_stopped(&dying.proc);
}

/* One of two services is stopped in the middle of a basket for longer than its locks last. Another buyer has
 * what is left meanwhile; then it goes on, and its writes come too late. */
static void stopped_with(const char *lock, const char *ttl) {
    struct web_response response;
    struct web_conn conn;
    redis_start(&redis, "--appendfsync", "no", NULL);
    seckilld_start_stopping(&dying, "STOP before take 1", redis.port, "--lock", lock, "--lock-ttl", ttl,
                            NULL);
    seckilld_start(&service, redis.port, "--lock", lock, "--lock-ttl", ttl, NULL);
    seckilld_wait_ready(&dying, 200);
    seckilld_wait_ready(&service, 200);
    put_items(dying.port);
    CHECK(web_open(&conn, dying.port));
    conn.timeout_ms = 60000;
    const char *body = shop_basket_body("ann", "a:8 b:8 c:8");
    web_send_text(&conn, harness_format("POST /v1/baskets HTTP/1.1\r\nHost: shop\r\nIdempotency-Key: "
                                        "k\r\nContent-Length: %zu\r\n\r\n%s",
                                        strlen(body), body));
    CHECK(harness_wait(is_stopped, NULL, DEATH_MS));
    int other = 503;
    for (int64_t until_ms = harness_now_ms() + RECOVERY_MS; other != 201 && harness_now_ms() < until_ms;)
        other = shop_basket(service.port, "bob", "a:2 b:8 c:8", "other", &response);
    CHECK_INT(other, 201);
    proc_kill(&dying.proc, SIGCONT);
    CHECK_INT(web_read_response(&conn, &response), WEB_OK);
    CHECK_PROBLEM(&response, 503, "overloaded");
    CHECK_HAS(response.body, "the lock was lost");
    CHECK_INT(shop_metric(dying.port, "seckill_baskets_total{outcome=\"stale\"}"), 1);
    CHECK(harness_wait(is_settled, NULL, RECOVERY_MS));
    static const int left[] = {8, 2, 2};
    for (int i = 0; i < 3; i++) {
        CHECK_INT(shop_audit(service.port, items[i], "available"), left[i]);
        CHECK_INT(shop_audit(service.port, items[i], "sold"), 10 - left[i]);
        CHECK_INT(shop_audit(service.port, items[i], "orders"), 1);
    }
    /* The buyer who was overtaken hears the truth. */
    shop_basket(service.port, "ann", "a:8 b:8 c:8", "k", &response);
    CHECK_PROBLEM(&response, 409, "sold-out");
    CHECK_INT(shop_number(&response, "line"), 1);
    web_close(&conn);
    CHECK_INT(seckilld_stop(&service), 0);
    CHECK_INT(seckilld_stop(&dying), 0);
}

static void stopped_redis(void) {
    static struct redis_server locks;
    redis_start(&locks, "--appendfsync", "no", NULL);
    stopped_with(harness_format("redis://127.0.0.1:%d", locks.port), "500");
}

static void stopped_watchdog(void) {
    static struct redis_server locks;
    redis_start(&locks, "--appendfsync", "no", NULL);
    stopped_with(harness_format("redis://127.0.0.1:%d?variant=watchdog", locks.port), "500");
}

static void stopped_etcd(void) {
    static struct etcd_server etcd;
    etcd_start(&etcd, NULL);
    stopped_with(harness_format("etcd://127.0.0.1:%d", etcd.port), "1000");
}

static void stopped_fixed_key(void) {
    static struct etcd_server etcd;
    etcd_start(&etcd, NULL);
    stopped_with(harness_format("etcd://127.0.0.1:%d?variant=fixed-key", etcd.port), "1000");
}

static void stopped_zookeeper(void) {
    static struct zookeeper_server zookeeper;
    zookeeper_start(&zookeeper);
    stopped_with(harness_format("zookeeper://127.0.0.1:%d", zookeeper.port), "1000");
}

int main(int argc, char **argv) {
    harness_begin(argc, argv);
    harness_run("killed at each step of a basket", killed_in_basket);
    harness_run("killed at each step of a transfer", killed_in_transfer);
    harness_run("stopped beyond its locks: redis", stopped_redis);
    harness_run("stopped beyond its locks: redis, watchdog", stopped_watchdog);
    harness_run("stopped beyond its locks: etcd", stopped_etcd);
    harness_run("stopped beyond its locks: etcd, fixed-key", stopped_fixed_key);
    harness_run("stopped beyond its locks: zookeeper", stopped_zookeeper);
    return harness_finish();
}
