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

static void open_with_ttl(const char *lock_ttl_ms) {
    redis_start(&locks, NULL);
    seckilld_start(&service, 0, "--redis", empty_store(), "--basket", way, "--lock",
                   harness_format("redis://127.0.0.1:%d", locks.port), "--lock-ttl", lock_ttl_ms, NULL);
    port = service.port;
    seckilld_wait_ready(&service, 200);
}

static void open_shop(void) {
    open_with_ttl("10000");
    shop_put(port, "a", "\"stock\":10");
    shop_put(port, "b", "\"stock\":10,\"per_user_limit\":4");
    shop_put(port, "c", "\"stock\":10,\"strategy\":\"lua\"");
    shop_put(port, "held", "\"stock\":10,\"hold_seconds\":3600");
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

static void check_left(const char *item, int available, int held, int sold) {
    CHECK_INT(shop_audit(port, item, "available"), available);
    CHECK_INT(shop_audit(port, item, "held"), held);
    CHECK_INT(shop_audit(port, item, "sold"), sold);
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
    CHECK(!web_header(&first, "Idempotent-Replayed") && !web_header(&first, "Order-State"));
    const char *id = shop_text(&first, "basket");
    CHECK_STR(web_header(&first, "Location"), harness_format("/v1/baskets/%s", id));
    CHECK_STR(shop_text(&first, "user"), "ann");
    CHECK_STR(shop_text(&first, "state"), "confirmed");
    CHECK(!shop_has(&first, "expires_at") && !shop_has(&first, "orders.3"));
    check_order(&first, 0, "b", 1, "confirmed");
    check_order(&first, 1, "a", 2, "confirmed");
    check_order(&first, 2, "b", 3, "confirmed");
    check_left("a", 8, 0, 2);
    check_left("b", 6, 0, 4);
    CHECK_INT(shop_basket(port, "ann", "b:1 a:2 b:3", "k", &again), 201);
    CHECK_STR(again.body, first.body);
    CHECK_STR(web_header(&again, "Idempotent-Replayed"), "true");
    CHECK_STR(web_header(&again, "Order-State"), "confirmed");
    CHECK_STR(web_header(&again, "Location"), web_header(&first, "Location"));
    CHECK_INT(shop_basket_step(port, id, NULL, &found), 200);
    CHECK_STR(found.body, first.body);
    check_left("a", 8, 0, 2);
    check_left("b", 6, 0, 4);
    /* A key is its user's own. */
    CHECK_INT(shop_basket(port, "bob", "a:1 b:1", "k", &found), 201);
    CHECK(!web_header(&found, "Idempotent-Replayed") && strcmp(shop_text(&found, "basket"), id) != 0);
    shop_basket(port, "ann", "b:1 a:2 b:3", "k", &again);
    CHECK_STR(again.body, first.body);
    check_left("a", 7, 0, 3);
    close_whole();
}

static void check_refused(const char *lines, const char *type, int status, int line, const char *item) {
    struct web_response response;
    shop_basket(port, "ann", lines, "refused", &response);
    CHECK_PROBLEM(&response, status, type);
    CHECK_INT(shop_number(&response, "line"), line);
    CHECK_STR(shop_text(&response, "item"), item);
}

/* The same, with the term of the item that refused it. */
static void check_refused_by(const char *lines, const char *type, int line, const char *item,
                             const char *member, const char *term) {
    struct web_response response;
    check_refused(lines, type, 409, line, item);
    shop_basket(port, "ann", lines, "refused", &response);
    CHECK_HAS(response.body, harness_format("\"%s\":%s,", member, term));
    const char *bare = *term == '"' ? harness_format("%.*s", (int)strlen(term) - 2, term + 1) : term;
    CHECK_HAS(shop_text(&response, "detail"), bare);
}

static void refusals(void) {
    struct web_response response;
    open_shop();
    shop_put(port, "early", "\"stock\":10,\"starts_at\":\"2099-01-01T00:00:00Z\"");
    shop_put(port, "late", "\"stock\":10,\"ends_at\":\"2001-01-01T00:00:00Z\"");
    shop_put(port, harness_repeat('n', 64), "\"stock\":1");
    check_refused("c:1 a:11", "sold-out", 409, 1, "a");
    check_refused("c:1 a:6 b:1 a:5 c:11", "sold-out", 409, 3, "a");
    check_refused(harness_format("a:1 %s:2", harness_repeat('n', 64)), "sold-out", 409, 1,
                  harness_repeat('n', 64));
    check_refused_by("a:1 b:5", "purchase-limit", 1, "b", "limit", "4");
    check_refused_by("b:2 b:2 b:1", "purchase-limit", 2, "b", "limit", "4");
    check_refused_by("early:1 a:11", "not-started", 0, "early", "starts_at", "\"2099-01-01T00:00:00.000Z\"");
    check_refused_by("a:1 late:1", "ended", 1, "late", "ends_at", "\"2001-01-01T00:00:00.000Z\"");
    shop_put(port, harness_repeat('e', 64), "\"stock\":1,\"starts_at\":\"2099-01-01T00:00:00Z\"");
    check_refused_by(harness_format("a:1 %s:1", harness_repeat('e', 64)), "not-started", 1,
                     harness_repeat('e', 64), "starts_at", "\"2099-01-01T00:00:00.000Z\"");
    check_refused("a:1 nothing:1", "unknown-item", 404, 1, "nothing");
    shop_basket(port, "ann", "a:11", "refused", &response);
    CHECK_INT(shop_number(&response, "available"), 10);
    /* Nothing was taken, and the key may win. */
    check_left("a", 10, 0, 0);
    check_left("b", 10, 0, 0);
    CHECK_INT(shop_basket(port, "ann", "a:10 b:4", "refused", NULL), 201);
    shop_basket(port, "ann", "a:10 b:3", "refused", &response);
    CHECK_PROBLEM(&response, 422, "key-reused");
    shop_basket(port, "bob", "b:1 a:1", "refused", &response); /* ann's key is not bob's */
    CHECK_PROBLEM(&response, 409, "sold-out");
    CHECK_INT(shop_number(&response, "available"), 0);
    close_whole();
}

/* 400 that blames this field. */
static void check_invalid(const char *path, const char *body, const char *field) {
    struct web_response response;
    web_call(port, "POST", path, SECKILLD_ADMIN "Idempotency-Key: k\r\n", body, &response);
    CHECK_PROBLEM(&response, 400, "invalid-request");
    CHECK_STR(shop_text(&response, "field"), field);
}

static void nonsense(void) {
    struct web_response response;
    open_shop();
    static const char *const bad[][2] = {
        {"{\"user\":\"ann\",\"lines\":[]}", "lines"},
        {"{\"user\":\"ann\",\"lines\":{}}", "lines"},
        {"{\"user\":\"ann\"}", "lines"},
        {"{\"lines\":[{\"item\":\"a\",\"quantity\":1}]}", "user"},
        {"{\"user\":\"a b\",\"lines\":[{\"item\":\"a\",\"quantity\":1}]}", "user"},
        {"{\"user\":\"ann\",\"lines\":[1]}", "lines[0]"},
        {"{\"user\":\"ann\",\"lines\":[{\"item\":\"a\",\"quantity\":1},[]]}", "lines[1]"},
        {"{\"user\":\"ann\",\"lines\":[{\"item\":\"a\",\"quantity\":1},{\"item\":\"a\",\"quantity\":0}]}",
         "lines[1].quantity"},
        {"{\"user\":\"ann\",\"lines\":[{\"item\":\"a\",\"quantity\":1001}]}", "lines[0].quantity"},
        {"{\"user\":\"ann\",\"lines\":[{\"item\":\"a\",\"quantity\":1.0}]}", "lines[0].quantity"},
        {"{\"user\":\"ann\",\"lines\":[{\"item\":\"\",\"quantity\":1}]}", "lines[0].item"},
        {"{\"user\":\"ann\",\"lines\":[{\"quantity\":1}]}", "lines[0].item"},
        {"{\"user\":\"ann\",\"lines\":[{\"item\":\"a\",\"quantity\":1,\"x\":1}]}", "lines[0].x"},
        {"{\"user\":\"ann\",\"lines\":[{\"item\":\"a\",\"quantity\":1,\"item\":\"a\"}]}", "item"},
        {"{\"user\":\"ann\",\"lines\":[{\"item\":\"a\",\"quantity\":1}],\"x\":1}", "x"},
        {"{\"user\":\"ann\",\"lines\":[{\"item\":\"a\",\"quantity\":1}]} ,", "body"},
        {"", "body"}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        check_invalid("/v1/baskets", bad[i][0], bad[i][1]);
    char lines[512] = "";
    for (int i = 0; i < 32; i++)
        snprintf(lines + strlen(lines), sizeof lines - strlen(lines), "a:1 ");
    shop_basket(port, "ann", lines, "k", &response);
    CHECK_PROBLEM(&response, 409, "sold-out");
    check_invalid("/v1/baskets", shop_basket_body("ann", harness_format("%sa:1", lines)), "lines");
    static const char *const transfers[][2] = {
        {"{\"from\":\"a\",\"to\":\"b\"}", "quantity"},
        {"{\"from\":\"a\",\"quantity\":1}", "to"},
        {"{\"from\":\"a\",\"to\":\"a\",\"quantity\":1}", "to"},
        {"{\"from\":\"a\",\"to\":\"b\",\"quantity\":-1}", "quantity"},
        {"{\"from\":\"a/\",\"to\":\"b\",\"quantity\":1}", "from"},
        {"{\"from\":\"a\",\"to\":\"b\",\"quantity\":1,\"user\":\"ann\"}", "user"}};
    for (size_t i = 0; i < sizeof transfers / sizeof *transfers; i++)
        check_invalid("/v1/transfers", transfers[i][0], transfers[i][1]);
    web_call(port, "POST", "/v1/baskets", NULL, shop_basket_body("ann", "a:1"), &response);
    CHECK_PROBLEM(&response, 400, "key-missing");
    web_call(port, "POST", "/v1/transfers", SECKILLD_ADMIN, "{\"from\":\"a\",\"to\":\"b\",\"quantity\":1}",
             &response);
    CHECK_PROBLEM(&response, 400, "key-missing");
    web_call(port, "POST", "/v1/transfers", "Idempotency-Key: k\r\n",
             "{\"from\":\"a\",\"to\":\"b\",\"quantity\":1}", &response);
    CHECK_PROBLEM(&response, 401, "unauthorized");
    web_call(port, "PUT", "/v1/baskets", NULL, NULL, &response);
    CHECK_PROBLEM(&response, 405, "method-not-allowed");
    static const char *const unknown[] = {"x", "PVm-l7C4g_566Nm-GMu1rg", "PVm-l7C4g_566Nm-GMu1r%20",
                                          "a:PVm-l7C4g_566Nm-GMu1rg"};
    for (size_t i = 0; i < sizeof unknown / sizeof *unknown; i++) {
        shop_basket_step(port, unknown[i], NULL, &response);
        CHECK_PROBLEM(&response, 404, "unknown-basket");
        shop_basket_step(port, unknown[i], "confirm", &response);
        CHECK_PROBLEM(&response, 404, "unknown-basket");
    }
    check_left("a", 10, 0, 0);
    close_shop();
}

/* An item may be sold by a basket and, in whatever way, alone. */
static void strategies(void) {
    static const char *const names[] = {"batch", "lua", "decr", "optimistic", "naive", "locked"};
    char lines[256] = "";
    seckilld_start(&service, 0, "--redis", empty_store(), "--teaching", "--basket", way, NULL);
    port = service.port;
    seckilld_wait_ready(&service, 200);
    for (int i = 0; i < 6; i++) {
        shop_put(port, names[i],
                 harness_format("\"stock\":6,\"strategy\":\"%s\",\"per_user_limit\":4", names[i]));
        CHECK_INT(shop_buy(port, names[i], "ann", 1, "alone", NULL), 201);
        snprintf(lines + strlen(lines), sizeof lines - strlen(lines), "%s:3 ", names[i]);
    }
    CHECK_INT(shop_basket(port, "ann", lines, "k", NULL), 201);
    for (int i = 0; i < 6; i++) {
        check_left(names[i], 2, 0, 4);
        struct web_response response;
        shop_buy(port, names[i], "ann", 1, "more", &response);
        CHECK_PROBLEM(&response, 409, "purchase-limit");
        shop_buy(port, names[i], "bob", 3, "k", &response);
        CHECK_PROBLEM(&response, 409, "sold-out");
        CHECK_INT(shop_buy(port, names[i], "bob", 2, "k", NULL), 201);
        check_left(names[i], 0, 0, 6);
    }
    close_shop();
}

/* A basket that is not in the journal cannot be read, confirmed or cancelled. */
static void naive(void) {
    struct web_response first, again, found;
    seckilld_start(&service, 0, "--redis", empty_store(), "--teaching", "--basket", "naive", NULL);
    port = service.port;
    seckilld_wait_ready(&service, 200);
    shop_put(port, "a", "\"stock\":10");
    CHECK_INT(shop_basket(port, "ann", "a:2", "k", &first), 201);
    CHECK(!web_header(&first, "Location"));
    shop_basket_step(port, shop_text(&first, "basket"), NULL, &found);
    CHECK_PROBLEM(&found, 404, "unknown-basket");
    CHECK_INT(shop_basket(port, "ann", "a:2", "k", &again), 201);
    CHECK_STR(web_header(&again, "Idempotent-Replayed"), "true");
    CHECK(!web_header(&again, "Location") && !web_header(&again, "Order-State"));
    check_left("a", 8, 0, 2);
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
    check_left("a", 8, 2, 0);
    check_left("held", 7, 3, 0);
    CHECK_INT(shop_audit(port, "held", "pending"), 3);
    return shop_text(response, "basket");
}

static void check_settled(const char *id, const struct web_response *first, const char *state, int sold) {
    struct web_response response;
    CHECK_INT(shop_basket_step(port, id, NULL, &response), 200);
    CHECK_STR(shop_text(&response, "state"), state);
    check_order(&response, 0, "a", 2, state);
    check_order(&response, 1, "held", 3, state);
    check_left("a", 10 - 2 * sold, 0, 2 * sold);
    check_left("held", 10 - 3 * sold, 0, 3 * sold);
    check_left("b", 10 - sold, 0, sold);
    CHECK_INT(shop_audit(port, "held", "pending"), 0);
    CHECK_INT(shop_basket(port, "ann", "a:2 held:3 b:1", "k", &response), 201);
    CHECK_STR(response.body, first->body);
    CHECK_STR(web_header(&response, "Idempotent-Replayed"), "true");
    CHECK_STR(web_header(&response, "Order-State"), state);
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
    check_step(id, "confirm", 200, "confirmed");
    double acquired = shop_metric(port, "seckill_lock_acquired_total");
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
    open_with_ttl("10000");
    shop_put(port, "a", "\"stock\":10");
    shop_put(port, "b", "\"stock\":10");
    shop_put(port, "held", "\"stock\":10,\"hold_seconds\":1");
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
    check_left("a", 6, 0, 0);
    check_left("b", 14, 0, 0);
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
    shop_transfer(port, "nothing", "a", 1, "k2", &response);
    CHECK_PROBLEM(&response, 404, "unknown-item");
    shop_put(port, "brim", "\"stock\":1000000000");
    shop_transfer(port, "a", "brim", 1, "k2", &response);
    CHECK_PROBLEM(&response, 400, "invalid-request");
    CHECK_INT(shop_metric(port, "seckill_transfers_total{outcome=\"too_many\"}"), 1);
    /* One key, three places. */
    CHECK_INT(shop_basket(port, "ann", "a:1", "k", NULL), 201);
    CHECK_INT(shop_buy(port, "a", "ann", 1, "k", NULL), 201);
    check_left("a", 4, 0, 2);
    CHECK_INT(shop_metric(port, "seckill_transfers_total{outcome=\"sold\"}"), 1);
    CHECK_INT(shop_metric(port, "seckill_baskets_total{outcome=\"sold\"}"), 1);
    close_shop();
}

static void run(const char *how, const char *what, void (*test)(void)) {
    harness_run(harness_format("%s: %s%s%s", shop_kinds[kind], how, *how ? ": " : "", what), test);
}

/* A cluster makes no basket by one script: its items lie in several slots. */
static void across_slots(void) {
    struct web_response response;
    open_shop();
    shop_basket(port, "ann", "a:1", "k", &response); /* the journal has a slot, too */
    CHECK_PROBLEM(&response, 409, "cross-slot");
    shop_basket(port, "ann", "a:1 b:2", "k", &response);
    CHECK_PROBLEM(&response, 409, "cross-slot");
    check_left("a", 10, 0, 0);
    close_shop();
}

static void on_store(void) {
    static const char *const ways[] = {"locked", "script"};
    for (size_t i = 0; i < 2; i++) {
        way = ways[i];
        if (i == 1 && kind == SHOP_CLUSTER) {
            run(way, "across slots", across_slots);
            continue;
        }
        run(way, "a basket", a_basket);
        run(way, "the first line that fails is named", refusals);
        run(way, "items of every strategy", strategies);
        run(way, "what cannot be sold waits for no lock", without_locks);
        run(way, "a held basket is confirmed", confirm);
        run(way, "a held basket is cancelled", cancel);
        run(way, "a held basket expires", expire);
    }
    way = "locked";
    run("", "a naive basket is told without a place", naive);
    run("", "nonsense is blamed on its field", nonsense);
    run("", "transfers", transfers);
}

int main(int argc, char **argv) {
    harness_begin(argc, argv);
    for (int i = 0; i < SHOP_KINDS; i++) {
        kind = (enum shop_kind)i;
        if (*harness_dir())
            shop_store_start(&store, kind);
        on_store();
    }
    return harness_finish();
}
