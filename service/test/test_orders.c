/* Orders: look, confirm, cancel, expire, and which of them wins. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "service/test/shop.h"

enum { EXPIRY_MS = 20000, CROSSINGS = 60 };

static struct shop shop;

/* Buys, and returns the order's id. */
static const char *order(const char *item, const char *user, int quantity, const char *key,
                         struct web_response *response) {
    CHECK_INT(shop_buy(shop.port, item, user, quantity, key, response), 201);
    return shop_text(response, "order");
}

static void check_state(const char *id, const char *state) {
    struct web_response response;
    CHECK_INT(shop_order(shop.port, id, NULL, &response), 200);
    CHECK_STR(shop_text(&response, "state"), state);
    CHECK_STR(shop_text(&response, "order"), id);
}

static void check_step(const char *id, const char *step, const char *state) {
    struct web_response response;
    for (int i = 0; i < 2; i++) {
        CHECK_INT(shop_order(shop.port, id, step, &response), 200);
        CHECK_STR(web_header(&response, "Content-Type"), "application/json");
        CHECK_STR(shop_text(&response, "order"), id);
        CHECK_STR(shop_text(&response, "state"), state);
    }
    check_state(id, state);
}

static void check_refused(const char *id, const char *step, int status, const char *type) {
    struct web_response response;
    shop_order(shop.port, id, step, &response);
    CHECK_PROBLEM(&response, status, type);
}

/* The key still gets its first answer, and beside it the order's state now. */
static void check_replay(const char *item, const char *user, int quantity, const char *key,
                         const struct web_response *first, const char *state) {
    struct web_response response;
    CHECK_INT(shop_buy(shop.port, item, user, quantity, key, &response), 201);
    CHECK_STR(response.body, first->body);
    CHECK_STR(web_header(&response, "Idempotent-Replayed"), "true");
    CHECK_STR(web_header(&response, "Order-State"), state);
}

static void confirm(void) {
    struct web_response first;
    shop_put(shop.port, "c", "\"stock\":10,\"hold_seconds\":3600,\"per_user_limit\":5");
    const char *id = order("c", "u", 3, "k", &first);
    CHECK_STR(shop_text(&first, "state"), "held");
    CHECK_INT(strlen(shop_text(&first, "expires_at")), strlen("2030-01-31T20:00:00.000Z"));
    CHECK_INT(shop_audit(shop.port, "c", "held"), 3);
    check_state(id, "held");
    CHECK(!web_header(&first, "Order-State"));
    check_replay("c", "u", 3, "k", &first, "held");
    check_step(id, "confirm", "confirmed");
    check_refused(id, "cancel", 409, "order-confirmed");
    check_step(id, "confirm", "confirmed");
    check_replay("c", "u", 3, "k", &first, "confirmed");
    CHECK_INT(shop_audit(shop.port, "c", "sold"), 3);
    CHECK_INT(shop_audit(shop.port, "c", "available"), 7);
}

static void cancel(void) {
    struct web_response first, response;
    shop_put(shop.port, "x", "\"stock\":5,\"hold_seconds\":3600,\"per_user_limit\":5");
    const char *id = order("x", "u", 5, "k", &first);
    shop_buy(shop.port, "x", "v", 1, "k2", &response);
    CHECK_PROBLEM(&response, 409, "sold-out");
    check_step(id, "cancel", "cancelled");
    check_refused(id, "confirm", 409, "order-cancelled");
    check_step(id, "cancel", "cancelled");
    check_replay("x", "u", 5, "k", &first, "cancelled");
    CHECK_INT(shop_audit(shop.port, "x", "available"), 5);
    CHECK_INT(shop_audit(shop.port, "x", "cancelled"), 1);
    /* The units and the user's share are there again. */
    order("x", "u", 5, "k3", &response);
    CHECK_INT(shop_audit(shop.port, "x", "held"), 5);
}

static void born_confirmed(void) {
    struct web_response first;
    shop_put(shop.port, "b", "\"stock\":5");
    const char *id = order("b", "u", 2, "k", &first);
    check_step(id, "confirm", "confirmed");
    check_refused(id, "cancel", 409, "order-confirmed");
    CHECK_INT(shop_audit(shop.port, "b", "available"), 3);
}

struct expected {
    const char *path, *member;
    long long value;
};

static bool is_there(void *arg) {
    const struct expected *expected = arg;
    struct web_response response;
    return shop_get(shop.port, expected->path, &response) == 200 &&
           shop_number(&response, expected->member) == expected->value;
}

static bool is_expired(void *arg) {
    struct web_response response;
    return shop_order(shop.port, arg, NULL, &response) == 200 &&
           strcmp(shop_text(&response, "state"), "expired") == 0;
}

static void expire(void) {
    struct web_response first, settled, response;
    shop_put(shop.port, "e", "\"stock\":10,\"hold_seconds\":1,\"per_user_limit\":4");
    const char *id = order("e", "u", 4, "k", &first);
    check_step(order("e", "v", 3, "k2", &settled), "confirm", "confirmed");
    CHECK(harness_wait(is_expired, (void *)(uintptr_t)id, EXPIRY_MS));
    check_refused(id, "confirm", 410, "order-expired");
    check_refused(id, "cancel", 410, "order-expired");
    check_replay("e", "u", 4, "k", &first, "expired");
    check_state(shop_text(&settled, "order"), "confirmed");
    CHECK_INT(shop_audit(shop.port, "e", "available"), 7);
    CHECK_INT(shop_audit(shop.port, "e", "expired"), 1);
    check_step(order("e", "u", 4, "k3", &response), "cancel", "cancelled");
}

/* The units of a hold that nobody reads come back by themselves, once, also if two instances sweep. */
static void expire_unseen(void) {
    struct seckilld other;
    struct web_response response;
    seckilld_start(&other, 0, "--redis", shop_store_url(&shop.store), NULL);
    seckilld_wait_ready(&other, 200);
    double before = shop_metric(shop.port, "seckill_holds_expired_total") +
                    shop_metric(other.port, "seckill_holds_expired_total");
    shop_put(shop.port, "s", "\"stock\":250,\"hold_seconds\":1");
    for (int i = 0; i < 230; i++)
        order("s", "u", 1, harness_format("k%d", i), &response);
    struct expected background = {"/v1/items/s", "available", 250};
    CHECK(harness_wait(is_there, &background, EXPIRY_MS));
    CHECK_INT(shop_audit(shop.port, "s", "expired"), 230);
    CHECK_INT(shop_audit(shop.port, "s", "available"), 250);
    CHECK_INT(shop_metric(shop.port, "seckill_holds_expired_total") +
                  shop_metric(other.port, "seckill_holds_expired_total") - before,
              230);
}

/* Commands that the store has carried out, also inside of scripts. */
static long long commands(void) {
    const char *at = redis_command(&shop.redis, "INFO", "commandstats", NULL);
    long long sum = 0;
    while ((at = strstr(at, "calls=")))
        sum += strtoll(at += 6, NULL, 10);
    return sum;
}

/* The service alone, with items that had holds, costs the store less than 100 commands a second. */
static void idle(void) {
    enum { ITEMS = 40, LOOK_MS = 2000, MOST_A_SECOND = 100 };
    struct web_response response;
    double before = shop_metric(shop.port, "seckill_holds_expired_total");
    for (int i = 0; i < ITEMS; i++) {
        const char *name = harness_format("idle%d", i);
        shop_put(shop.port, name, "\"stock\":1,\"hold_seconds\":1");
        order(name, "u", 1, "k", &response);
    }
    int64_t deadline_ms = harness_now_ms() + EXPIRY_MS;
    while (shop_metric(shop.port, "seckill_holds_expired_total") < before + ITEMS) {
        CHECK(harness_now_ms() < deadline_ms);
        harness_pause_ms(100);
    }
    int64_t from_ms = harness_now_ms();
    long long from = commands();
    harness_pause_ms(LOOK_MS);
    long long cost = commands() - from;
    printf("     %lld commands in %d ms\n", cost, LOOK_MS);
    CHECK(cost * 1000 < MOST_A_SECOND * (harness_now_ms() - from_ms));
}

static void unknown_orders(void) {
    static const char digest[] = "AAAAAAAAAAAAAAAAAAAAAA";
    const char *const ids[] = {"x",
                               "none:",
                               ":AAAAAAAAAAAAAAAAAAAAAA",
                               harness_format("c:%s", digest),
                               harness_format("none:%s", digest),
                               harness_format("c:%sA", digest),
                               harness_format("c:%.21s", digest),
                               harness_format("c:%.21s%%20", digest),
                               harness_format("c:%.21s*", digest),
                               harness_format("{c}:%s", digest),
                               harness_format("a%%20b:%s", digest),
                               harness_format("%0600d", 0)};
    for (size_t i = 0; i < sizeof ids / sizeof *ids; i++) {
        check_refused(ids[i], NULL, 404, "unknown-order");
        if (strlen(ids[i]) < 500) {
            check_refused(ids[i], "confirm", 404, "unknown-order");
            check_refused(ids[i], "cancel", 404, "unknown-order");
        }
    }
}

static void bodies(void) {
    struct web_response response;
    const char *id = order("c", "w", 1, "bodies", &response);
    static const char *const bad[][2] = {
        {"{\"force\":true}", "force"}, {"[]", "body"}, {"null", "body"}, {"{", "body"}, {"{}{}", "body"}};
    const char *confirm_path = harness_format("/v1/orders/%s/confirm", id);
    const char *cancel_path = harness_format("/v1/orders/%s/cancel", id);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        web_call(shop.port, "POST", confirm_path, NULL, bad[i][0], &response);
        CHECK_PROBLEM(&response, 400, "invalid-request");
        CHECK_STR(shop_text(&response, "field"), bad[i][1]);
        web_call(shop.port, "POST", cancel_path, NULL, bad[i][0], &response);
        CHECK_PROBLEM(&response, 400, "invalid-request");
    }
    check_state(id, "held");
    CHECK_INT(web_call(shop.port, "POST", confirm_path, NULL, " {} ", NULL), 200);
    CHECK_INT(web_call(shop.port, "POST", confirm_path, NULL, NULL, NULL), 200);
}

/* ---- confirm and cancel at the same moment ---- */

struct crossing {
    const char *step;
    const char **ids;
    int status[CROSSINGS];
    const char *body[CROSSINGS];
};

static void *settle_all(void *arg) {
    struct crossing *crossing = arg;
    struct web_response response;
    for (int i = 0; i < CROSSINGS; i++) {
        crossing->status[i] = shop_order(shop.port, crossing->ids[i], crossing->step, &response);
        crossing->body[i] = response.body;
    }
    return NULL;
}

static void crossings(void) {
    struct web_response response;
    const char *ids[CROSSINGS];
    struct crossing both[2] = {{.step = "confirm", .ids = ids}, {.step = "cancel", .ids = ids}};
    pthread_t threads[2];
    shop_put(shop.port, "both", "\"stock\":100,\"hold_seconds\":3600");
    for (int i = 0; i < CROSSINGS; i++)
        ids[i] = order("both", "u", 1, harness_format("k%d", i), &response);
    for (int i = 0; i < 2; i++)
        CHECK_INT(pthread_create(&threads[i], NULL, settle_all, &both[i]), 0);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    int confirmed = 0;
    for (int i = 0; i < CROSSINGS; i++) {
        bool first = both[0].status[i] == 200;
        CHECK_INT(both[first].status[i], 409);
        CHECK_INT(both[!first].status[i], 200);
        CHECK_HAS(both[first].body[i], first ? "/order-confirmed\"" : "/order-cancelled\"");
        check_state(ids[i], first ? "confirmed" : "cancelled");
        confirmed += first;
    }
    CHECK_INT(shop_audit(shop.port, "both", "sold"), confirmed);
    CHECK_INT(shop_audit(shop.port, "both", "available"), 100 - confirmed);
}

static void the_end(void) {
    shop_close(&shop);
}

static void on_store(enum shop_kind kind, bool listing) {
    static const struct {
        const char *what;
        void (*test)(void);
    } tests[] = {
        {"confirm", confirm},
        {"cancel", cancel},
        {"an order born confirmed", born_confirmed},
        {"a hold expires", expire},
        {"holds that nobody reads expire, once", expire_unseen},
        {"unknown orders", unknown_orders},
        {"bodies of confirm and cancel", bodies},
        {"confirm and cancel at the same moment", crossings},
    };
    if (!listing)
        shop_open_on(&shop, kind);
    for (size_t i = 0; i < sizeof tests / sizeof *tests; i++)
        harness_run(harness_format("%s: %s", shop_kinds[kind], tests[i].what), tests[i].test);
    if (kind == SHOP_REDIS)
        harness_run("an idle service costs the store next to nothing", idle);
    harness_run(harness_format("%s: the end", shop_kinds[kind]), the_end);
}

int main(int argc, char **argv) {
    harness_begin(argc, argv);
    for (int kind = 0; kind < SHOP_KINDS; kind++)
        on_store((enum shop_kind)kind, argc >= 2 && strcmp(argv[1], "-l") == 0);
    return harness_finish();
}
