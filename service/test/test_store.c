/* What buyers hear when the store fails, and that the books balance afterwards. */
#include <signal.h>
#include <string.h>

#include "service/test/crowd.h"
#include "service/test/shop.h"

enum { STOCK = 2400, BUYERS = 4000, THREADS = 24 };

/* ---- a fault in the middle of a sale ---- */

static const struct fault {
    const char *name;
    const char *reason; /* in /readyz while it lasts; NULL: it stays ready */
} faults[] = {{"killed", "no connection to the store"},
              {"killed, and back at once", NULL},
              {"hanging", "the store"},
              {"unreachable", "no connection to the store"},
              {"out of memory", "memory"},
              {"read-only", "replica"}};
enum { KILLED, KILLED_AND_BACK, HANGING, UNREACHABLE, OUT_OF_MEMORY, READ_ONLY, FAULTS };
static int fault;

static void set_memory(const struct redis_server *redis, const char *most) {
    CHECK_STR(redis_command(redis, "CONFIG", "SET", "maxmemory", most, NULL), "OK");
}

static void strike(struct shop *shop) {
    struct redis_server *redis = &shop->redis;
    switch (fault) {
    case KILLED:
    case KILLED_AND_BACK:
        redis_kill(redis);
        if (fault == KILLED_AND_BACK)
            redis_restart(redis);
        break;
    case HANGING: redis_pause(redis); break;
    case UNREACHABLE: proxy_set(shop->proxy, PROXY_REFUSE, 0, NULL); break;
    case OUT_OF_MEMORY: set_memory(redis, "100kb"); break;
    case READ_ONLY: {
        const char *nowhere = harness_format("%d", harness_free_port());
        CHECK_STR(redis_command(redis, "REPLICAOF", "127.0.0.1", nowhere, NULL), "OK");
    }
    }
}

static void heal(struct shop *shop) {
    struct redis_server *redis = &shop->redis;
    switch (fault) {
    case KILLED: redis_restart(redis); break;
    case HANGING: redis_resume(redis); break;
    case UNREACHABLE: proxy_set(shop->proxy, PROXY_PASS, 0, NULL); break;
    case OUT_OF_MEMORY: set_memory(redis, "0"); break;
    case READ_ONLY: CHECK_STR(redis_command(redis, "REPLICAOF", "NO", "ONE", NULL), "OK");
    }
}

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

static void check_readyz(struct shop *shop, const char *reason) {
    struct web_response response;
    if (!reason) {
        seckilld_wait_ready(&shop->service, 200);
        return;
    }
    shop_wait_unready(shop->port, reason);
    CHECK_INT(shop_get(shop->port, "/readyz", &response), 503);
    CHECK(web_header(&response, "Retry-After") != NULL);
    CHECK_INT(shop_get(shop->port, "/livez", NULL), 200);
}

static void in_the_middle_of_a_sale(void) {
    struct shop shop;
    const char *reason = faults[fault].reason;
    shop_open_proxied(&shop, "1000", "10000");
    shop_put(shop.port, "sale", harness_format("\"stock\":%d", STOCK));
    struct crowd_plan plan = {.ports = {shop.port},
                              .item = "sale",
                              .prefix = "k",
                              .threads = THREADS,
                              .purchases = BUYERS,
                              .pause_ms = 10}; /* not over before the fault, however slow this test is */
    struct crowd *crowd = crowd_start(&plan);
    crowd_wait(crowd, 300);
    strike(&shop);
    check_readyz(&shop, reason);
    int struck = crowd_answered(crowd);
    crowd_wait(crowd, struck + 2 * THREADS < BUYERS ? struck + 2 * THREADS : BUYERS);
    heal(&shop);
    seckilld_wait_ready(&shop.service, 200);
    crowd_join(crowd);
    CHECK(!harness_failed());
    CHECK(!reason || crowd_count(crowd, 503) > 0);
    check_books(shop.port, "sale", crowd, BUYERS);
    CHECK_INT(seckilld_stop(&shop.service), 0);
}

/* ---- one purchase, and exactly what its buyer hears ---- */

/* The order stands and its reply is lost, wholly or in part: the service asks again, and the buyer is told of
 * a purchase, not of a repetition. */
static void a_reply_cut_short(void) {
    struct shop shop;
    struct web_response response, order;
    shop_open_proxied(&shop, "1000", "10000");
    shop_put(shop.port, "one", "\"stock\":100");
    CHECK_INT(shop_buy(shop.port, "one", "u", 1, "first", NULL), 201); /* loads the script */
    const int cuts[] = {0, 3, 9};
    enum { CUTS = sizeof cuts / sizeof *cuts };
    for (int i = 0; i < CUTS; i++) {
        seckilld_wait_ready(&shop.service, 200);
        proxy_set(shop.proxy, PROXY_CUT, cuts[i], "}:one");
        CHECK_INT(shop_buy(shop.port, "one", "u", 1, harness_format("k%d", i), &response), 201);
        CHECK(!web_header(&response, "Idempotent-Replayed"));
        CHECK_INT(proxy_faults(shop.proxy), i + 1);
        seckilld_wait_ready(&shop.service, 200);
        CHECK_INT(shop_order(shop.port, shop_text(&response, "order"), NULL, &order), 200);
        CHECK_STR(order.body, response.body);
    }
    CHECK_INT(shop_metric(shop.port, "seckill_unknown_resolved_total"), CUTS);
    CHECK_INT(shop_audit(shop.port, "one", "orders"), 1 + CUTS);
}

/* Longer away than the service asks for: the buyer is told that it is not known, and learns it by the key. */
static void unknown_for_long(void) {
    struct shop shop;
    struct web_response response;
    shop_open_proxied(&shop, "1000", "10000");
    shop_put(shop.port, "one", "\"stock\":100");
    CHECK_INT(shop_buy(shop.port, "one", "u", 1, "first", NULL), 201); /* loads the script */
    proxy_set(shop.proxy, PROXY_DELAY, 60000, NULL);
    shop_buy(shop.port, "one", "u", 1, "k", &response);
    CHECK_PROBLEM(&response, 503, "store-unavailable");
    CHECK_INT(stock_orders(&shop.redis, "one"), 2);
    CHECK_INT(shop_metric(shop.port, "seckill_purchases_total{outcome=\"unknown\"}"), 1);
    proxy_set(shop.proxy, PROXY_PASS, 0, NULL);
    seckilld_wait_ready(&shop.service, 200);
    CHECK_INT(shop_buy(shop.port, "one", "u", 1, "k", &response), 201);
    CHECK_STR(web_header(&response, "Idempotent-Replayed"), "true");
    CHECK_INT(shop_audit(shop.port, "one", "orders"), 2);
}

static void every_call_without_a_store(void) {
    struct shop shop;
    struct web_response response;
    shop_open_proxied(&shop, "1000", "10000");
    shop_put(shop.port, "x", "\"stock\":10,\"hold_seconds\":3600");
    CHECK_INT(shop_buy(shop.port, "x", "u", 1, "k", &response), 201);
    const char *order = shop_text(&response, "order");
    const char *const calls[][3] = {{"POST", "/v1/purchases", shop_purchase_body("x", "u", 1)},
                                    {"GET", "/v1/items/x", NULL},
                                    {"PUT", "/v1/items/y", "{\"stock\":1,\"hold_seconds\":5}"},
                                    {"GET", "/v1/items/x/audit", NULL},
                                    {"POST", "/v1/items/x/restock", "{\"quantity\":5}"},
                                    {"GET", harness_format("/v1/orders/%s", order), NULL},
                                    {"POST", harness_format("/v1/orders/%s/confirm", order), ""},
                                    {"POST", harness_format("/v1/orders/%s/cancel", order), ""}};
    redis_stop(&shop.redis);
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        web_call(shop.port, calls[i][0], calls[i][1], SECKILLD_ADMIN "Idempotency-Key: k\r\n", calls[i][2],
                 &response);
        CHECK_PROBLEM(&response, 503, "store-unavailable");
    }
    CHECK_INT(shop_get(shop.port, "/metrics", NULL), 200);
    redis_restart(&shop.redis);
    seckilld_wait_ready(&shop.service, 200);
    CHECK_INT(shop_order(shop.port, order, NULL, &response), 200);
    CHECK_STR(shop_text(&response, "state"), "held");
    CHECK_INT(shop_restock(shop.port, "x", 5, "k", NULL), 200);
    CHECK_INT(shop_audit(shop.port, "x", "stock"), 15);
    CHECK_INT(shop_buy(shop.port, "x", "u", 1, "k", &response), 201);
    CHECK_STR(web_header(&response, "Idempotent-Replayed"), "true");
}

static bool is_ordered(void *arg) {
    struct shop *shop = arg;
    return stock_orders(&shop->redis, "sneaker") == 1;
}

/* The service itself stands still for longer than the time-out, and the reply comes meanwhile: it is read
 * when it goes on, and the store is not taken for gone. */
static void a_service_that_stood_still(void) {
    struct shop shop;
    struct web_conn buyer;
    shop_open_proxied(&shop, "500", "10000");
    shop_put(shop.port, "sneaker", "\"stock\":10");
    proxy_set(shop.proxy, PROXY_DELAY, 200, NULL);
    shop_buy_begin(&buyer, shop.port, "sneaker", "u", 1, "k");
    CHECK(harness_wait(is_ordered, &shop, 10000));
    proc_kill(&shop.service.proc, SIGSTOP);
    harness_pause_ms(800);
    proc_kill(&shop.service.proc, SIGCONT);
    shop_check_answer(&buyer, 201, NULL);
    CHECK(!strstr(proc_output(&shop.service.proc), "is gone"));
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
    for (fault = 0; fault < FAULTS; fault++)
        harness_run(faults[fault].name, in_the_middle_of_a_sale);
    harness_run("what the buyer of a lost reply hears", a_reply_cut_short);
    harness_run("a service that stood still", a_service_that_stood_still);
    harness_run("started while it hangs", started_while_it_hangs);
    harness_run("unknown for long", unknown_for_long);
    harness_run("every call without a store", every_call_without_a_store);
    return harness_finish();
}
