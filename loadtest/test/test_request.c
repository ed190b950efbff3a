#include <string.h>

#include "loadtest/request_plan.h"
#include "test/harness.h"

/* The request of this kind for these items, with key `key` and user 5; checks its Content-Length. */
static const char *render(enum request_kind kind, const char *host, struct options options, uint32_t key,
                          struct planned_request planned) {
    static struct request_template form;
    static char request[POOL_REQUEST_SIZE];
    options.item = options.item ? options.item : "demo";
    request_template_init(&form, kind, host, &options, "0123456789abcdef");
    size_t length = request_render(&form, key, 5, &planned, request);
    CHECK(length <= sizeof request);
    const char *text = harness_format("%.*s", (int)length, request);
    CHECK_HAS(text, harness_format("\r\nContent-Length: %zu\r\n", strlen(strstr(text, "\r\n\r\n") + 4)));
    return text;
}

static const char *body_of(const char *text) {
    return strstr(text, "\r\n\r\n") + 4;
}

static void test_purchase(void) {
    struct planned_request one = {.count = 1};
    CHECK_STR(
        render(REQUEST_PURCHASE, "h:1", (struct options){.quantity = 12}, 4294967295, one),
        "POST /v1/purchases HTTP/1.1\r\nHost: h:1\r\nContent-Type: application/json\r\nContent-Length: 48\r\n"
        "Idempotency-Key: sl-0123456789abcdef-4294967295\r\n\r\n"
        "{\"item\":\"demo\",\"user\":\"u00000005\",\"quantity\":12}");
    CHECK_HAS(render(REQUEST_PURCHASE, "h:1", (struct options){.quantity = 12}, 7, one),
              "abcdef-0000000007\r\n");
    char user[USER_NAME_SIZE];
    user_name(99999999, user);
    CHECK_STR(user, "u99999999");
}

/* A purchase of one of several items: the number is filled up behind it. */
static void test_items(void) {
    static const struct {
        unsigned items, item;
        const char *want;
    } cases[] = {{101, 100, "{\"item\":\"demo-100\",\"user\":\"u00000005\",\"quantity\":1}"},
                 {101, 42, "{\"item\":\"demo-42\" ,\"user\":\"u00000005\",\"quantity\":1}"},
                 {101, 0, "{\"item\":\"demo-0\"  ,\"user\":\"u00000005\",\"quantity\":1}"},
                 {1, 0, "{\"item\":\"demo-0\",\"user\":\"u00000005\",\"quantity\":1}"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        CHECK_STR(
            body_of(render(REQUEST_PURCHASE, "h:1", (struct options){.items = cases[i].items, .quantity = 1},
                           1, (struct planned_request){.count = 1, .items = {cases[i].item}})),
            cases[i].want);
}

static void test_basket(void) {
    const char *text = render(REQUEST_BASKET, "h:1",
                              (struct options){.items = 11, .quantity = 3, .basket_lines = 3, .token = "t"},
                              8, (struct planned_request){.count = 3, .items = {10, 2, 2}});
    CHECK_HAS(text, "POST /v1/baskets HTTP/1.1\r\n");
    CHECK_HAS(text, "\r\nIdempotency-Key: sl-0123456789abcdef-0000000008\r\n");
    CHECK(!strstr(text, "Authorization"));
    CHECK_STR(body_of(text), "{\"user\":\"u00000005\",\"lines\":[{\"item\":\"demo-10\",\"quantity\":3},"
                             "{\"item\":\"demo-2\" ,\"quantity\":3},{\"item\":\"demo-2\" ,\"quantity\":3}]}");
}

static void test_transfer(void) {
    const char *text = render(REQUEST_TRANSFER, "h:1",
                              (struct options){.items = 11, .quantity = 3, .transfers = 5, .token = "secret"},
                              9, (struct planned_request){.count = 2, .items = {10, 2}});
    CHECK_HAS(text, "POST /v1/transfers HTTP/1.1\r\n");
    CHECK_HAS(text, "\r\nAuthorization: Bearer secret\r\n");
    CHECK_HAS(text, "\r\nIdempotency-Key: sl-0123456789abcdef-0000000009\r\n");
    CHECK_STR(body_of(text), "{\"from\":\"demo-10\",\"to\":\"demo-2\" ,\"quantity\":3}");
}

/* Everything has its greatest length. */
static void test_largest(void) {
    const char *host = harness_repeat('h', sizeof((struct target *)0)->host - 1);
    struct options options = {
        .item = harness_repeat('i', OPTIONS_ITEM - 6),
        .items = 100000,
        .quantity = 1000,
        .basket_lines = OPTIONS_LINES,
        .token = harness_repeat('t', 512),
    };
    struct planned_request planned = {.count = OPTIONS_LINES};
    planned.items[OPTIONS_LINES - 1] = 99999;
    const char *body = body_of(render(REQUEST_BASKET, host, options, 0, planned));
    CHECK_HAS(body, "iiii-99999\",\"quantity\":1000}]}");
    CHECK(strlen(body) > 2900);
    CHECK_HAS(body_of(render(REQUEST_TRANSFER, host, options, 0, planned)), ",\"quantity\":1000}");
}

int main(int argc, char **argv) {
    harness_begin(argc, argv);
    harness_run("request: a purchase", test_purchase);
    harness_run("request: a purchase of one of several items", test_items);
    harness_run("request: a basket", test_basket);
    harness_run("request: a transfer", test_transfer);
    harness_run("request: the largest", test_largest);
    return harness_finish();
}
