/* To confirm, cancel or expire a held basket, and to finish what a dead service left, needs no lock: not its
 * store, not its time to live, not a place in the queue of those who wait for one. */
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#include "service/test/shop.h"
#include "test/harness.h"

enum { SETTLED_MS = 15000, DEATH_MS = 20000 };

static struct redis_server redis, locks;
static struct seckilld service, dying;

static const char *lock_url(const struct redis_server *server) {
    return harness_format("redis://127.0.0.1:%d", server->port);
}

static void put_items(int port, int hold_seconds) {
    shop_put(port, "a", "\"stock\":10");
    shop_put(port, "b", "\"stock\":10");
    shop_put(port, "held", harness_format("\"stock\":10,\"hold_seconds\":%d", hold_seconds));
}

/* Holds one unit of each of the two lines; the basket's id. */
static const char *hold(int port, const char *lines, const char *key, struct web_response *response) {
    CHECK_INT(shop_basket(port, "ann", lines, key, response), 201);
    CHECK_STR(shop_text(response, "state"), "held");
    return shop_text(response, "basket");
}

static void check_step(const char *id, const char *step, int status, const char *what) {
    struct web_response response;
    CHECK_INT(shop_basket_step(service.port, id, step, &response), status);
    if (status == 200)
        CHECK_STR(shop_text(&response, "state"), what);
    else
        CHECK_PROBLEM(&response, status, what);
}

/* ---- a lock store that is dead ---- */

static bool has_expired(void *arg) {
    struct web_response response;
    CHECK_INT(shop_basket_step(service.port, arg, NULL, &response), 200);
    return strcmp(shop_text(&response, "state"), "expired") == 0;
}

static const char *way;

static void without_the_lock_store(void) {
    struct web_response response;
    redis_start(&redis, "--appendfsync", "no", NULL);
    redis_start(&locks, NULL);
    seckilld_start_ready(&service, redis.port, "--lock", lock_url(&locks), "--basket", way, NULL);
    put_items(service.port, 3600);
    shop_put(service.port, "short", "\"stock\":10,\"hold_seconds\":1");
    const char *first = hold(service.port, "a:1 held:1", "k1", &response);
    const char *second = hold(service.port, "a:1 held:1", "k2", &response);
    const char *third = hold(service.port, "a:1 short:1", "k3", &response);
    redis_kill(&locks);
    check_step(first, "confirm", 200, "confirmed");
    check_step(second, "cancel", 200, "cancelled");
    CHECK(harness_wait(has_expired, (void *)third, SETTLED_MS));
    shop_wait_settled(&redis);
    shop_check_left(service.port, "a", 9, 0, 1);
    shop_check_left(service.port, "held", 9, 0, 1);
    shop_check_left(service.port, "short", 10, 0, 0);
    CHECK_INT(seckilld_stop(&service), 0);
}

/* ---- in time ---- */

static bool is_crowded(void *arg) {
    (void)arg;
    return shop_metric(service.port, "seckill_pool_waiting") >= 1;
}

/* More baskets than the pool has threads wait for a lock that nobody gives back. */
static void behind_a_crowd(void) {
    enum { CROWD = 40 };
    static struct web_conn conns[CROWD];
    int status;
    struct web_response basket;
    redis_start(&redis, "--appendfsync", "no", NULL);
    const char *lock = lock_url(&redis);
    seckilld_start_stopping(&dying, "KILL after locks", redis.port, "--lock", lock, "--lock-ttl", "60000",
                            NULL);
    seckilld_start(&service, redis.port, "--lock", lock, "--lock-ttl", "60000", NULL);
    seckilld_wait_ready(&dying, 200);
    seckilld_wait_ready(&service, 200);
    put_items(service.port, 20);
    shop_put(service.port, "other", "\"stock\":10");
    const char *id = hold(service.port, "held:1 other:1", "k", &basket);
    CHECK_INT(shop_basket(dying.port, "bob", "a:1 b:1", "k2", NULL), 0);
    CHECK(proc_wait(&dying.proc, DEATH_MS, &status));
    for (int i = 0; i < CROWD; i++) {
        CHECK(web_open(&conns[i], service.port));
        web_send_text(&conns[i], shop_basket_raw("eve", "a:1 b:1", harness_format("c%d", i)));
    }
    CHECK(harness_wait(is_crowded, NULL, SETTLED_MS));
    check_step(id, "confirm", 200, "confirmed");
    shop_check_left(service.port, "held", 9, 0, 1);
    for (int i = 0; i < CROWD; i++)
        web_close(&conns[i]);
    seckilld_kill(&service);
}

static void send_confirm(struct web_conn *conn, const char *what, const char *id) {
    CHECK(web_open(conn, service.port));
    web_send_text(conn, harness_format("POST /v1/%s/%s/confirm HTTP/1.1\r\nHost: x\r\n"
                                       "Content-Length: 0\r\n\r\n",
                                       what, id));
}

static void check_confirmed(struct web_conn *conn) {
    struct web_response response;
    CHECK_INT(web_read_response(conn, &response), WEB_OK);
    CHECK_INT(response.status, 200);
    CHECK_STR(shop_text(&response, "state"), "confirmed");
    web_close(conn);
}

/* The store stands still from before the confirms until after the holds are over. */
static void counts_from_its_arrival(void) {
    enum { BASKETS = 8, UNITS = BASKETS + 1 };
    struct web_conn by_basket[BASKETS], by_order;
    struct web_response basket, order;
    const char *ids[BASKETS];
    redis_start(&redis, "--appendfsync", "no", NULL);
    seckilld_start_ready(&service, redis.port, "--store-timeout", "30000", NULL);
    put_items(service.port, 3);
    for (int i = 0; i < BASKETS; i++)
        ids[i] = hold(service.port, "a:1 held:1", harness_format("k%d", i), &basket);
    CHECK_INT(shop_buy(service.port, "held", "bob", 1, "bob", &order), 201);
    int64_t over_ms = harness_now_ms() + 3000;
    redis_pause(&redis);
    for (int i = 0; i < BASKETS; i++)
        send_confirm(&by_basket[i], "baskets", ids[i]);
    send_confirm(&by_order, "orders", shop_text(&order, "order"));
    while (harness_now_ms() < over_ms + 1000)
        harness_pause_ms(50);
    redis_resume(&redis);
    for (int i = 0; i < BASKETS; i++)
        check_confirmed(&by_basket[i]);
    check_confirmed(&by_order);
    shop_check_left(service.port, "held", 10 - UNITS, 0, UNITS);
    CHECK_INT(seckilld_stop(&service), 0);
}

int main(int argc, char **argv) {
    harness_begin(argc, argv);
    way = "locked";
    harness_run("in steps: settled without the lock store", without_the_lock_store);
    way = "script";
    harness_run("at once: settled without the lock store", without_the_lock_store);
    harness_run("a confirm waits for nobody who waits for a lock", behind_a_crowd);
    harness_run("a confirm counts from its arrival", counts_from_its_arrival);
    return harness_finish();
}
