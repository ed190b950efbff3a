/* A service that is killed at each step of a basket or transfer, and what is left of that. */
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
static double undone, undone_seconds; /* what was undone by others, and how long its units were gone */

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
    undone += shop_metric(service.port, "seckill_basket_phantom_seconds_count{outcome=\"undone\"}");
    undone_seconds += shop_metric(service.port, "seckill_basket_phantom_seconds_sum{outcome=\"undone\"}");
    CHECK_INT(seckilld_stop(&service), 0);
    return true;
}

static void killed(const struct scene *scene) {
    int steps = 0;
    undone = undone_seconds = 0;
    open_store();
    while (killed_at(scene, steps))
        steps++;
    CHECK(steps > 12);
    printf("     killed at each of %d steps of %s; %.0f were undone, their units back after %.2f s\n", steps,
           scene->name, undone, undone_seconds / undone);
    CHECK(undone >= 1);
}

static void killed_in_basket(void) {
    killed(&basket);
}

static void killed_in_transfer(void) {
    killed(&transfer);
}

/* ---- what is left behind locks that nobody gives back ---- */

static double waiting(void) {
    return shop_metric(service.port, "seckill_lock_waiting");
}

static bool waits(void *arg) {
    (void)arg;
    return waiting() == 1;
}

static bool has_expired(void *arg) {
    struct web_response response;
    CHECK_INT(shop_basket_step(service.port, arg, NULL, &response), 200);
    return strcmp(shop_text(&response, "state"), "expired") == 0;
}

/* One of two services dies with a basket half made. */
static void leave_half_made(const char *lock, const char *lock_ttl_ms) {
    int status;
    seckilld_start_stopping(&dying, "KILL before take 1", redis.port, "--lock", lock, "--lock-ttl",
                            lock_ttl_ms, NULL);
    seckilld_start(&service, redis.port, "--lock", lock, "--lock-ttl", lock_ttl_ms, NULL);
    seckilld_wait_ready(&dying, 200);
    seckilld_wait_ready(&service, 200);
    put_items(service.port);
    CHECK_INT(shop_basket(dying.port, "ann", "a:1 b:1", "k", NULL), 0);
    CHECK(proc_wait(&dying.proc, DEATH_MS, &status));
}

/* While that is waited for, other things are finished. */
static void others_are_finished(void) {
    struct web_response response;
    open_store();
    leave_half_made(harness_format("%s?ttl=30000", lock_url), "4000");
    shop_put(service.port, "held", "\"stock\":10,\"hold_seconds\":1");
    CHECK(harness_wait(waits, NULL, RECOVERY_MS));
    CHECK_INT(shop_basket(service.port, "bob", "held:1 c:1", "k2", &response), 201);
    CHECK(harness_wait(has_expired, (void *)shop_text(&response, "basket"), RECOVERY_MS));
    CHECK_INT(waiting(), 1);
    seckilld_kill(&service);
}

static bool has_tried(void *arg) {
    (void)arg;
    return shop_metric(service.port, "seckill_recovered_total{outcome=\"tried\"}") >= 1;
}

/* Who cannot get at the locks' store leaves what else there is to others: after it has tried once. */
static void it_leaves_the_rest_to_others(void) {
    static struct redis_server locks;
    open_store();
    redis_start(&locks, "--appendfsync", "no", NULL);
    leave_half_made(harness_format("redis://127.0.0.1:%d", locks.port), "1000");
    redis_kill(&locks);
    CHECK(harness_wait(has_tried, NULL, RECOVERY_MS));
    CHECK_INT(redis_integer(&redis, "ZADD", "seckill:{baskets}:open", "1", "b:another", NULL), 1);
    harness_pause_ms(700);
    CHECK_INT(redis_integer(&redis, "ZCARD", "seckill:{baskets}:open", NULL), 2);
    redis_restart(&locks);
    CHECK(harness_wait(is_settled, NULL, RECOVERY_MS));
    CHECK(!check_whole(&basket, service.port));
    CHECK_INT(seckilld_stop(&service), 0);
}

int main(int argc, char **argv) {
    harness_begin(argc, argv);
    harness_run("killed at each step of a basket", killed_in_basket);
    harness_run("killed at each step of a transfer", killed_in_transfer);
    harness_run("what waits for a lock holds up nothing else", others_are_finished);
    harness_run("without its locks' store it leaves the rest to others", it_leaves_the_rest_to_others);
    return harness_finish();
}
