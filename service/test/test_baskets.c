/* Baskets and transfers: every call and every answer of the contract, for each way of making them. */
#include <stdio.h>
#include <string.h>

#include "service/test/shop.h"

enum { EXPIRY_MS = 20000 };

static struct shop_store store;
static enum shop_kind kind;
static struct redis_server locks;
static struct seckilld service;
static int port;

/* A fresh shop; baskets are made in the way that is under test. */
static const char *way;

/* The URL of a store that has nothing. */
static const char *empty_store(void) {
    shop_store_flush(&store);
    return shop_store_url(&store);
}

static void open_with_hold(const char *hold_seconds) {
    redis_start(&locks, NULL);
    seckilld_start_ready(&service, 0, "--redis", empty_store(), "--basket", way, "--lock",
                         harness_format("redis://127.0.0.1:%d", locks.port), NULL);
    port = service.port;

    shop_put(port, "a", "\"stock\":10");
    shop_put(port, "b", "\"stock\":10,\"per_user_limit\":4");
    shop_put(port, "c", "\"stock\":10,\"strategy\":\"lua\"");
    shop_put(port, "held", harness_format("\"stock\":10,\"hold_seconds\":%s", hold_seconds));
}

static void open_shop(void) {
    open_with_hold("3600");
}

static void close_shop(void) {
    CHECK_INT(seckilld_stop(&service), 0);
}

/* Of all items together: nothing is lost between them. */
static void close_whole(void) {
    struct web_response response;
    CHECK_INT(shop_admin(port, "GET", "/v1/audit", NULL, &response), 200);
    CHECK_HAS(response.body, "{\"conserved\":true,");
    close_shop();
}

static void check_order(const struct web_response *basket, int line, const char *item, int quantity,
                        const char *state) {
    struct web_response order;
    CHECK_STR(shop_text(basket, harness_format("orders.%d.item", line)), item);
    CHECK_STR(shop_text(basket, harness_format("orders.%d.user", line)), "ann");
    CHECK_INT(shop_number(basket, harness_format("orders.%d.quantity", line)), quantity);
    CHECK_STR(shop_text(basket, harness_format("orders.%d.state", line)), state);
    const char *id = shop_text(basket, harness_format("orders.%d.order", line));
    CHECK_INT(shop_order(port, id, NULL, &order), 200);
    CHECK_STR(shop_text(&order, "order"), id);
    CHECK_STR(shop_text(&order, "item"), item);
    CHECK_STR(shop_text(&order, "user"), "ann");
    CHECK_INT(shop_number(&order, "quantity"), quantity);
    CHECK_STR(shop_text(&order, "state"), state);
}

static void a_basket(void) {
    struct web_response first, again, found;
    open_shop();
    CHECK_INT(shop_basket(port, "ann", "b:1 a:2 b:3", "k", &first), 201);
    CHECK_STR(web_header(&first, "Content-Type"), "application/json");
    CHECK(!web_header(&first, "Idempotent-Replayed"));
    const char *id = shop_text(&first, "basket");
    CHECK_STR(web_header(&first, "Location"), harness_format("/v1/baskets/%s", id));
    CHECK_STR(shop_text(&first, "user"), "ann");
    CHECK_STR(shop_text(&first, "state"), "confirmed");
    CHECK(!shop_has(&first, "expires_at") && !shop_has(&first, "orders.3"));
    check_order(&first, 0, "b", 1, "confirmed");
    check_order(&first, 1, "a", 2, "confirmed");
    check_order(&first, 2, "b", 3, "confirmed");
    shop_check_left(port, "a", 8, 0, 2);
    shop_check_left(port, "b", 6, 0, 4);
    CHECK_INT(shop_basket(port, "ann", "b:1 a:2 b:3", "k", &again), 201);
    CHECK_STR(again.body, first.body);
    CHECK_STR(web_header(&again, "Idempotent-Replayed"), "true");
    CHECK_STR(web_header(&again, "Location"), web_header(&first, "Location"));
    CHECK_INT(shop_basket_step(port, id, NULL, &found), 200);
    CHECK_STR(found.body, first.body);
    shop_check_left(port, "a", 8, 0, 2);
    shop_check_left(port, "b", 6, 0, 4);
    /* A key is its user's own. */
    CHECK_INT(shop_basket(port, "bob", "a:1 b:1", "k", &found), 201);
    CHECK(!web_header(&found, "Idempotent-Replayed") && strcmp(shop_text(&found, "basket"), id) != 0);
    shop_basket(port, "ann", "b:1 a:2 b:3", "k", &again);
    CHECK_STR(again.body, first.body);
    shop_check_left(port, "a", 7, 0, 3);
    close_whole();
}

/* Each outcome once; the line that refused is named, and the term of its item. */
static void refusals(void) {
    const char *longest = harness_repeat('e', 64);
    const struct {
        const char *lines, *type, *item;
        int status, line;
        const char *member, *term;
    } rows[] = {{"c:1 a:11", "sold-out", "a", 409, 1, "available", "10"},
                {"c:1 a:6 b:1 a:5 c:11", "sold-out", "a", 409, 3, "available", "10"},
                {"b:2 b:2 b:1", "purchase-limit", "b", 409, 2, "limit", "4"},
                {harness_format("a:1 %s:1", longest), "not-started", longest, 409, 1, "starts_at",
                 "\"2099-01-01T00:00:00.000Z\""},
                {"a:1 late:1", "ended", "late", 409, 1, "ends_at", "\"2001-01-01T00:00:00.000Z\""},
                {"a:1 nothing:1", "unknown-item", "nothing", 404, 1, "item", "\"nothing\""}};
    struct web_response response;
    open_shop();
    shop_put(port, longest, "\"stock\":1,\"starts_at\":\"2099-01-01T00:00:00Z\"");
    shop_put(port, "late", "\"stock\":10,\"ends_at\":\"2001-01-01T00:00:00Z\"");
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        shop_basket(port, "ann", rows[i].lines, "refused", &response);
        CHECK_PROBLEM(&response, rows[i].status, rows[i].type);
        CHECK_INT(shop_number(&response, "line"), rows[i].line);
        CHECK_STR(shop_text(&response, "item"), rows[i].item);
        CHECK_HAS(response.body, harness_format("\"%s\":%s", rows[i].member, rows[i].term));
    }
    /* Nothing was taken, and the key may win. */
    shop_check_left(port, "a", 10, 0, 0);
    shop_check_left(port, "b", 10, 0, 0);
    CHECK_INT(shop_basket(port, "ann", "a:10 b:4", "refused", NULL), 201);
    shop_basket(port, "ann", "a:10 b:3", "refused", &response);
    CHECK_PROBLEM(&response, 422, "key-reused");
    shop_basket(port, "bob", "b:1 a:1", "refused", &response); /* ann's key is not bob's */
    CHECK_PROBLEM(&response, 409, "sold-out");
    CHECK_INT(shop_number(&response, "available"), 0);
    close_whole();
}

/* The bodies are those of the codec's table (test_codec.c). */
static void nonsense(void) {
    static const char transfer[] = "{\"from\":\"a\",\"to\":\"b\",\"quantity\":1}";
    const char *basket = shop_basket_body("ann", "a:1"), *key = "Idempotency-Key: k\r\n";
    const struct {
        const char *method, *path, *headers, *body;
        int status;
        const char *type, *field;
    } rows[] = {
        {"POST", "/v1/baskets", key, "{\"user\":\"ann\",\"lines\":[1]}", 400, "invalid-request", "lines[0]"},
        {"POST", "/v1/transfers", SECKILLD_ADMIN "Idempotency-Key: k\r\n", "{\"from\":\"a\"}", 400,
         "invalid-request", "to"},
        {"POST", "/v1/baskets", NULL, basket, 400, "key-missing", NULL},
        {"POST", "/v1/transfers", SECKILLD_ADMIN, transfer, 400, "key-missing", NULL},
        {"POST", "/v1/transfers", key, transfer, 401, "unauthorized", NULL},
        {"PUT", "/v1/baskets", NULL, NULL, 405, "method-not-allowed", NULL},
        {"GET", "/v1/baskets/x", NULL, NULL, 404, "unknown-basket", NULL},
        {"GET", "/v1/baskets/PVm-l7C4g_566Nm-GMu1rg", NULL, NULL, 404, "unknown-basket", NULL},
        {"POST", "/v1/baskets/PVm-l7C4g_566Nm-GMu1rg/confirm", NULL, "", 404, "unknown-basket", NULL},
        {"POST", "/v1/baskets/PVm-l7C4g_566Nm-GMu1r%20/confirm", NULL, "", 404, "unknown-basket", NULL},
        {"GET", "/v1/baskets/a:PVm-l7C4g_566Nm-GMu1rg", NULL, NULL, 404, "unknown-basket", NULL}};
    struct web_response response;
    open_shop();
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        web_call(port, rows[i].method, rows[i].path, rows[i].headers, rows[i].body, &response);
        CHECK_PROBLEM(&response, rows[i].status, rows[i].type);
        if (rows[i].field)
            CHECK_STR(shop_text(&response, "field"), rows[i].field);
    }
    shop_check_left(port, "a", 10, 0, 0);
    close_shop();
}

/* An item may be sold by a basket and, in whatever way, alone. */
static void strategies(void) {
    static const char *const names[] = {"batch", "lua", "decr", "optimistic", "naive", "locked"};
    char lines[256] = "";
    seckilld_start_ready(&service, 0, "--redis", empty_store(), "--teaching", "--basket", way, NULL);
    port = service.port;

    for (int i = 0; i < 6; i++) {
        shop_put(port, names[i],
                 harness_format("\"stock\":6,\"strategy\":\"%s\",\"per_user_limit\":4", names[i]));
        CHECK_INT(shop_buy(port, names[i], "ann", 1, "alone", NULL), 201);
        snprintf(lines + strlen(lines), sizeof lines - strlen(lines), "%s:3 ", names[i]);
    }
    CHECK_INT(shop_basket(port, "ann", lines, "k", NULL), 201);
    for (int i = 0; i < 6; i++) {
        shop_check_left(port, names[i], 2, 0, 4);
        CHECK_INT(shop_buy(port, names[i], "ann", 1, "more", NULL), 409);
        CHECK_INT(shop_buy(port, names[i], "bob", 2, "k", NULL), 201);
    }
    close_shop();
}

/* A basket that is not in the journal cannot be read, confirmed or cancelled. */
static void naive(void) {
    struct web_response first, again, found;
    seckilld_start_ready(&service, 0, "--redis", empty_store(), "--teaching", "--basket", "naive", NULL);
    port = service.port;

    shop_put(port, "a", "\"stock\":10");
    CHECK_INT(shop_basket(port, "ann", "a:2", "k", &first), 201);
    CHECK(!web_header(&first, "Location"));
    shop_basket_step(port, shop_text(&first, "basket"), NULL, &found);
    CHECK_PROBLEM(&found, 404, "unknown-basket");
    CHECK_INT(shop_basket(port, "ann", "a:2", "k", &again), 201);
    CHECK_STR(web_header(&again, "Idempotent-Replayed"), "true");
    CHECK(!web_header(&again, "Location"));
    shop_check_left(port, "a", 8, 0, 2);
    close_shop();
}

/* ---- holds ---- */

static const char *hold(struct web_response *response) {
    CHECK_INT(shop_basket(port, "ann", "a:2 held:3 b:1", "k", response), 201);
    CHECK_STR(shop_text(response, "state"), "held");
    CHECK_INT(strlen(shop_text(response, "expires_at")), strlen("2030-01-31T20:00:00.000Z"));
    CHECK_STR(shop_text(response, "orders.0.expires_at"), shop_text(response, "expires_at"));
    check_order(response, 0, "a", 2, "held");
    check_order(response, 1, "held", 3, "held");
    shop_check_left(port, "a", 8, 2, 0);
    shop_check_left(port, "held", 7, 3, 0);
    CHECK_INT(shop_audit(port, "held", "pending"), 3);
    return shop_text(response, "basket");
}

static void check_settled(const char *id, const struct web_response *first, const char *state, int sold) {
    struct web_response response;
    CHECK_INT(shop_basket_step(port, id, NULL, &response), 200);
    CHECK_STR(shop_text(&response, "state"), state);
    check_order(&response, 0, "a", 2, state);
    check_order(&response, 1, "held", 3, state);
    shop_check_left(port, "a", 10 - 2 * sold, 0, 2 * sold);
    shop_check_left(port, "held", 10 - 3 * sold, 0, 3 * sold);
    shop_check_left(port, "b", 10 - sold, 0, sold);
    CHECK_INT(shop_audit(port, "held", "pending"), 0);
    CHECK_INT(shop_basket(port, "ann", "a:2 held:3 b:1", "k", &response), 201);
    CHECK_STR(shop_text(&response, "basket"), shop_text(first, "basket"));
    CHECK_STR(shop_text(&response, "state"), state);
    CHECK_STR(web_header(&response, "Idempotent-Replayed"), "true");
}

static void check_step(const char *id, const char *step, int status, const char *what) {
    struct web_response response;
    CHECK_INT(shop_basket_step(port, id, step, &response), status);
    if (status == 200)
        CHECK_STR(shop_text(&response, "state"), what);
    else
        CHECK_PROBLEM(&response, status, what);
}

/* What cannot be sold is refused while others have the locks of its items, and leaves nothing in the store
 * of the locks. A retry is answered. */
static void without_locks(void) {
    struct web_response response;
    open_shop();
    shop_put(port, "rare", "\"stock\":1");
    CHECK_INT(shop_basket(port, "ann", "a:1 rare:1", "k", &response), 201);
    static const char *const items[] = {"a", "b", "c", "rare"};
    for (int i = 0; i < 4; i++)
        redis_command(&locks, "SET", harness_format("lock:{seckill:%s}", items[i]), "somebody", NULL);
    double acquired = shop_metric(port, "seckill_lock_acquired_total");
    shop_basket(port, "ann", "a:1 b:1 rare:1", "k2", &response);
    CHECK_PROBLEM(&response, 409, "sold-out");
    shop_basket(port, "ann", "a:1 b:5", "k2", &response);
    CHECK_PROBLEM(&response, 409, "purchase-limit");
    shop_basket(port, "ann", "a:1 nothing:1", "k2", &response);
    CHECK_PROBLEM(&response, 404, "unknown-item");
    CHECK_INT(shop_basket(port, "ann", "a:1 rare:1", "k", &response), 201);
    CHECK_STR(web_header(&response, "Idempotent-Replayed"), "true");
    CHECK_INT(redis_integer(&locks, "EXISTS", "lock:{seckill:nothing}:fence", NULL), 0);
    CHECK_INT(shop_metric(port, "seckill_lock_acquired_total"), acquired);
    close_shop();
}

static void confirm(void) {
    struct web_response first, response;
    open_shop();
    const char *id = hold(&first);
    static const char *const steps[] = {"confirm", "cancel"};
    for (int i = 0; i < 2; i++) {
        shop_order(port, shop_text(&first, "orders.1.order"), steps[i], &response);
        CHECK_PROBLEM(&response, 409, "basket-order");
    }
    web_call(port, "POST", harness_format("/v1/baskets/%s/confirm", id), NULL, "{\"x\":1}", &response);
    CHECK_PROBLEM(&response, 400, "invalid-request");
    double acquired = shop_metric(port, "seckill_lock_acquired_total");
    check_step(id, "confirm", 200, "confirmed");
    check_step(id, "confirm", 200, "confirmed");
    check_step(id, "cancel", 409, "order-confirmed");
    check_settled(id, &first, "confirmed", 1);
    CHECK_INT(shop_metric(port, "seckill_lock_acquired_total"), acquired);
    close_whole();
}

static void cancel(void) {
    struct web_response first;
    open_shop();
    const char *id = hold(&first);
    check_step(id, "cancel", 200, "cancelled");
    check_step(id, "confirm", 409, "order-cancelled");
    check_settled(id, &first, "cancelled", 0);
    close_whole();
}

static const char *waited_for;
static bool is_expired(void *arg) {
    struct web_response response;
    (void)arg;
    CHECK_INT(shop_basket_step(port, waited_for, NULL, &response), 200);
    return strcmp(shop_text(&response, "state"), "expired") == 0;
}

static bool is_counted(void *arg) {
    (void)arg;
    return shop_metric(port, "seckill_recovered_total{outcome=\"finished\"}") == 1;
}

static void expire(void) {
    struct web_response first;
    open_with_hold("1");
    waited_for = hold(&first);
    CHECK(harness_wait(is_expired, NULL, EXPIRY_MS));
    check_step(waited_for, "confirm", 410, "order-expired");
    check_step(waited_for, "cancel", 410, "order-expired");
    check_settled(waited_for, &first, "expired", 0);
    CHECK(harness_wait(is_counted, NULL, EXPIRY_MS));
    close_whole();
}

/* ---- transfers ---- */

static void transfers(void) {
    struct web_response first, response;
    open_shop();
    CHECK_INT(shop_transfer(port, "a", "b", 4, "k", &first), 200);
    CHECK_STR(shop_text(&first, "from"), "a");
    CHECK_STR(shop_text(&first, "to"), "b");
    CHECK_INT(shop_number(&first, "quantity"), 4);
    CHECK_INT(strlen(shop_text(&first, "transfer")), 22);
    CHECK(!web_header(&first, "Idempotent-Replayed") && !web_header(&first, "Location"));
    shop_check_left(port, "a", 6, 0, 0);
    shop_check_left(port, "b", 14, 0, 0);
    CHECK_INT(shop_audit(port, "a", "stock"), 6);
    CHECK_INT(shop_audit(port, "b", "stock"), 14);
    CHECK_INT(shop_transfer(port, "a", "b", 4, "k", &response), 200);
    CHECK_STR(response.body, first.body);
    CHECK_STR(web_header(&response, "Idempotent-Replayed"), "true");
    shop_transfer(port, "b", "a", 4, "k", &response);
    CHECK_PROBLEM(&response, 422, "key-reused");
    shop_transfer(port, "a", "b", 7, "k2", &response);
    CHECK_PROBLEM(&response, 409, "sold-out");
    CHECK_INT(shop_number(&response, "available"), 6);
    CHECK_STR(shop_text(&response, "item"), "a");
    CHECK(!shop_has(&response, "line"));
    shop_transfer(port, "a", "nothing", 1, "k2", &response);
    CHECK_PROBLEM(&response, 404, "unknown-item");
    CHECK_STR(shop_text(&response, "item"), "nothing");
    shop_put(port, "brim", "\"stock\":1000000000");
    shop_transfer(port, "a", "brim", 1, "k2", &response);
    CHECK_PROBLEM(&response, 400, "invalid-request");
    CHECK_INT(shop_metric(port, "seckill_transfers_total{outcome=\"too_many\"}"), 1);
    /* One key, three places. */
    CHECK_INT(shop_basket(port, "ann", "a:1", "k", NULL), 201);
    CHECK_INT(shop_buy(port, "a", "ann", 1, "k", NULL), 201);
    shop_check_left(port, "a", 4, 0, 2);
    CHECK_INT(shop_metric(port, "seckill_transfers_total{outcome=\"sold\"}"), 1);
    CHECK_INT(shop_metric(port, "seckill_baskets_total{outcome=\"sold\"}"), 1);
    close_shop();
}

/* A cluster makes no basket by one script: its items lie in several slots. */
static void across_slots(void) {
    struct web_response response;
    open_shop();
    shop_basket(port, "ann", "a:1", "k", &response); /* the journal has a slot, too */
    CHECK_PROBLEM(&response, 409, "cross-slot");
    shop_basket(port, "ann", "a:1 b:2", "k", &response);
    CHECK_PROBLEM(&response, 409, "cross-slot");
    shop_check_left(port, "a", 10, 0, 0);
    close_shop();
}

/* In which way, and on which stores: on all, or on one Redis alone. */
enum { LOCKED = 1, SCRIPT = 2, REDIS_LOCKED = 4, REDIS_SCRIPT = 8, CLUSTER_SCRIPT = 16 };

static const struct {
    const char *what;
    void (*test)(void);
    int ways;
} tests[] = {{"a basket", a_basket, LOCKED | SCRIPT},
             {"the line that fails is named", refusals, LOCKED | SCRIPT},
             {"items of every strategy", strategies, REDIS_LOCKED | REDIS_SCRIPT},
             {"what cannot be sold waits for no lock", without_locks, REDIS_LOCKED | REDIS_SCRIPT},
             {"a held basket is confirmed", confirm, LOCKED | SCRIPT},
             {"a held basket is cancelled", cancel, REDIS_LOCKED | REDIS_SCRIPT},
             {"a held basket expires", expire, REDIS_LOCKED | REDIS_SCRIPT},
             {"across slots", across_slots, CLUSTER_SCRIPT},
             {"transfers", transfers, LOCKED},
             {"a naive basket is told without a place", naive, REDIS_LOCKED},
             {"nonsense is blamed on its field", nonsense, REDIS_LOCKED}};

static void on_store(const char *basket, int ways) {
    way = basket;
    for (size_t i = 0; i < sizeof tests / sizeof *tests; i++)
        if (tests[i].ways & ways)
            harness_run(harness_format("%s: %s: %s", shop_kinds[kind], way, tests[i].what), tests[i].test);
}

int main(int argc, char **argv) {
    harness_begin(argc, argv);
    for (int i = 0; i < SHOP_KINDS; i++) {
        kind = (enum shop_kind)i;
        if (*harness_dir())
            shop_store_start(&store, kind);
        on_store("locked", kind == SHOP_REDIS ? LOCKED | REDIS_LOCKED : LOCKED);
        on_store("script", kind == SHOP_CLUSTER ? CLUSTER_SCRIPT
                           : kind == SHOP_REDIS ? SCRIPT | REDIS_SCRIPT
                                                : SCRIPT);
    }
    return harness_finish();
}
