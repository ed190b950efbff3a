/* Items, purchases and orders: every call and every answer of the contract, on each kind of store. (In what
 * order there are reasons to refuse, and what becomes of the units, is tested in inventory/test.) */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "service/test/shop.h"

enum { EXPIRY_MS = 20000 };

static struct shop shop;

/* An RFC 3339 time so many seconds from now. */
static const char *from_now(int seconds) {
    char *text = harness_alloc(32);
    time_t at = time(NULL) + seconds;
    struct tm parts;
    CHECK(gmtime_r(&at, &parts) && strftime(text, 32, "%Y-%m-%dT%H:%M:%SZ", &parts) > 0);
    return text;
}

/* 400 that blames this field. */
static void check_invalid(const struct web_response *response, const char *field) {
    CHECK_PROBLEM(response, 400, "invalid-request");
    CHECK_STR(shop_text(response, "field"), field);
}

/* ---- items ---- */

static void check_item(const struct web_response *response, const char *item, long long stock,
                       long long available, long long sold) {
    CHECK_STR(web_header(response, "Content-Type"), "application/json");
    if (response->status == 200)
        CHECK_STR(web_header(response, "Cache-Control"), "no-store");
    CHECK_STR(shop_text(response, "item"), item);
    CHECK_INT(shop_number(response, "stock"), stock);
    CHECK_INT(shop_number(response, "available"), available);
    CHECK_INT(shop_number(response, "held"), 0);
    CHECK_INT(shop_number(response, "sold"), sold);
}

static void put_an_item(void) {
    struct web_response response;
    static const char terms[] = "{\"stock\":100}";
    CHECK_INT(shop_admin(shop.port, "PUT", "/v1/items/put", terms, &response), 201);
    CHECK_STR(web_header(&response, "Location"), "/v1/items/put");
    check_item(&response, "put", 100, 100, 0);
    CHECK_STR(shop_text(&response, "strategy"), "batch");
    CHECK_INT(shop_number(&response, "per_user_limit"), 0);
    CHECK_INT(shop_number(&response, "hold_seconds"), 0);
    CHECK(!shop_has(&response, "starts_at") && !shop_has(&response, "ends_at"));
    CHECK_INT(shop_admin(shop.port, "PUT", "/v1/items/put", terms, &response), 200);
    check_item(&response, "put", 100, 100, 0);
    static const char *const other[][3] = {
        {"{\"stock\":101}", "\"stock\"", "stock 100"},
        {"{\"stock\":100,\"per_user_limit\":1}", "\"per_user_limit\"", "per_user_limit 0"},
        {"{\"stock\":100,\"hold_seconds\":1}", "\"hold_seconds\"", "hold_seconds 0"},
        {"{\"stock\":100,\"strategy\":\"lua\"}", "\"strategy\"", "strategy batch"},
        {"{\"stock\":100,\"ends_at\":\"2099-01-01T00:00:00Z\"}", "\"ends_at\"", "ends_at left out"},
        {"{\"stock\":1,\"hold_seconds\":2}", "\"stock\",\"hold_seconds\"", "stock 100, hold_seconds 0"}};
    for (size_t i = 0; i < sizeof other / sizeof *other; i++) {
        shop_admin(shop.port, "PUT", "/v1/items/put", other[i][0], &response);
        CHECK_PROBLEM(&response, 409, "item-exists");
        CHECK_HAS(response.body, harness_format("\"differs\":[%s]", other[i][1]));
        CHECK_STR(shop_text(&response, "detail"),
                  harness_format("terms do not change; it is on sale with %s", other[i][2]));
    }
    /* The same terms written otherwise, on an item that has sold and was restocked since. */
    CHECK_INT(shop_buy(shop.port, "put", "u", 30, "k", NULL), 201);
    CHECK_INT(shop_restock(shop.port, "put", 5, "r", NULL), 200);
    CHECK_INT(shop_admin(shop.port, "PUT", "/v1/items/put",
                         " {\"strategy\":\"batch\", \"hold_seconds\":0,\"stock\" : 100}", &response),
              200);
    check_item(&response, "put", 105, 75, 30);
    CHECK_INT(shop_get(shop.port, "/v1/items/put", &response), 200);
    check_item(&response, "put", 105, 75, 30);
}

static void put_all_terms(void) {
    struct web_response response;
    static const char terms[] =
        "{\"stock\":0,\"per_user_limit\":3,\"starts_at\":\"2030-01-31T20:00:00+01:00\","
        "\"ends_at\":\"2030-02-01T00:00:00.250Z\",\"hold_seconds\":60,\"strategy\":\"decr\"}";
    const char *name = harness_repeat('A', 64), *path = harness_format("/v1/items/%s", name);
    CHECK_INT(shop_admin(shop.port, "PUT", path, terms, &response), 201);
    CHECK_INT(shop_get(shop.port, path, &response), 200);
    check_item(&response, name, 0, 0, 0);
    CHECK_INT(shop_number(&response, "per_user_limit"), 3);
    CHECK_INT(shop_number(&response, "hold_seconds"), 60);
    CHECK_STR(shop_text(&response, "strategy"), "decr");
    CHECK_STR(shop_text(&response, "starts_at"), "2030-01-31T19:00:00.000Z");
    CHECK_STR(shop_text(&response, "ends_at"), "2030-02-01T00:00:00.250Z");
}

static void put_nonsense(void) {
    static const char *const bad[][3] = {{"x", "", "body"},
                                         {"x", "{\"stock\":1,\"colour\":\"red\"}", "colour"},
                                         {"a%20b", "{\"stock\":1}", "item"},
                                         {"a:b", "{\"stock\":1}", "item"},
                                         {"%7Bx%7D", "{\"stock\":1}", "item"},
                                         {"caf%c3%a9", "{\"stock\":1}", "item"},
                                         {"x%00y", "{\"stock\":1}", "item"}};
    static const size_t lengths[] = {65, 500, 511, 512, 1000, 4000};
    struct web_response response;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        shop_admin(shop.port, "PUT", harness_format("/v1/items/%s", bad[i][0]), bad[i][1], &response);
        check_invalid(&response, bad[i][2]);
    }
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        const char *path = harness_format("/v1/items/%s", harness_repeat('i', lengths[i]));
        shop_admin(shop.port, "PUT", path, "{\"stock\":1}", &response);
        CHECK_PROBLEM(&response, 400, "invalid-request");
        shop_get(shop.port, path, &response);
        CHECK_PROBLEM(&response, 400, "invalid-request");
    }
    shop_admin(shop.port, "PUT", "/v1/items/taught", "{\"stock\":1,\"strategy\":\"naive\"}", &response);
    CHECK_PROBLEM(&response, 409, "teaching-only");
    shop_get(shop.port, "/v1/items/x", &response);
    CHECK_PROBLEM(&response, 404, "unknown-item");
}

static void the_services_strategy(void) {
    struct seckilld service;
    struct web_response response;
    seckilld_start_ready(&service, 0, "--redis", shop_store_url(&shop.store), "--strategy", "optimistic",
                         NULL);
    shop_put(service.port, "as-started", "\"stock\":1");
    CHECK_INT(shop_get(shop.port, "/v1/items/as-started", &response), 200);
    CHECK_STR(shop_text(&response, "strategy"), "optimistic");
}

/* ---- purchases ---- */

static void check_bought(const struct web_response *response, const char *item, const char *user,
                         int quantity, bool replayed) {
    CHECK_INT(response->status, 201);
    CHECK_STR(web_header(response, "Content-Type"), "application/json");
    CHECK_STR(web_header(response, "Location"),
              harness_format("/v1/orders/%s", shop_text(response, "order")));
    CHECK_STR(shop_text(response, "item"), item);
    CHECK_STR(shop_text(response, "user"), user);
    CHECK_INT(shop_number(response, "quantity"), quantity);
    const char *header = web_header(response, "Idempotent-Replayed");
    CHECK(replayed ? header && strcmp(header, "true") == 0 : !header);
}

/* The key's order again, as it is now. */
static void check_replay(const char *item, const char *user, int quantity, const char *key,
                         const struct web_response *first, const char *state) {
    struct web_response again;
    shop_buy(shop.port, item, user, quantity, key, &again);
    check_bought(&again, item, user, quantity, true);
    CHECK_STR(shop_text(&again, "order"), shop_text(first, "order"));
    CHECK_STR(shop_text(&again, "state"), state);
    CHECK_STR(web_header(&again, "Location"), web_header(first, "Location"));
}

/* Sold, sold out, and sold again. A rejection is not remembered: its key may still win. */
static void buy(void) {
    struct web_response first, response, order;
    const char *longest = harness_repeat('u', 64);
    shop_put(shop.port, "sneaker", "\"stock\":1002");
    shop_buy(shop.port, "sneaker", longest, 1000, "k1", &first);
    check_bought(&first, "sneaker", longest, 1000, false);
    CHECK_STR(shop_text(&first, "state"), "confirmed");
    CHECK(!shop_has(&first, "expires_at"));
    CHECK_INT(shop_order(shop.port, shop_text(&first, "order"), NULL, &order), 200);
    CHECK_STR(order.body, first.body);
    check_replay("sneaker", longest, 1000, "k1", &first, "confirmed");
    shop_buy(shop.port, "sneaker", "u2", 3, "k2", &response);
    CHECK_PROBLEM(&response, 409, "sold-out");
    CHECK_INT(shop_number(&response, "available"), 2);
    CHECK_INT(shop_restock(shop.port, "sneaker", 1, "r", NULL), 200);
    shop_buy(shop.port, "sneaker", "u2", 3, "k2", &response);
    check_bought(&response, "sneaker", "u2", 3, false);
    check_replay("sneaker", longest, 1000, "k1", &first, "confirmed");
    CHECK_INT(shop_audit(shop.port, "sneaker", "sold"), 1003);
}

/* The refusals name the term that refused, also to many at once. */
static void refusals_name_the_term(void) {
    enum { MANY = 40 };
    static struct web_conn conns[MANY];
    struct web_response response;
    const char *start = from_now(3600), *end = from_now(-3600);
    shop_put(shop.port, "two-each", "\"stock\":10,\"per_user_limit\":2");
    shop_put(shop.port, "to-come", harness_format("\"stock\":10,\"starts_at\":\"%s\"", start));
    shop_put(shop.port, "gone-by", harness_format("\"stock\":10,\"ends_at\":\"%s\"", end));
    shop_put(shop.port, "now",
             harness_format("\"stock\":1,\"starts_at\":\"%s\",\"ends_at\":\"%s\"", end, start));
    CHECK_INT(shop_buy(shop.port, "now", "u", 1, "k", NULL), 201);
    CHECK_INT(shop_buy(shop.port, "two-each", "u", 2, "k", NULL), 201);
    static const char *const items[] = {"two-each", "to-come", "gone-by"};
    for (int i = 0; i < MANY; i++) {
        CHECK(web_open(&conns[i], shop.port));
        web_send_text(&conns[i], shop_purchase_raw(items[i % 3], "u", 1, harness_format("k-%d", i)));
    }
    for (int i = 0; i < MANY; i++) {
        CHECK_INT(web_read_response(&conns[i], &response), WEB_OK);
        web_close(&conns[i]);
        if (i % 3 == 0) {
            CHECK_PROBLEM(&response, 409, "purchase-limit");
            CHECK_INT(shop_number(&response, "limit"), 2);
            continue;
        }
        CHECK_PROBLEM(&response, 409, i % 3 == 1 ? "not-started" : "ended");
        const char *at = shop_text(&response, i % 3 == 1 ? "starts_at" : "ends_at");
        CHECK(strncmp(at, i % 3 == 1 ? start : end, 19) == 0);
        CHECK_HAS(shop_text(&response, "detail"), at);
    }
}

static void unknown_items(void) {
    struct web_response response;
    shop_buy(shop.port, "nothing", "u", 1, "k", &response);
    CHECK_PROBLEM(&response, 404, "unknown-item");
    shop_get(shop.port, "/v1/items/nothing", &response);
    CHECK_PROBLEM(&response, 404, "unknown-item");
    shop_admin(shop.port, "GET", "/v1/items/nothing/audit", NULL, &response);
    CHECK_PROBLEM(&response, 404, "unknown-item");
    shop_restock(shop.port, "nothing", 1, "k", &response);
    CHECK_PROBLEM(&response, 404, "unknown-item");
    shop_put(shop.port, "nothing", "\"stock\":1");
    CHECK_INT(shop_buy(shop.port, "nothing", "u", 1, "k", NULL), 201);
}

static int buy_with(const char *headers, const char *body, struct web_response *response) {
    return web_call(shop.port, "POST", "/v1/purchases", headers, body, response);
}

static void keys(void) {
    struct web_response response;
    shop_put(shop.port, "keyed", "\"stock\":100");
    const char *body = shop_purchase_body("keyed", "u", 1);
    static const char *const missing[] = {NULL, "Idempotency-Key:\r\n", "Idempotency-Key:  \r\n",
                                          "Idempotency: k\r\n"};
    for (size_t i = 0; i < sizeof missing / sizeof *missing; i++) {
        buy_with(missing[i], body, &response);
        CHECK_PROBLEM(&response, 400, "key-missing");
        CHECK_HAS(shop_text(&response, "detail"), i == 1 || i == 2 ? "is empty" : "send an Idempotency-Key");
    }
    const char *const bad[][2] = {{harness_repeat('k', 256), "has 256 characters; at most 255 are allowed"},
                                  {"two words", "has a character at 3,"},
                                  {"caf\xc3\xa9", "at 3,"},
                                  {"\xff", "at 0,"},
                                  {"a\x01z", "at 1,"},
                                  {"a\x7fz", "at 1,"},
                                  {"tab\tbed", "at 3,"}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        buy_with(harness_format("Idempotency-Key: %s\r\n", bad[i][0]), body, &response);
        check_invalid(&response, "Idempotency-Key");
        CHECK_HAS(shop_text(&response, "detail"), bad[i][1]);
    }
    const char *const good[] = {harness_repeat('k', 255), "k", "!", "~", "\"{}\\':;"};
    for (size_t i = 0; i < 2 * (sizeof good / sizeof *good); i++) {
        CHECK_INT(buy_with(harness_format("idempotency-KEY:%s \r\n", good[i / 2]), body, &response), 201);
        check_bought(&response, "keyed", "u", 1, i % 2);
    }
    CHECK_INT(shop_audit(shop.port, "keyed", "orders"), sizeof good / sizeof *good);
    /* Blanks behind a value are none of it: browsers send such cookies. */
    static const char *const blanks[] = {"Cookie: a=b; \r\n", "Cookie: \r\n", "Cookie:\r\n",
                                         "Accept: */* \t \r\n", "Accept: */* \nCookie: a=b; c=d; \n"};
    for (size_t i = 0; i < sizeof blanks / sizeof *blanks; i++) {
        buy_with(harness_format("%sIdempotency-Key: k\r\n%s", blanks[i], blanks[i]), body, &response);
        check_bought(&response, "keyed", "u", 1, true);
    }
    buy_with("Idempotency-Key: k\r\n", shop_purchase_body("keyed", "u", 0), &response);
    check_invalid(&response, "quantity");
}

/* A key belongs to one request of one user. Who guesses another's burns nothing with it, and learns nothing.
 */
static void keys_of_others(void) {
    struct web_response mallory, response, again;
    shop_put(shop.port, "wanted", "\"stock\":9,\"per_user_limit\":3");
    CHECK_INT(shop_buy(shop.port, "wanted", "mallory", 3, "order-1", &mallory), 201);
    CHECK_INT(shop_buy(shop.port, "wanted", "ann", 1, "order-1", &response), 201);
    check_bought(&response, "wanted", "ann", 1, false);
    CHECK(strcmp(shop_text(&response, "order"), shop_text(&mallory, "order")) != 0);
    shop_buy(shop.port, "wanted", "ann", 2, "order-1", &again);
    CHECK_PROBLEM(&again, 422, "key-reused");
    check_replay("wanted", "ann", 1, "order-1", &response, "confirmed");
    check_replay("wanted", "mallory", 3, "order-1", &mallory, "confirmed");
    CHECK_INT(shop_audit(shop.port, "wanted", "sold"), 4);
}

/* ---- orders ---- */

static const char *hold(const char *item, int quantity, const char *key, struct web_response *first) {
    CHECK_INT(shop_buy(shop.port, item, "u", quantity, key, first), 201);
    CHECK_STR(shop_text(first, "state"), "held");
    CHECK_INT(strlen(shop_text(first, "expires_at")), strlen("2030-01-31T20:00:00.000Z"));
    CHECK_INT(shop_audit(shop.port, item, "held"), quantity);
    check_replay(item, "u", quantity, key, first, "held");
    return shop_text(first, "order");
}

/* Twice, which is once. */
static void check_step(const char *id, const char *step, const char *state) {
    struct web_response response;
    const char *const steps[] = {step, step, NULL};
    for (int i = 0; i < 3; i++) {
        CHECK_INT(shop_order(shop.port, id, steps[i], &response), 200);
        CHECK_STR(web_header(&response, "Content-Type"), "application/json");
        CHECK_STR(shop_text(&response, "order"), id);
        CHECK_STR(shop_text(&response, "state"), state);
    }
}

static void check_refused(const char *id, const char *step, int status, const char *type) {
    struct web_response response;
    shop_order(shop.port, id, step, &response);
    CHECK_PROBLEM(&response, status, type);
}

static void settle(void) {
    struct web_response first;
    shop_put(shop.port, "c", "\"stock\":10,\"hold_seconds\":3600");
    const char *id = hold("c", 3, "k", &first);
    check_step(id, "confirm", "confirmed");
    check_refused(id, "cancel", 409, "order-confirmed");
    check_replay("c", "u", 3, "k", &first, "confirmed");
    id = hold("c", 4, "k2", &first);
    check_step(id, "cancel", "cancelled");
    check_refused(id, "confirm", 409, "order-cancelled");
    check_replay("c", "u", 4, "k2", &first, "cancelled");
    CHECK_INT(shop_audit(shop.port, "c", "available"), 7);
}

static bool is_expired(void *arg) {
    struct web_response response;
    return shop_order(shop.port, arg, NULL, &response) == 200 &&
           strcmp(shop_text(&response, "state"), "expired") == 0;
}

static void expire(void) {
    struct web_response first;
    shop_put(shop.port, "e", "\"stock\":10,\"hold_seconds\":1");
    const char *id = hold("e", 4, "k", &first);
    CHECK(harness_wait(is_expired, (void *)(uintptr_t)id, EXPIRY_MS));
    check_refused(id, "cancel", 410, "order-expired");
    check_replay("e", "u", 4, "k", &first, "expired");
    CHECK_INT(shop_audit(shop.port, "e", "available"), 10);
}

static void unknown_orders(void) {
    static const char digest[] = "AAAAAAAAAAAAAAAAAAAAAA";
    const char *const ids[] = {"x",
                               "none:",
                               ":AAAAAAAAAAAAAAAAAAAAAA",
                               harness_format("none:%s", digest),
                               harness_format("c:%sA", digest),
                               harness_format("c:%.21s", digest),
                               harness_format("c:%.21s%%20", digest),
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

static void bodies_of_steps(void) {
    struct web_response response;
    static const char *const steps[] = {"confirm", "cancel"};
    shop_put(shop.port, "bodies", "\"stock\":10,\"hold_seconds\":3600");
    CHECK_INT(shop_buy(shop.port, "bodies", "w", 1, "k", &response), 201);
    const char *id = shop_text(&response, "order");
    for (int i = 0; i < 2; i++) {
        const char *path = harness_format("/v1/orders/%s/%s", id, steps[i]);
        web_call(shop.port, "POST", path, NULL, "{\"force\":true}", &response);
        check_invalid(&response, "force");
    }
    const char *confirm = harness_format("/v1/orders/%s/confirm", id);
    CHECK_INT(web_call(shop.port, "POST", confirm, NULL, " {} ", NULL), 200);
    CHECK_INT(web_call(shop.port, "POST", confirm, NULL, NULL, NULL), 200);
}

/* Commands that the store has carried out, also inside of scripts; but for the looks into 64 indexes of due
 * times, which one script makes. */
static long long commands(void) {
    const char *at = redis_command(&shop.redis, "INFO", "commandstats", NULL);
    long long sum = 0;
    while ((at = strstr(at, "calls=")))
        sum += strtoll(at += 6, NULL, 10);
    at = strstr(redis_command(&shop.redis, "INFO", "commandstats", NULL), "zrangebyscore:calls=");
    sum -= at ? strtoll(strchr(at, '=') + 1, NULL, 10) : 0;
    return sum;
}

/* The service alone, with items that had holds, costs the store less than 100 commands a second. */
static void idle(void) {
    enum { ITEMS = 40, LOOK_MS = 2000, MOST_A_SECOND = 100 };
    double before = shop_metric(shop.port, "seckill_holds_expired_total");
    for (int i = 0; i < ITEMS; i++) {
        const char *name = harness_format("idle%d", i);
        shop_put(shop.port, name, "\"stock\":1,\"hold_seconds\":1");
        CHECK_INT(shop_buy(shop.port, name, "u", 1, "k", NULL), 201);
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

/* ---- restock and audit ---- */

static void restock(void) {
    struct web_response first, response;
    shop_put(shop.port, "refill", "\"stock\":10");
    CHECK_INT(shop_buy(shop.port, "refill", "u", 10, "k", NULL), 201);
    CHECK_INT(shop_restock(shop.port, "refill", 1000, "r1", &first), 200);
    CHECK_STR(shop_text(&first, "item"), "refill");
    CHECK_INT(shop_number(&first, "quantity"), 1000);
    CHECK_INT(shop_number(&first, "stock"), 1010);
    CHECK_INT(shop_number(&first, "available"), 1000);
    CHECK(!web_header(&first, "Idempotent-Replayed"));
    CHECK_INT(shop_restock(shop.port, "refill", 1, "r2", NULL), 200);
    CHECK_INT(shop_restock(shop.port, "refill", 1000, "r1", &response), 200);
    CHECK_STR(response.body, first.body);
    CHECK_STR(web_header(&response, "Idempotent-Replayed"), "true");
    shop_restock(shop.port, "refill", 999, "r1", &response);
    CHECK_PROBLEM(&response, 422, "key-reused");
    shop_restock(shop.port, "refill", 0, "r3", &response);
    check_invalid(&response, "quantity");
    shop_admin(shop.port, "POST", "/v1/items/refill/restock", "{\"quantity\":1}", &response);
    CHECK_PROBLEM(&response, 400, "key-missing");
    shop_restock(shop.port, "a%20b", 1, "r", &response);
    check_invalid(&response, "item");
    shop_restock(shop.port, "refill", 1000000000, "r3", &response);
    check_invalid(&response, "quantity");
    CHECK_HAS(shop_text(&response, "detail"), "999998989 more fit");
    CHECK_INT(shop_restock(shop.port, "refill", 999998989, "r3", &response), 200);
    CHECK_INT(shop_number(&response, "stock"), 1000000000);
    CHECK_INT(shop_number(&response, "available"), 999999990);
}

static void audit(void) {
    struct web_response response;
    shop_put(shop.port, "audited", "\"stock\":100,\"per_user_limit\":10,\"hold_seconds\":3600");
    const char *orders[4];
    for (int i = 0; i < 4; i++) {
        CHECK_INT(shop_buy(shop.port, "audited", "u", i + 1, harness_format("k%d", i), &response), 201);
        orders[i] = shop_text(&response, "order");
    }
    CHECK_INT(shop_order(shop.port, orders[1], "confirm", NULL), 200);
    CHECK_INT(shop_order(shop.port, orders[3], "cancel", NULL), 200);
    static const struct {
        const char *name;
        int value;
    } members[] = {{"stock", 100},  {"available", 94}, {"held", 4},    {"sold", 2},       {"orders", 3},
                   {"oversold", 0}, {"cancelled", 1},  {"expired", 0}, {"over_limit", 0}, {"unreadable", 0}};
    for (size_t i = 0; i < sizeof members / sizeof *members; i++)
        CHECK_INT(shop_audit(shop.port, "audited", members[i].name), members[i].value);
    /* It counts orders, not what the counters say: this must show. */
    const struct redis_server *redis = shop_store_of(&shop.store, stock_key("audited"));
    redis_command(redis, "HINCRBY", stock_key("audited"), "available", "-94", NULL);
    stock_add_initial(redis, "audited", -95);
    CHECK_INT(shop_admin(shop.port, "GET", "/v1/items/audited/audit", NULL, &response), 200);
    CHECK_INT(shop_number(&response, "oversold"), 1);
    CHECK_HAS(response.body, "\"conserved\":false");
    CHECK_INT(shop_admin(shop.port, "GET", "/v1/audit", NULL, &response), 200);
    CHECK_HAS(response.body, "{\"conserved\":false,");
    CHECK_INT(shop_number(&response, "unbalanced"), 1);
    CHECK_INT(shop_number(&response, "oversold"), 1);
}

static void the_end(void) {
    shop_close(&shop);
}

static void on_store(enum shop_kind kind, bool listing) {
    static const struct {
        const char *what;
        void (*test)(void);
        bool once; /* with one Redis: the store has no part in it */
    } tests[] = {
        {"PUT an item", put_an_item, false},
        {"PUT with all terms", put_all_terms, false},
        {"PUT nonsense", put_nonsense, true},
        {"the service's own strategy", the_services_strategy, true},
        {"a purchase, sold out, restocked", buy, false},
        {"refusals name the term", refusals_name_the_term, false},
        {"unknown items", unknown_items, false},
        {"idempotency keys", keys, true},
        {"keys of others", keys_of_others, false},
        {"an order is confirmed or cancelled", settle, false},
        {"a hold expires", expire, false},
        {"unknown orders", unknown_orders, true},
        {"bodies of confirm and cancel", bodies_of_steps, true},
        {"an idle service costs the store next to nothing", idle, true},
        {"restock", restock, false},
        {"audit", audit, false},
        {"the end", the_end, false},
    };
    if (!listing)
        shop_open_on(&shop, kind);
    for (size_t i = 0; i < sizeof tests / sizeof *tests; i++)
        if (kind == SHOP_REDIS || !tests[i].once)
            harness_run(harness_format("%s: %s", shop_kinds[kind], tests[i].what), tests[i].test);
}

int main(int argc, char **argv) {
    harness_begin(argc, argv);
    for (int kind = 0; kind < SHOP_KINDS; kind++)
        on_store((enum shop_kind)kind, argc >= 2 && strcmp(argv[1], "-l") == 0);
    return harness_finish();
}
