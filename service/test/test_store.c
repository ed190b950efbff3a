/* What buyers hear when the store fails, and that the books balance afterwards. */
#include <glob.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "service/test/crowd.h"
#include "service/test/shop.h"

enum { STOCK = 2400, BUYERS = 4000, THREADS = 24 };

/* A store behind a proxy, and a service that gives up a call after `timeout`. */
struct setup {
    struct redis_server redis;
    struct proxy *proxy;
    struct seckilld service;
    int port;
};

static void open_setup(struct setup *setup, const char *timeout) {
    redis_start(&setup->redis, NULL);
    setup->proxy = proxy_start(setup->redis.port);
    seckilld_start(&setup->service, proxy_port(setup->proxy), "--store-timeout", timeout, NULL);
    setup->port = setup->service.port;
    seckilld_wait_ready(&setup->service, 200);
}

/* ---- a fault in the middle of a sale ---- */

struct fault {
    void (*strike)(struct setup *setup);
    void (*heal)(struct setup *setup);
    const char *reason; /* in /readyz while it lasts; NULL: it stays ready */
};

/* Nobody went without an answer, what was acknowledged is there, and each key, tried again, gets what it had
 * got, or one order, or nothing. */
static void check_books(int port, const char *item, const struct crowd *crowd, int buyers) {
    crowd_check_orders(crowd, port);
    struct crowd_plan plan = {
        .ports = {port}, .item = item, .prefix = "k", .threads = 8, .purchases = buyers, .retries = true};
    struct crowd *again = crowd_run(&plan);
    crowd_check_answers(again, "sold-out");
    for (int i = 0; i < buyers; i++) {
        const struct receipt *first = crowd_receipt(crowd, i), *second = crowd_receipt(again, i);
        CHECK(first->status == 201 || first->status == 409 || first->status == 503);
        if (first->status == 503)
            CHECK_STR(first->type, "store-unavailable");
        if (first->status == 409)
            CHECK_STR(first->type, "sold-out");
        if (first->status != 201)
            continue;
        CHECK_STR(second->order, first->order);
        CHECK(second->replayed);
    }
    CHECK_INT(shop_audit(port, item, "orders"), crowd_count(again, 201));
    CHECK_INT(shop_audit(port, item, "sold"), crowd_count(again, 201));
}

static void check_readyz(struct setup *setup, const char *reason) {
    struct web_response response;
    if (!reason) {
        seckilld_wait_ready(&setup->service, 200);
        return;
    }
    shop_wait_unready(setup->port, reason);
    CHECK_INT(shop_get(setup->port, "/readyz", &response), 503);
    CHECK(web_header(&response, "Retry-After") != NULL);
    CHECK_INT(shop_get(setup->port, "/livez", NULL), 200);
}

static void in_the_middle_of_a_sale(const struct fault *fault) {
    struct setup setup;
    open_setup(&setup, "1000");
    shop_put(setup.port, "sale", harness_format("\"stock\":%d", STOCK));
    struct crowd_plan plan = {
        .ports = {setup.port}, .item = "sale", .prefix = "k", .threads = THREADS, .purchases = BUYERS};
    struct crowd *crowd = crowd_start(&plan);
    crowd_wait(crowd, 300);
    fault->strike(&setup);
    check_readyz(&setup, fault->reason);
    int struck = crowd_answered(crowd);
    crowd_wait(crowd, struck + 2 * THREADS < BUYERS ? struck + 2 * THREADS : BUYERS);
    fault->heal(&setup);
    seckilld_wait_ready(&setup.service, 200);
    crowd_join(crowd);
    CHECK(!harness_failed());
    CHECK(fault->reason == NULL || crowd_count(crowd, 503) > 0);
    check_books(setup.port, "sale", crowd, BUYERS);
    CHECK_INT(seckilld_stop(&setup.service), 0);
}

static void stop_redis(struct setup *setup) {
    redis_stop(&setup->redis);
}
static void kill_redis(struct setup *setup) {
    redis_kill(&setup->redis);
}
static void restart_redis(struct setup *setup) {
    redis_restart(&setup->redis);
}

static void stopped(void) {
    in_the_middle_of_a_sale(&(struct fault){stop_redis, restart_redis, "no connection to the store"});
}

static void killed(void) {
    in_the_middle_of_a_sale(&(struct fault){kill_redis, restart_redis, "no connection to the store"});
}

static void kill_and_restart(struct setup *setup) {
    redis_kill(&setup->redis);
    redis_restart(&setup->redis);
}
static void do_nothing(struct setup *setup) {
    (void)setup;
}

static void killed_and_back(void) {
    in_the_middle_of_a_sale(&(struct fault){kill_and_restart, do_nothing, NULL});
}

static void pause_redis(struct setup *setup) {
    redis_pause(&setup->redis);
}
static void resume_redis(struct setup *setup) {
    redis_resume(&setup->redis);
}

static void hanging(void) {
    in_the_middle_of_a_sale(&(struct fault){pause_redis, resume_redis, "the store"});
}

static void refuse(struct setup *setup) {
    proxy_set(setup->proxy, PROXY_REFUSE, 0, NULL);
}
static void pass(struct setup *setup) {
    proxy_set(setup->proxy, PROXY_PASS, 0, NULL);
}

static void unreachable(void) {
    in_the_middle_of_a_sale(&(struct fault){refuse, pass, "no connection to the store"});
}

static void slow_down(struct setup *setup) {
    proxy_set(setup->proxy, PROXY_DELAY, 40, NULL);
}

static void slow(void) {
    in_the_middle_of_a_sale(&(struct fault){slow_down, pass, NULL});
}

static void flush_scripts(struct setup *setup) {
    CHECK_STR(redis_command(&setup->redis, "SCRIPT", "FLUSH", NULL), "OK");
}

static void scripts_flushed(void) {
    in_the_middle_of_a_sale(&(struct fault){flush_scripts, flush_scripts, NULL});
}

static void fill_memory(struct setup *setup) {
    CHECK_STR(redis_command(&setup->redis, "CONFIG", "SET", "maxmemory", "100kb", NULL), "OK");
}
static void free_memory(struct setup *setup) {
    CHECK_STR(redis_command(&setup->redis, "CONFIG", "SET", "maxmemory", "0", NULL), "OK");
}

static void out_of_memory(void) {
    in_the_middle_of_a_sale(&(struct fault){fill_memory, free_memory, "memory"});
}

static void demote(struct setup *setup) {
    const char *nowhere = harness_format("%d", harness_free_port());
    CHECK_STR(redis_command(&setup->redis, "REPLICAOF", "127.0.0.1", nowhere, NULL), "OK");
}
static void promote(struct setup *setup) {
    CHECK_STR(redis_command(&setup->redis, "REPLICAOF", "NO", "ONE", NULL), "OK");
}

static void read_only(void) {
    in_the_middle_of_a_sale(&(struct fault){demote, promote, "replica"});
}

/* Of a reply some twenty bytes long, a little more gets through each time. */
static void cut_replies(struct setup *setup) {
    for (int i = 0; i < 12; i++) {
        int before = proxy_faults(setup->proxy);
        proxy_set(setup->proxy, PROXY_CUT, i * 2, "}:sale");
        for (int64_t until_ms = harness_now_ms() + 5000; proxy_faults(setup->proxy) == before;)
            CHECK(harness_now_ms() < until_ms);
    }
}

static void replies_cut(void) {
    struct setup setup;
    open_setup(&setup, "1000");
    shop_put(setup.port, "sale", harness_format("\"stock\":%d", 20 * BUYERS));
    struct crowd_plan plan = {
        .ports = {setup.port}, .item = "sale", .prefix = "k", .threads = THREADS, .purchases = 20 * BUYERS};
    struct crowd *crowd = crowd_start(&plan);
    crowd_wait(crowd, 100);
    cut_replies(&setup);
    crowd_stop(crowd);
    crowd_join(crowd);
    CHECK(!harness_failed());
    int begun = 0;
    while (crowd_receipt(crowd, begun)->tries)
        begun++;
    CHECK(shop_metric(setup.port, "seckill_unknown_resolved_total") > 0);
    seckilld_wait_ready(&setup.service, 200);
    check_books(setup.port, "sale", crowd, begun);
    CHECK_INT(seckilld_stop(&setup.service), 0);
}

/* ---- one purchase, and exactly what its buyer hears ---- */

/* The order stands and its reply is lost, wholly or in part: the service asks again, and the buyer is told of
 * a purchase, not of a repetition. */
static void a_reply_cut_short(void) {
    struct setup setup;
    struct web_response response, order;
    open_setup(&setup, "1000");
    shop_put(setup.port, "one", "\"stock\":100");
    CHECK_INT(shop_buy(setup.port, "one", "u", 1, "first", NULL), 201); /* loads the script */
    const int cuts[] = {0, 1, 3, 4, 7, 9};
    enum { CUTS = sizeof cuts / sizeof *cuts };
    for (int i = 0; i < CUTS; i++) {
        seckilld_wait_ready(&setup.service, 200);
        proxy_set(setup.proxy, PROXY_CUT, cuts[i], "}:one");
        CHECK_INT(shop_buy(setup.port, "one", "u", 1, harness_format("k%d", i), &response), 201);
        CHECK(!web_header(&response, "Idempotent-Replayed"));
        CHECK_INT(proxy_faults(setup.proxy), i + 1);
        seckilld_wait_ready(&setup.service, 200);
        CHECK_INT(shop_order(setup.port, shop_text(&response, "order"), NULL, &order), 200);
        CHECK_STR(order.body, response.body);
    }
    CHECK_INT(shop_metric(setup.port, "seckill_unknown_resolved_total"), CUTS);
    CHECK_INT(shop_audit(setup.port, "one", "orders"), 1 + CUTS);
}

/* Longer away than the service asks for: the buyer is told that it is not known, and learns it by the key. */
static void unknown_for_long(void) {
    struct setup setup;
    struct web_response response;
    open_setup(&setup, "1000");
    shop_put(setup.port, "one", "\"stock\":100");
    CHECK_INT(shop_buy(setup.port, "one", "u", 1, "first", NULL), 201); /* loads the script */
    proxy_set(setup.proxy, PROXY_DELAY, 60000, NULL);
    shop_buy(setup.port, "one", "u", 1, "k", &response);
    CHECK_PROBLEM(&response, 503, "store-unavailable");
    CHECK_INT(stock_orders(&setup.redis, "one"), 2);
    CHECK_INT(shop_metric(setup.port, "seckill_purchases_total{outcome=\"unknown\"}"), 1);
    proxy_set(setup.proxy, PROXY_PASS, 0, NULL);
    seckilld_wait_ready(&setup.service, 200);
    CHECK_INT(shop_buy(setup.port, "one", "u", 1, "k", &response), 201);
    CHECK_STR(web_header(&response, "Idempotent-Replayed"), "true");
    CHECK_INT(shop_audit(setup.port, "one", "orders"), 2);
}

static void every_call_without_a_store(void) {
    struct setup setup;
    struct web_response response;
    open_setup(&setup, "1000");
    shop_put(setup.port, "x", "\"stock\":10,\"hold_seconds\":3600");
    CHECK_INT(shop_buy(setup.port, "x", "u", 1, "k", &response), 201);
    const char *order = shop_text(&response, "order");
    for (int round = 0; round < 2; round++) {
        if (round == 0)
            redis_stop(&setup.redis);
        else
            redis_pause(&setup.redis);
        shop_buy(setup.port, "x", "u", 1, "k", &response);
        CHECK_PROBLEM(&response, 503, "store-unavailable");
        shop_get(setup.port, "/v1/items/x", &response);
        CHECK_PROBLEM(&response, 503, "store-unavailable");
        shop_admin(setup.port, "PUT", "/v1/items/y", "{\"stock\":1,\"hold_seconds\":5}", &response);
        CHECK_PROBLEM(&response, 503, "store-unavailable");
        shop_admin(setup.port, "GET", "/v1/items/x/audit", NULL, &response);
        CHECK_PROBLEM(&response, 503, "store-unavailable");
        shop_restock(setup.port, "x", 5, "r", &response);
        CHECK_PROBLEM(&response, 503, "store-unavailable");
        const char *const steps[] = {NULL, "confirm", "cancel"};
        for (int i = 0; i < (round == 0 ? 3 : 1); i++) {
            shop_order(setup.port, order, steps[i], &response);
            CHECK_PROBLEM(&response, 503, "store-unavailable");
        }
        CHECK_INT(shop_get(setup.port, "/metrics", NULL), 200);
        if (round == 0)
            redis_restart(&setup.redis);
        else
            redis_resume(&setup.redis);
        seckilld_wait_ready(&setup.service, 200);
        CHECK_INT(shop_order(setup.port, order, NULL, &response), 200);
        CHECK_STR(shop_text(&response, "state"), "held");
    }
    CHECK_INT(shop_restock(setup.port, "x", 5, "r", &response), 200);
    CHECK_INT(shop_audit(setup.port, "x", "stock"), 15);
    CHECK_INT(shop_buy(setup.port, "x", "u", 1, "k", &response), 201);
    CHECK_STR(web_header(&response, "Idempotent-Replayed"), "true");
}

static void restarted_empty(void) {
    struct setup setup;
    struct web_response response;
    open_setup(&setup, "1000");
    shop_put(setup.port, "gone", "\"stock\":1");
    CHECK_INT(shop_buy(setup.port, "gone", "u", 1, "k", &response), 201);
    const char *order = shop_text(&response, "order");
    CHECK_INT(shop_buy(setup.port, "gone", "u", 1, "k2", NULL), 409);
    redis_stop(&setup.redis);
    redis_wipe(&setup.redis);
    redis_restart(&setup.redis);
    seckilld_wait_ready(&setup.service, 200);
    /* The service puts back what it acknowledged lately. */
    CHECK_INT(shop_buy(setup.port, "gone", "u", 1, "k", &response), 201);
    CHECK_STR(web_header(&response, "Idempotent-Replayed"), "true");
    CHECK_INT(shop_audit(setup.port, "gone", "sold"), 1);
    seckilld_kill(&setup.service);
    redis_stop(&setup.redis);
    redis_wipe(&setup.redis);
    redis_restart(&setup.redis);
    seckilld_restart(&setup.service);
    seckilld_wait_ready(&setup.service, 200);
    /* Neither full nor sold out: not there. */
    shop_buy(setup.port, "gone", "u", 1, "k", &response);
    CHECK_PROBLEM(&response, 404, "unknown-item");
    shop_order(setup.port, order, NULL, &response);
    CHECK_PROBLEM(&response, 404, "unknown-order");
    shop_put(setup.port, "gone", "\"stock\":1");
    CHECK_INT(shop_buy(setup.port, "gone", "u", 1, "k3", NULL), 201);
    CHECK_INT(shop_audit(setup.port, "gone", "sold"), 1);
}

/* What the server appends to. */
static const char *append_file(const struct redis_server *redis) {
    glob_t found = {.gl_pathc = 0};
    CHECK_INT(glob(harness_format("%s/appendonlydir/*.incr.aof", redis->dir), 0, NULL, &found), 0);
    CHECK_INT((int)found.gl_pathc, 1);
    const char *path = harness_format("%s", found.gl_pathv[0]);
    globfree(&found);
    return path;
}

struct asked {
    const struct redis_server *redis;
    int own; /* INFO by the test */
};

/* Each thread of the service has asked twice since the statistics were reset. */
static bool has_been_asked(void *arg) {
    enum { THREADS_ASKING = 3 };
    struct asked *asked = arg;
    asked->own++;
    const char *calls =
        strstr(redis_command(asked->redis, "INFO", "commandstats", NULL), "cmdstat_info:calls=");
    return calls && strtol(strchr(calls, '=') + 1, NULL, 10) >= asked->own - 1 + 2 * THREADS_ASKING;
}

/* `everysec` on a slow disk: a server that is killed has not written its last moments to the file. What was
 * acknowledged then is put back, each once. */
static void last_writes_lost(void) {
    enum { KEPT = 5, SOLD = 20 };
    struct setup setup;
    struct web_response response;
    struct stat written;
    char *orders[SOLD];
    open_setup(&setup, "1000");
    shop_put(setup.port, "phone", harness_format("\"stock\":%d", SOLD));
    const char *file = append_file(&setup.redis);
    for (int i = 0; i < SOLD; i++) {
        if (i == KEPT)
            CHECK_INT(stat(file, &written), 0);
        CHECK_INT(shop_buy(setup.port, "phone", "ann", 1, harness_format("k%d", i), &response), 201);
        orders[i] = harness_format("%s", shop_text(&response, "order"));
    }
    /* It is told that there are no replicas, and keeps the orders all the same. */
    struct asked asked = {.redis = &setup.redis};
    CHECK_STR(redis_command(&setup.redis, "CONFIG", "RESETSTAT", NULL), "OK");
    CHECK(harness_wait(has_been_asked, &asked, 20000));
    redis_kill(&setup.redis);
    CHECK_INT(truncate(file, written.st_size), 0);
    shop_wait_unready(setup.port, "");
    redis_restart(&setup.redis);
    seckilld_wait_ready(&setup.service, 200);
    shop_buy(setup.port, "phone", "bob", 1, "another", &response);
    CHECK_PROBLEM(&response, 409, "sold-out");
    for (int i = 0; i < SOLD; i++) {
        CHECK_INT(shop_order(setup.port, orders[i], NULL, NULL), 200);
        CHECK_INT(shop_buy(setup.port, "phone", "ann", 1, harness_format("k%d", i), &response), 201);
        CHECK_STR(shop_text(&response, "order"), orders[i]);
        CHECK_STR(web_header(&response, "Idempotent-Replayed"), "true");
    }
    CHECK_INT(shop_audit(setup.port, "phone", "sold"), SOLD);
    CHECK_INT(shop_audit(setup.port, "phone", "shortage"), 0);
    CHECK_INT((int)shop_metric(setup.port, "seckill_put_back_total"), SOLD - KEPT);
    seckilld_wait_log(&setup.service, "that a failover of the store had lost");
}

static bool is_ordered(void *arg) {
    struct setup *setup = arg;
    return stock_orders(&setup->redis, "sneaker") == 1;
}

/* The service itself stands still for longer than the time-out, and the reply comes meanwhile: it is read
 * when it goes on, and the store is not taken for gone. */
static void a_service_that_stood_still(void) {
    struct setup setup;
    struct web_conn buyer;
    struct web_response response;
    open_setup(&setup, "2000");
    shop_put(setup.port, "sneaker", "\"stock\":10");
    proxy_set(setup.proxy, PROXY_DELAY, 500, NULL);
    CHECK(web_open(&buyer, setup.port));
    web_send_text(&buyer, shop_purchase_raw("sneaker", "u", 1, "k"));
    CHECK(harness_wait(is_ordered, &setup, 10000));
    proc_kill(&setup.service.proc, SIGSTOP);
    harness_pause_ms(2500);
    proc_kill(&setup.service.proc, SIGCONT);
    CHECK_INT(web_read_response(&buyer, &response), WEB_OK);
    CHECK_INT(response.status, 201);
    web_close(&buyer);
    CHECK(!strstr(proc_output(&setup.service.proc), "is gone"));
}

/* Whether the store is there is known a minute later: until then the service lives, and says that it is not
 * ready. */
static void started_while_it_hangs(void) {
    enum { LIVE_MS = 5000 }; /* a second is promised; the start itself takes its time on a busy machine */
    struct redis_server redis;
    struct seckilld service;
    redis_start(&redis, NULL);
    redis_pause(&redis);
    int64_t started_ms = harness_now_ms();
    seckilld_start(&service, redis.port, "--store-timeout", "60000", NULL);
    CHECK(harness_now_ms() - started_ms <= LIVE_MS);
    shop_wait_unready(service.port, "no connection to the store");
    CHECK_INT(shop_get(service.port, "/v1/items/sneaker", NULL), 503);
    redis_resume(&redis);
    seckilld_wait_ready(&service, 200);
    CHECK_INT(shop_get(service.port, "/v1/items/sneaker", NULL), 404);
}

int main(int argc, char **argv) {
    harness_begin(argc, argv);
    harness_run("stopped", stopped);
    harness_run("killed", killed);
    harness_run("killed, and back at once", killed_and_back);
    harness_run("hanging", hanging);
    harness_run("unreachable", unreachable);
    harness_run("slow", slow);
    harness_run("scripts flushed", scripts_flushed);
    harness_run("out of memory", out_of_memory);
    harness_run("read-only", read_only);
    harness_run("replies cut off in the middle", replies_cut);
    harness_run("what the buyer of a lost reply hears", a_reply_cut_short);
    harness_run("a service that stood still", a_service_that_stood_still);
    harness_run("started while it hangs", started_while_it_hangs);
    harness_run("unknown for long", unknown_for_long);
    harness_run("every call without a store", every_call_without_a_store);
    harness_run("restarted empty", restarted_empty);
    harness_run("its last writes are lost", last_writes_lost);
    return harness_finish();
}
