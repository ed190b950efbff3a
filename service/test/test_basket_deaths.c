/* A service that is killed at each step of a basket or transfer, and what is left of that. */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#include "service/test/shop.h"
#include "test/harness.h"

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
    return journal_open(&redis) == 0;
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
    if (told != 0 && !proc_wait(&dying.proc, 1000, &status)) {
        seckilld_stop(&dying);
        return false;
    }
    CHECK(told != 0 || proc_wait(&dying.proc, DEATH_MS, &status));
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    seckilld_start(&service, redis.port, "--lock", lock_url, "--lock-ttl", ttl_ms, NULL);
    seckilld_wait_ready(&service, 200);
    /* Recovery finishes it, or a retry does. */
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
    undone += shop_metric(service.port, "seckill_basket_phantom_seconds_count{outcome=\"aborted\"}");
    undone_seconds += shop_metric(service.port, "seckill_basket_phantom_seconds_sum{outcome=\"aborted\"}");
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

int main(int argc, char **argv) {
    harness_begin(argc, argv);
    harness_run("killed at each step of a basket", killed_in_basket);
    harness_run("killed at each step of a transfer", killed_in_transfer);
    return harness_finish();
}
