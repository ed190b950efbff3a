/* Strategies under a crowd of buyers: those that are right sell what there is, those that teach do teach; and
 * `locked` under locks in a Redis and in etcd: work that outlives the lock, and waiting. (What each strategy
 * sells is tested in inventory/test/test_race.c; services that are stopped, in test_basket_pauses.c and
 * test_lock_switch.c.) */
#include <string.h>

#include "service/test/crowd.h"
#include "service/test/shop.h"

enum { STOCK = 40, BUYERS = 5000, THREADS = 64, TRIES = 5 };

static struct redis_server redis;
static struct seckilld services[2];

/* A store, one service on it or two, and an item of that strategy. */
static void open_sale(int count, const char *strategy, const char *lock, const char *work_delay,
                      const char *fencing) {
    redis_start(&redis, "--appendfsync", "no", NULL);
    services[1].port = 0;
    for (int i = 0; i < count; i++) {
        seckilld_start_ready(&services[i], redis.port, "--teaching", "--lock", lock, "--work-delay",
                             work_delay, "--fencing", fencing, NULL);
    }
    shop_put(services[0].port, "x", harness_format("\"stock\":%d,\"strategy\":\"%s\"", STOCK, strategy));
}

static struct crowd *sell(int buyers, int threads) {
    struct crowd_plan plan = {.ports = {services[0].port, services[1].port},
                              .item = "x",
                              .prefix = "k",
                              .threads = threads,
                              .purchases = buyers};
    struct crowd *crowd = crowd_run(&plan);
    CHECK_INT(crowd_answered(crowd), buyers);
    return crowd;
}

/* ---- what is right ---- */

static const struct sale {
    const char *name, *strategy, *scheme, *options;
    int services, buyers;
} sales[] = {{"batch sells what there is", "batch", "local", "", 1, BUYERS},
             {"locked, by local, sells what there is", "locked", "local", "", 1, BUYERS},
             {"locked, by owner, sells what there is", "locked", "redis", "?variant=owner", 2, 1000},
             {"locked, by watchdog, sells what there is", "locked", "redis", "?variant=watchdog", 2, 1000},
             {"locked, by etcd, sells what there is", "locked", "etcd", "?ttl=10000", 2, 1000}};
static const struct sale *sale;

static double of_both(const char *sample) {
    return shop_metric(services[0].port, sample) +
           (services[1].port ? shop_metric(services[1].port, sample) : 0);
}

/* Those who won still have it, with the key they won it with; those who did not have nothing. */
static void check_again(const struct crowd *crowd, int buyers) {
    const struct crowd *again = sell(buyers, 8);
    for (int i = 0; i < buyers; i++) {
        const struct receipt *first = crowd_receipt(crowd, i), *second = crowd_receipt(again, i);
        CHECK_INT(second->status, first->status);
        CHECK_STR(second->order, first->order);
        CHECK(second->replayed == (first->status == 201));
    }
}

static void sells_what_there_is(void) {
    const char *lock = harness_format("%s%s", shop_lock_start(sale->scheme), sale->options);
    open_sale(sale->services, sale->strategy, lock, "0", "on");
    struct crowd *crowd = sell(sale->buyers, sale->services > 1 ? 16 : THREADS);
    crowd_check_answers(crowd, "sold-out");
    CHECK_INT(crowd_count(crowd, 201), STOCK);
    crowd_check_orders(crowd, services[sale->services - 1].port);
    if (sale->services > 1) {
        CHECK_INT(of_both("seckill_lock_acquired_total"), sale->buyers);
        CHECK_INT(of_both("seckill_lock_waiting"), 0);
        CHECK(of_both("seckill_lock_hold_seconds_total") > 0);
    }
    if (strstr(sale->options, "owner"))
        CHECK(of_both("seckill_lock_passed_total") > 0);
    check_again(crowd, sale->buyers / 10);
    CHECK_INT(shop_audit(services[0].port, "x", "sold"), STOCK);
    CHECK_INT(shop_audit(services[0].port, "x", "orders"), STOCK);
    for (int i = 0; i < sale->services; i++)
        CHECK_INT(seckilld_stop(&services[i]), 0);
}

/* ---- what teaches ---- */

static const struct lesson {
    const char *name, *strategy, *scheme, *options, *work_delay;
    int services, buyers, threads;
} lessons[] = {
    {"naive oversells", "naive", "local", "", "0", 1, BUYERS, THREADS},
    {"locked by none: oversells", "locked", "none", "", "1", 1, BUYERS, THREADS},
    /* A mutex in the process is none between two. */
    {"locked by local: in two processes oversells", "locked", "local", "", "2", 2, 1000, 16},
    /* The work takes longer than the lock lasts, and what then deletes the lock deletes another's. */
    {"locked by set-del oversells", "locked", "redis", "?variant=set-del&ttl=60", "75", 2, 1500, 16}};
static const struct lesson *lesson;

/* Sells more than there is, says so in the audit, and every buyer has an order. That two buyers come between
 * each other is chance: on a machine that has little to give it may take another sale. */
static void oversells(void) {
    struct crowd *crowd = NULL;
    struct web_response audit;
    int sold = 0;
    for (int tries = 0; tries < TRIES && sold <= STOCK; tries++) {
        const char *lock = strcmp(lesson->scheme, "none") == 0
                               ? "none:"
                               : harness_format("%s%s", shop_lock_start(lesson->scheme), lesson->options);
        open_sale(lesson->services, lesson->strategy, lock, lesson->work_delay, "off");
        crowd = sell(lesson->buyers, lesson->threads);
        sold = crowd_count(crowd, 201);
    }
    CHECK(sold > STOCK);
    CHECK_INT(shop_admin(services[0].port, "GET", "/v1/items/x/audit", NULL, &audit), 200);
    CHECK_HAS(audit.body, "\"conserved\":false");
    CHECK_INT(shop_number(&audit, "oversold"), sold - STOCK);
    CHECK_INT(shop_number(&audit, "orders"), sold);
    crowd_check_orders(crowd, services[0].port);
}

/* The lock is lost in the middle of the work just as often, but the holder that writes then has an older
 * fence and is refused. */
static void owner_with_a_fence_does_not(void) {
    open_sale(2, "locked", harness_format("%s?ttl=60", shop_lock_start("redis")), "75", "on");
    struct crowd *crowd = sell(STOCK, 16);
    int sold = crowd_count(crowd, 201), refused = crowd_count(crowd, 503);
    CHECK_INT(sold + refused, STOCK);
    CHECK(refused > 0);
    CHECK(shop_metric(services[0].port, "seckill_purchases_total{outcome=\"stale\"}") > 0);
    CHECK_INT(shop_audit(services[0].port, "x", "sold"), sold);
    crowd_check_orders(crowd, services[0].port);
    /* Alone, nobody has a newer one. */
    CHECK_INT(shop_buy(services[1].port, "x", "lone", 1, "lone", NULL), 201);
}

/* The delay is work: one purchase after the other takes at least so long. */
static void the_work_delay(void) {
    open_sale(1, "locked", "local:", "20", "on");
    int64_t began_ms = harness_now_ms();
    CHECK_INT(crowd_count(sell(STOCK, 16), 201), STOCK);
    CHECK(harness_now_ms() - began_ms >= (int64_t)STOCK * 20);
}

static void unsafe_items_without_teaching(void) {
    struct seckilld careful;
    struct web_response response;
    static const char *const unsafe[] = {"naive", "locked"};
    open_sale(1, "batch", "none:", "0", "on");
    seckilld_start_ready(&careful, redis.port, NULL);
    for (int i = 0; i < 2; i++) {
        const char *terms = harness_format("\"stock\":1,\"strategy\":\"%s\"", unsafe[i]);
        shop_admin(careful.port, "PUT", "/v1/items/new", harness_format("{%s}", terms), &response);
        CHECK_PROBLEM(&response, 409, "teaching-only");
        shop_put(services[0].port, unsafe[i], terms);
        shop_buy(careful.port, unsafe[i], "u", 1, "k", &response);
        CHECK_PROBLEM(&response, 409, "teaching-only");
        CHECK_INT(shop_get(careful.port, harness_format("/v1/items/%s", unsafe[i]), &response), 200);
        CHECK_INT(shop_number(&response, "available"), 1);
    }
}

/* ---- waiting for a lock ---- */

/* A service whose callers wait for a lock for as long as `lock_ttl` says. */
static void open_waiting(const char *lock, const char *lock_ttl, const char *work_delay) {
    redis_start(&redis, "--appendfsync", "no", NULL);
    seckilld_start_ready(&services[0], redis.port, "--teaching", "--lock", lock, "--lock-ttl", lock_ttl,
                         "--work-delay", work_delay, NULL);
    shop_put(services[0].port, "x", "\"stock\":2000,\"strategy\":\"locked\"");
}

/* More wait for a lock than may, or longer than they may: they are told so, and nothing was done for them. */
static void too_many_wait(void) {
    enum { MANY = 1300 };
    static struct web_conn conns[MANY];
    struct web_response response;
    open_waiting("local:", "100", "50");
    for (int i = 0; i < MANY; i++) {
        const char *request = shop_purchase_raw("x", "u", 1, harness_format("k%d", i));
        CHECK(web_open(&conns[i], services[0].port));
        CHECK_INT(web_send_raw(&conns[i], request, strlen(request)), WEB_OK);
    }
    int overloaded = 0;
    for (int i = 0; i < MANY; i++) {
        CHECK_INT(web_read_response(&conns[i], &response), WEB_OK);
        if (response.status != 201) {
            CHECK_PROBLEM(&response, 503, "overloaded");
            overloaded++;
        }
        web_close(&conns[i]);
    }
    CHECK(overloaded > 0 && overloaded < MANY);
    CHECK_INT(shop_audit(services[0].port, "x", "orders"), MANY - overloaded);
}

/* Somebody else has the lock. Of more who want it than threads serve, nobody waits for longer than the time
 * to live since he came. */
static void waits_once(void) {
    enum { WAITING = 160, TTL_MS = 2000, WAIT_MS = 2 * TTL_MS };
    static struct web_conn conns[WAITING];
    struct redis_server locks;
    struct web_response response;
    redis_start(&locks, "--appendfsync", "no", NULL);
    open_waiting(harness_format("redis://127.0.0.1:%d", locks.port), harness_format("%d", TTL_MS), "0");
    CHECK_STR(redis_command(&locks, "SET", "lock:{seckill:x}", "somebody", NULL), "OK");
    int64_t since_ms = harness_now_ms();
    for (int i = 0; i < WAITING; i++) {
        const char *key = harness_format("k%d", i);
        CHECK(web_open(&conns[i], services[0].port));
        web_send_text(&conns[i],
                      i % 2 ? shop_purchase_raw("x", "u", 1, key) : shop_basket_raw("u", "x:1", key));
    }
    for (int i = 0; i < WAITING; i++) {
        conns[i].timeout_ms = 20000;
        CHECK_INT(web_read_response(&conns[i], &response), WEB_OK);
        CHECK_PROBLEM(&response, 503, "overloaded");
        CHECK_HAS(shop_text(&response, "detail"), "not free in time");
        web_close(&conns[i]);
    }
    CHECK(harness_now_ms() - since_ms < WAIT_MS);
    CHECK_STR(redis_command(&locks, "DEL", "lock:{seckill:x}", NULL), "1");
    CHECK_INT(shop_buy(services[0].port, "x", "u", 1, "k", NULL), 201);
    CHECK_INT(seckilld_stop(&services[0]), 0);
}

int main(int argc, char **argv) {
    harness_begin(argc, argv);
    for (size_t i = 0; i < sizeof sales / sizeof *sales; i++) {
        sale = &sales[i];
        harness_run(sale->name, sells_what_there_is);
    }
    for (size_t i = 0; i < sizeof lessons / sizeof *lessons; i++) {
        lesson = &lessons[i];
        harness_run(lesson->name, oversells);
    }
    harness_run("locked by owner, with a fence, does not", owner_with_a_fence_does_not);
    harness_run("the work delay", the_work_delay);
    harness_run("unsafe items without --teaching", unsafe_items_without_teaching);
    harness_run("too many wait for a lock", too_many_wait);
    harness_run("nobody waits twice", waits_once);
    return harness_finish();
}
