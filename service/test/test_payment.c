/* The shop's side of an order: payment, late confirms, refunds and returns, with what a webhook does to them:
 * it comes twice, out of order, to two instances, and while one of them dies. */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "service/rfc3339.h"
#include "service/test/shop.h"

enum { WAIT_MS = 20000 };

static struct redis_server redis;
static struct seckilld services[2];

static void open_two(void) {
    redis_start(&redis, NULL);
    for (int i = 0; i < 2; i++)
        seckilld_start(&services[i], redis.port, NULL);
    for (int i = 0; i < 2; i++)
        seckilld_wait_ready(&services[i], 200);
}

/* ---- calls ---- */

static int post(int port, const char *order, const char *step, const char *key, const char *body,
                struct web_response *response) {
    const char *header = key ? harness_format("Idempotency-Key: %s\r\n", key) : NULL;
    return web_call(port, "POST", harness_format("/v1/orders/%s/%s", order, step), header, body, response);
}

static int confirm(int port, const char *order, const char *payment, struct web_response *response) {
    return post(port, order, "confirm", NULL, harness_format("{\"payment\":\"%s\"}", payment), response);
}

static void begin_confirm(struct web_conn *conn, int port, const char *order, const char *payment) {
    const char *body = harness_format("{\"payment\":\"%s\"}", payment);
    CHECK(web_open(conn, port));
    web_send_text(conn, harness_format("POST /v1/orders/%s/confirm HTTP/1.1\r\nHost: x\r\n"
                                       "Content-Length: %zu\r\n\r\n%s",
                                       order, strlen(body), body));
}

static const char *hold(int port, const char *item, const char *user) {
    struct web_response response;
    CHECK_INT(shop_buy(port, item, user, 1, user, &response), 201);
    CHECK_STR(shop_text(&response, "state"), "held");
    return shop_text(&response, "order");
}

static bool is_true(const struct web_response *response, const char *name) {
    return strstr(response->body, harness_format("\"%s\":true", name)) != NULL;
}

static const char *order_text(const char *order, const char *name) {
    struct web_response response;
    CHECK_INT(shop_order(services[0].port, order, NULL, &response), 200);
    return shop_text(&response, name);
}

static void check_conserved(const char *item) {
    struct web_response response;
    CHECK_INT(
        shop_admin(services[0].port, "GET", harness_format("/v1/items/%s/audit", item), NULL, &response),
        200);
    CHECK_HAS(response.body, "\"conserved\":true,\"exact\":true");
}

struct waited {
    const char *order, *state;
};

static bool has_state(void *arg) {
    const struct waited *waited = arg;
    return strcmp(order_text(waited->order, "state"), waited->state) == 0;
}

static void wait_state(const char *order, const char *state) {
    struct waited waited = {order, state};
    CHECK(harness_wait(has_state, &waited, WAIT_MS));
}

/* ---- one order ---- */

/* What an order tells at each step; each step twice. */
static void an_order_is_paid(void) {
    struct web_response held, paying, response;
    open_two();
    int port = services[0].port, other = services[1].port;
    shop_put(port, "lamp", "\"stock\":10,\"hold_seconds\":600,\"pay_seconds\":900");
    CHECK_INT(shop_buy(port, "lamp", "ann", 3, "k", &held), 201);
    const char *id = shop_text(&held, "order");
    CHECK_INT(shop_number(&held, "version"), 1);
    CHECK(shop_has(&held, "created_at") && !shop_has(&held, "settled_at") && !shop_has(&held, "payment"));

    CHECK_INT(post(port, id, "payment", NULL, "{\"payment\":\"pi_\\\"1\\\\\",\"seconds\":900}", &paying),
              200);
    CHECK_STR(shop_text(&paying, "state"), "paying");
    CHECK_STR(shop_text(&paying, "payment"), "pi_\"1\\");
    CHECK_INT(shop_number(&paying, "version"), 2);
    CHECK(strcmp(shop_text(&paying, "expires_at"), shop_text(&held, "expires_at")) > 0);
    CHECK(!web_header(&paying, "Idempotent-Replayed"));
    CHECK_INT(post(other, id, "payment", NULL, "{\"payment\":\"pi_\\\"1\\\\\"}", &response), 200);
    CHECK_STR(response.body, paying.body); /* no second extension */
    CHECK_STR(web_header(&response, "Idempotent-Replayed"), "true");
    post(port, id, "payment", NULL, "{\"payment\":\"pi_2\"}", &response);
    CHECK_PROBLEM(&response, 409, "payment-differs");
    CHECK_INT(shop_audit(port, "lamp", "paying"), 1);
    CHECK_INT(shop_audit(port, "lamp", "held"), 3);

    confirm(port, id, "pi_2", &response);
    CHECK_PROBLEM(&response, 409, "payment-differs");
    CHECK_INT(post(port, id, "confirm", NULL, "", &response), 200);
    CHECK_STR(shop_text(&response, "state"), "confirmed");
    CHECK_STR(shop_text(&response, "payment"), "pi_\"1\\");
    CHECK_INT(shop_number(&response, "version"), 3);
    CHECK(shop_has(&response, "settled_at") && !shop_has(&response, "late"));
    CHECK(!web_header(&response, "Idempotent-Replayed"));
    CHECK_INT(confirm(other, id, "pi_\\\"1\\\\", &response), 200);
    CHECK_STR(web_header(&response, "Idempotent-Replayed"), "true");
    confirm(other, id, "pi_2", &response);
    CHECK_PROBLEM(&response, 409, "payment-differs");
    post(port, id, "payment", NULL, "{\"payment\":\"pi_2\"}", &response);
    CHECK_PROBLEM(&response, 409, "payment-differs");
    CHECK_INT(shop_buy(other, "lamp", "ann", 3, "k", &response), 201); /* a retry tells what it is now */
    CHECK_STR(shop_text(&response, "state"), "confirmed");
    CHECK_INT(shop_audit(port, "lamp", "sold"), 3);
}

static void payments_that_cannot_be(void) {
    struct web_response response;
    open_two();
    int port = services[0].port;
    shop_put(port, "lamp", "\"stock\":10,\"hold_seconds\":600,\"pay_seconds\":9");
    shop_put(port, "cash", "\"stock\":10");
    const char *id = hold(port, "lamp", "ann");
    post(port, id, "payment", NULL, "{\"payment\":\"p\",\"seconds\":10}", &response);
    CHECK_PROBLEM(&response, 400, "invalid-request");
    CHECK_STR(shop_text(&response, "field"), "seconds");
    static const char *const bad[] = {"",
                                      "{}",
                                      "{\"payment\":\"\"}",
                                      "{\"payment\":\"a b\"}",
                                      "{\"payment\":\"\\u00e9\"}",
                                      "{\"payment\":7}",
                                      "{\"payment\":\"p\",\"seconds\":-1}",
                                      "{\"payment\":\"p\",\"seconds\":1.5}",
                                      "{\"payment\":\"p\",\"minutes\":1}"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        post(port, id, "payment", NULL, bad[i], &response);
        CHECK_PROBLEM(&response, 400, "invalid-request");
        post(port, id, "confirm", NULL, i > 1 ? bad[i] : "[]", &response);
        CHECK_PROBLEM(&response, 400, "invalid-request");
    }
    post(port, id, "payment", NULL, harness_format("{\"payment\":\"%s\"}", harness_repeat('p', 129)),
         &response);
    CHECK_PROBLEM(&response, 400, "invalid-request");
    CHECK_STR(order_text(id, "state"), "held");
    CHECK_INT(post(port, id, "payment", NULL,
                   harness_format("{\"payment\":\"%s\"}", harness_repeat('~', 128)), &response),
              200);
    CHECK_STR(shop_text(&response, "payment"), harness_repeat('~', 128));

    post(port, "lamp:AAAAAAAAAAAAAAAAAAAAAA", "payment", NULL, "{\"payment\":\"p\"}", &response);
    CHECK_PROBLEM(&response, 404, "unknown-order");
    CHECK_INT(shop_buy(port, "cash", "ann", 1, "k", &response), 201);
    CHECK(shop_has(&response, "settled_at"));
    id = shop_text(&response, "order");
    post(port, id, "payment", NULL, "{\"payment\":\"p\"}", &response); /* it was born confirmed */
    CHECK_PROBLEM(&response, 409, "order-confirmed");
    confirm(port, id, "p", &response);
    CHECK_PROBLEM(&response, 409, "payment-differs");
    CHECK_INT(post(port, id, "confirm", NULL, "", &response), 200);
}

/* Also of one that was being paid. Its payment is to be refunded if a confirm comes after that. */
static void a_cancelled_order_is_not_confirmed(void) {
    struct web_response response;
    open_two();
    int port = services[0].port, other = services[1].port;
    shop_put(port, "lamp", "\"stock\":10,\"hold_seconds\":600");
    const char *id = hold(port, "lamp", "ann");
    CHECK_INT(post(port, id, "payment", NULL, "{\"payment\":\"p\"}", &response), 200);
    CHECK_INT(shop_order(port, id, "cancel", &response), 200);
    CHECK_STR(shop_text(&response, "state"), "cancelled");
    for (int i = 0; i < 3; i++) {
        confirm(i % 2 ? other : port, id, "p", &response);
        CHECK_PROBLEM(&response, 409, "order-cancelled");
        CHECK(is_true(&response, "refund_due"));
        CHECK_INT(shop_order(port, id, NULL, &response), 200);
        CHECK_INT(shop_number(&response, "version"), 4);
        CHECK(is_true(&response, "refund_due"));
    }
    CHECK_INT(shop_audit(port, "lamp", "available"), 10);
}

/* ---- late ---- */

enum { BUYERS = 10, PAYING = 5, STOCK = 10 };

/* Three confirms of each order, to both instances in turn, one of which is killed in the middle. What had no
 * answer is asked again. */
static void confirm_all(const char *const orders[BUYERS], int statuses[BUYERS]) {
    static struct web_conn conns[BUYERS][3];
    bool killed = false;
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < BUYERS; i++) {
            int to = (i + round) % 2;
            if (round == 1 && i == BUYERS / 2) {
                seckilld_kill(&services[1]);
                killed = true;
            }
            conns[i][round].fd = -1;
            if (to == 0 || !killed)
                begin_confirm(&conns[i][round], services[to].port, orders[i], harness_format("pi-%d", i));
        }
    }
    for (int i = 0; i < BUYERS; i++) {
        struct web_response response;
        confirm(services[0].port, orders[i], harness_format("pi-%d", i), &response);
        statuses[i] = response.status;
        for (int round = 0; round < 3; round++) {
            if (conns[i][round].fd >= 0 && web_read_response(&conns[i][round], &response) == WEB_OK)
                CHECK_INT(response.status, statuses[i]);
            web_close(&conns[i][round]);
        }
    }
}

static bool is_over(void *arg) {
    struct web_response response;
    (void)arg;
    shop_buy(services[0].port, "hot", "nobody", 1000, "k", &response);
    return strstr(response.body, "/ended") != NULL;
}

static void check_late(const char *const orders[BUYERS], const int statuses[BUYERS]) {
    int late = 0, refunds = 0;
    for (int i = 0; i < BUYERS; i++) {
        struct web_response response;
        confirm(services[0].port, orders[i], harness_format("pi-%d", i), &response);
        CHECK_INT(response.status, statuses[i]);
        CHECK(i >= PAYING || response.status == 200);
        CHECK_INT(is_true(&response, "late"), i >= PAYING && response.status == 200);
        late += is_true(&response, "late");
        if (response.status != 200) {
            CHECK_PROBLEM(&response, 410, "order-expired");
            CHECK(is_true(&response, "refund_due"));
            refunds++;
        }
        CHECK_INT(shop_order(services[0].port, orders[i], NULL, &response), 200);
        CHECK_STR(shop_text(&response, "payment"), harness_format("pi-%d", i));
        CHECK_INT(is_true(&response, "refund_due"), statuses[i] != 200);
    }
    CHECK_INT(late, 2);
    CHECK_INT(refunds, 3);
}

/* Ten hold; five begin to pay, twice; the others' holds run out, and three others buy. After the end of the
 * sale all ten are confirmed: two of those who come late still get a unit, three get their money back. */
static void late_twice_out_of_order(void) {
    const char *orders[BUYERS];
    struct web_response first, again;
    int statuses[BUYERS];
    char ends[RFC3339_SIZE];
    struct timespec now;
    open_two();
    int port = services[0].port, other = services[1].port;
    clock_gettime(CLOCK_REALTIME, &now);
    rfc3339_print((int64_t)now.tv_sec * 1000 + 6000, ends);
    shop_put(port, "hot",
             harness_format("\"stock\":%d,\"per_user_limit\":1,\"hold_seconds\":2,\"pay_seconds\":60,"
                            "\"ends_at\":\"%s\"",
                            STOCK, ends));
    for (int i = 0; i < BUYERS; i++)
        orders[i] = hold(i % 2 ? port : other, "hot", harness_format("u%d", i));
    for (int i = 0; i < PAYING; i++) {
        const char *body = harness_format("{\"payment\":\"pi-%d\",\"seconds\":60}", i);
        CHECK_INT(post(port, orders[i], "payment", NULL, body, &first), 200);
        CHECK_INT(post(other, orders[i], "payment", NULL, body, &again), 200);
        CHECK_STR(shop_text(&again, "expires_at"), shop_text(&first, "expires_at"));
    }
    for (int i = PAYING; i < BUYERS; i++)
        wait_state(orders[i], "expired");
    for (int i = 0; i < 3; i++) {
        const char *user = harness_format("v%d", i);
        CHECK_INT(confirm(port, hold(other, "hot", user), user, &first), 200);
    }
    CHECK(harness_wait(is_over, NULL, WAIT_MS));
    confirm_all(orders, statuses);
    check_late(orders, statuses);
    CHECK_INT(shop_restock(port, "hot", 5, "more", NULL), 200);
    check_late(orders, statuses); /* what was refused stays so */

    confirm(port, orders[0], "another", &first);
    CHECK_PROBLEM(&first, 409, "payment-differs");
    for (int i = 0; i < 2; i++) {
        CHECK_INT(post(port, orders[0], "return", "r", "{\"quantity\":1,\"restock\":true}", &first), 200);
        CHECK_STR(shop_text(&first, "state"), "returned");
        CHECK_INT(web_header(&first, "Idempotent-Replayed") != NULL, i);
    }
    CHECK_INT(shop_audit(port, "hot", "sold"), STOCK - 1);
    CHECK_INT(shop_audit(port, "hot", "available"), 5 + 1);
    CHECK_INT(shop_audit(port, "hot", "oversold"), 0);
    check_conserved("hot");
}

/* ---- twice at once ---- */

/* The page to which the buyer returns confirms, and so does the webhook, at two instances of which one is
 * killed again and again. */
static void return_page_and_webhook(void) {
    enum { ROUNDS = 200, A_LIFE = 20 };
    open_two();
    int port = services[0].port;
    shop_put(port, "seat", harness_format("\"stock\":%d,\"per_user_limit\":1,\"hold_seconds\":600", ROUNDS));
    for (int round = 0; round < ROUNDS; round++) {
        struct web_conn page, webhook;
        struct web_response response;
        const char *id = hold(port, "seat", harness_format("u%d", round)),
                   *payment = harness_format("p%d", round);
        begin_confirm(&webhook, services[1].port, id, payment);
        begin_confirm(&page, port, id, payment);
        if (round % A_LIFE == A_LIFE - 1)
            seckilld_kill(&services[1]);
        int told = 0;
        for (int i = 0; i < 2; i++) {
            struct web_conn *conn = i ? &webhook : &page;
            if (web_read_response(conn, &response) == WEB_OK) {
                CHECK_INT(response.status, 200);
                CHECK_INT(shop_number(&response, "version"), 2);
                told += !web_header(&response, "Idempotent-Replayed");
            }
            web_close(conn);
        }
        CHECK(told <= 1);
        if (round % A_LIFE == A_LIFE - 1) {
            seckilld_restart(&services[1]);
            seckilld_wait_ready(&services[1], 200);
        } else {
            CHECK_INT(told, 1);
        }
        CHECK_STR(order_text(id, "state"), "confirmed");
    }
    CHECK_INT(shop_audit(port, "seat", "sold"), ROUNDS);
    check_conserved("seat");
}

/* ---- returns ---- */

static void returns(void) {
    struct web_response response;
    open_two();
    int port = services[0].port, other = services[1].port;
    shop_put(port, "shoe", "\"stock\":10,\"per_user_limit\":4,\"hold_seconds\":600");
    CHECK_INT(shop_buy(port, "shoe", "ann", 4, "k", &response), 201);
    const char *id = shop_text(&response, "order");
    post(port, id, "return", "a", "{\"quantity\":1,\"restock\":true}", &response);
    CHECK_PROBLEM(&response, 409, "over-return"); /* nothing was sold yet */
    CHECK_INT(shop_number(&response, "left"), 0);
    CHECK_INT(confirm(port, id, "p", &response), 200);

    CHECK_INT(post(port, id, "return", "a", "{\"quantity\":1,\"restock\":true}", &response), 200);
    CHECK_STR(shop_text(&response, "state"), "confirmed");
    CHECK_INT(shop_number(&response, "returned"), 1);
    CHECK_INT(post(other, id, "return", "a", "{\"quantity\":1,\"restock\":true}", &response), 200);
    CHECK_STR(web_header(&response, "Idempotent-Replayed"), "true");
    CHECK_INT(shop_number(&response, "returned"), 1);
    post(port, id, "return", "a", "{\"quantity\":2,\"restock\":true}", &response);
    CHECK_PROBLEM(&response, 422, "key-reused");
    post(port, id, "return", "a", "{\"quantity\":1,\"restock\":false}", &response);
    CHECK_PROBLEM(&response, 422, "key-reused");
    post(port, id, "return", "b", "{\"quantity\":4,\"restock\":true}", &response);
    CHECK_PROBLEM(&response, 409, "over-return");
    CHECK_INT(shop_number(&response, "left"), 3);
    CHECK_INT(shop_audit(port, "shoe", "available"), 7);
    CHECK_INT(shop_buy(port, "shoe", "ann", 1, "again", &response), 201); /* the limit has room again */

    CHECK_INT(post(other, id, "return", "c", "{\"quantity\":3,\"restock\":false}", &response), 200);
    CHECK_STR(shop_text(&response, "state"), "returned");
    CHECK_INT(shop_audit(port, "shoe", "stock"), 7);
    CHECK_INT(shop_audit(port, "shoe", "available"), 6);
    CHECK_INT(shop_audit(port, "shoe", "returned"), 1);
    CHECK_INT(confirm(port, id, "p", &response), 200); /* a late webhook */
    CHECK_STR(shop_text(&response, "state"), "returned");
    post(port, id, "cancel", NULL, "", &response);
    CHECK_PROBLEM(&response, 409, "order-confirmed");

    post(port, id, "return", NULL, "{\"quantity\":1,\"restock\":true}", &response);
    CHECK_PROBLEM(&response, 400, "key-missing");
    post(port, id, "return", "d", "{\"quantity\":1}", &response);
    CHECK_PROBLEM(&response, 400, "invalid-request");
    CHECK_STR(shop_text(&response, "field"), "restock");
    check_conserved("shoe");
}

/* A key of one order is not that of another, and none of a restock. */
static void keys_of_returns(void) {
    struct web_response response;
    open_two();
    int port = services[0].port;
    shop_put(port, "shoe", "\"stock\":10");
    for (int i = 0; i < 2; i++) {
        CHECK_INT(shop_buy(port, "shoe", "ann", 2, harness_format("k%d", i), &response), 201);
        const char *id = shop_text(&response, "order");
        CHECK_INT(post(port, id, "return", "r", "{\"quantity\":1,\"restock\":true}", &response), 200);
        CHECK(!web_header(&response, "Idempotent-Replayed"));
    }
    CHECK_INT(shop_restock(port, "shoe", 1, "r", &response), 200);
    CHECK(!web_header(&response, "Idempotent-Replayed"));
    CHECK_INT(shop_audit(port, "shoe", "available"), 9);
}

/* An order of a basket is settled with its basket. */
static void lines_of_baskets(void) {
    struct web_response response;
    open_two();
    int port = services[0].port;
    shop_put(port, "a", "\"stock\":10,\"hold_seconds\":600");
    shop_put(port, "b", "\"stock\":10");
    CHECK_INT(shop_basket(port, "ann", "a:1 b:1", "k", &response), 201);
    const char *basket = shop_text(&response, "basket"), *id = shop_text(&response, "orders.1.order");
    for (int i = 0; i < 2; i++) {
        post(port, id, "payment", NULL, "{\"payment\":\"p\"}", &response);
        CHECK_PROBLEM(&response, 409, "basket-order");
        post(port, id, "return", "r", "{\"quantity\":1,\"restock\":true}", &response);
        CHECK_PROBLEM(&response, 409, "basket-order");
        CHECK_INT(shop_basket_step(port, basket, "confirm", NULL), 200);
    }
    CHECK_INT(shop_audit(port, "b", "sold"), 1);
}

int main(int argc, char **argv) {
    harness_begin(argc, argv);
    harness_run("an order is paid", an_order_is_paid);
    harness_run("payments that cannot be", payments_that_cannot_be);
    harness_run("a cancelled order is not confirmed", a_cancelled_order_is_not_confirmed);
    harness_run("late, twice, out of order", late_twice_out_of_order);
    harness_run("the return page and the webhook", return_page_and_webhook);
    harness_run("returns", returns);
    harness_run("keys of returns", keys_of_returns);
    harness_run("lines of baskets", lines_of_baskets);
    return harness_finish();
}
