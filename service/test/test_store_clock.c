/* The store's clock, by which all instances go. */
#include "service/background/background.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "service/rfc3339.h"
#include "service/test/shop.h"

enum { MS = 1000000 };

/* ---- as it is measured ---- */

static int64_t machine_ms;

static int64_t machine_mono_ns(void *ctx) {
    (void)ctx;
    return 7;
}

static int64_t machine_wall_ms(void *ctx) {
    (void)ctx;
    return machine_ms;
}

static const struct clock machine = {.mono_ns = machine_mono_ns, .wall_ms = machine_wall_ms};

/* How far it is ahead after a reply that took so long and told a clock so far ahead. */
static int64_t ahead(struct store_clock *clock, int64_t took_ms, int64_t store_ahead_ms) {
    store_clock_measure(clock, took_ms * MS, machine_ms + store_ahead_ms);
    return clock_wall_ms(&clock->clock) - machine_ms;
}

static void measured(void) {
    struct store_clock clock;
    machine_ms = 1000000;
    store_clock_init(&clock, &machine);
    CHECK(!store_clock_is_known(&clock));
    CHECK_INT(clock_wall_ms(&clock.clock), machine_ms);
    CHECK_INT(clock_mono_ns(&clock.clock), 7);
    CHECK_INT(ahead(&clock, 0, 0), 0);
    CHECK(store_clock_is_known(&clock));
    /* Far ahead, and far behind: to the nearer bound. */
    CHECK_INT(ahead(&clock, 0, 3600000), 3600000 - 1);
    CHECK_INT(ahead(&clock, 0, 3600000), 3600000 - 1);
    CHECK_INT(ahead(&clock, 0, -3600000), -3600000 + 2);
    /* A slow reply tells little. */
    CHECK_INT(ahead(&clock, 0, 500), 499);
    CHECK_INT(ahead(&clock, 800, -200), 499);
    CHECK_INT(ahead(&clock, 600, -200), 402);
    CHECK_INT(ahead(&clock, 0, 400), 402);
    /* To set the machine's clock changes nothing; the store's, when a reply tells. */
    int64_t before_ms = clock_wall_ms(&clock.clock);
    machine_ms -= 60000;
    CHECK_INT(clock_wall_ms(&clock.clock), before_ms);
    CHECK_INT(ahead(&clock, 0, 60400), 60402);
    CHECK_INT(ahead(&clock, 0, 400), 402);
}

/* ---- a store whose clock is an hour ahead ---- */

static struct redis_server redis;
static struct seckilld service;

/* By the store's clock. */
static const char *in(int64_t ms) {
    char text[RFC3339_SIZE];
    rfc3339_print(clock_wall_ms(&clock_system) + redis_clock()->ahead_ms + ms, text);
    return harness_format("%s", text);
}

static void check_buys(const char *item, int status, const char *type) {
    struct web_response response;
    CHECK_INT(shop_buy(service.port, item, "u", 1, item, &response), status);
    if (type)
        CHECK_PROBLEM(&response, status, type);
    CHECK_INT(shop_basket(service.port, "u", harness_format("%s:1", item), item, &response), status);
    if (type)
        CHECK_PROBLEM(&response, status, type);
}

static bool is_expired(void *arg) {
    struct web_response response;
    CHECK_INT(shop_basket_step(service.port, arg, NULL, &response), 200);
    return strcmp(shop_text(&response, "state"), "expired") == 0;
}

static const char *way;

static void goes_by_the_store(void) {
    struct web_response held, order, brief;
    redis_clock()->ahead_ms = 3600000;
    redis_start(&redis, "--appendfsync", "no", NULL);
    seckilld_start_ready(&service, redis.port, "--basket", way, NULL);
    shop_put(service.port, "later", harness_format("\"stock\":9,\"starts_at\":\"%s\"", in(1800000)));
    shop_put(service.port, "now", harness_format("\"stock\":9,\"starts_at\":\"%s\"", in(-1800000)));
    shop_put(service.port, "over", harness_format("\"stock\":9,\"ends_at\":\"%s\"", in(-1800000)));
    check_buys("later", 409, "not-started");
    check_buys("now", 201, NULL);
    check_buys("over", 409, "ended");
    shop_put(service.port, "held", "\"stock\":9,\"hold_seconds\":1800");
    shop_put(service.port, "brief", "\"stock\":9,\"hold_seconds\":1");
    CHECK_INT(shop_basket(service.port, "u", "held:1 now:1", "k1", &held), 201);
    CHECK(strcmp(shop_text(&held, "expires_at"), in(1700000)) > 0);
    CHECK(strcmp(shop_text(&held, "expires_at"), in(1900000)) < 0);
    CHECK_INT(shop_buy(service.port, "held", "u", 1, "k2", &order), 201);
    CHECK_INT(shop_basket(service.port, "u", "brief:1 now:1", "k3", &brief), 201);
    CHECK(harness_wait(is_expired, (void *)shop_text(&brief, "basket"), 10000));
    CHECK_INT(shop_basket_step(service.port, shop_text(&held, "basket"), "confirm", NULL), 200);
    CHECK_INT(shop_order(service.port, shop_text(&order, "order"), "confirm", NULL), 200);
    CHECK_INT(shop_audit(service.port, "held", "sold"), 2);
    CHECK_INT(seckilld_stop(&service), 0);
}

int main(int argc, char **argv) {
    harness_begin(argc, argv);
    harness_run("as it is measured", measured);
    way = "locked";
    harness_run("a store that is an hour ahead, baskets in steps", goes_by_the_store);
    way = "script";
    harness_run("a store that is an hour ahead, baskets at once", goes_by_the_store);
    return harness_finish();
}
