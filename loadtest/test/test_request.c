#include <string.h>

#include "loadtest/request_plan.h"
#include "test/harness.h"

#define RUN "0123456789abcdef"

static struct request_template form;
static char request[POOL_REQUEST_SIZE];

static const char *render(uint32_t key, uint32_t user, const struct planned_request *planned) {
    size_t length = request_render(&form, key, user, planned, request);
    CHECK(length <= sizeof request);
    return harness_format("%.*s", (int)length, request);
}

static void test_purchase(void) {
    struct options options = {.item = "demo", .quantity = 12};
    struct planned_request planned = {.count = 1};
    request_template_init(&form, REQUEST_PURCHASE, "h:1", &options, RUN);
    CHECK_STR(
        render(4294967295, 99999999, &planned),
        "POST /v1/purchases HTTP/1.1\r\nHost: h:1\r\nContent-Type: application/json\r\nContent-Length: 48\r\n"
        "Idempotency-Key: sl-0123456789abcdef-4294967295\r\n\r\n"
        "{\"item\":\"demo\",\"user\":\"u99999999\",\"quantity\":12}");
    const char *text = render(7, 0, &planned);
    CHECK_HAS(text, "abcdef-0000000007\r\n");
    CHECK_HAS(text, "\"u00000000\"");
    char user[USER_NAME_SIZE];
    user_name(42, user);
    CHECK_STR(user, "u00000042");
}

/* The body; checks its length against Content-Length. */
static const char *body_of(const char *text) {
    const char *body = strstr(text, "\r\n\r\n") + 4;
    CHECK_HAS(text, harness_format("\r\nContent-Length: %zu\r\n", strlen(body)));
    return body;
}

static void test_items(void) {
    struct options options = {.item = "demo", .items = 101, .quantity = 1};
    request_template_init(&form, REQUEST_PURCHASE, "h:1", &options, RUN);
    CHECK_STR(body_of(render(1, 5, &(struct planned_request){.count = 1, .items = {100}})),
              "{\"item\":\"demo-100\",\"user\":\"u00000005\",\"quantity\":1}");
    CHECK_STR(body_of(render(1, 5, &(struct planned_request){.count = 1, .items = {42}})),
              "{\"item\":\"demo-42\" ,\"user\":\"u00000005\",\"quantity\":1}");
    CHECK_STR(body_of(render(1, 5, &(struct planned_request){.count = 1, .items = {0}})),
              "{\"item\":\"demo-0\"  ,\"user\":\"u00000005\",\"quantity\":1}");
    options.items = 1;
    request_template_init(&form, REQUEST_PURCHASE, "h:1", &options, RUN);
    CHECK_HAS(render(3, 5, &(struct planned_request){.count = 1}), "{\"item\":\"demo-0\",\"user\":");
}

static void test_basket(void) {
    struct options options = {.item = "demo", .items = 11, .quantity = 3, .basket_lines = 3, .token = "t"};
    request_template_init(&form, REQUEST_BASKET, "h:1", &options, RUN);
    const char *text = render(8, 5, &(struct planned_request){.count = 3, .items = {10, 2, 2}});
    CHECK_HAS(text, "POST /v1/baskets HTTP/1.1\r\n");
    CHECK_HAS(text, "\r\nIdempotency-Key: sl-0123456789abcdef-0000000008\r\n");
    CHECK(strstr(text, "Authorization") == NULL);
    CHECK_STR(body_of(text), "{\"user\":\"u00000005\",\"lines\":[{\"item\":\"demo-10\",\"quantity\":3},"
                             "{\"item\":\"demo-2\" ,\"quantity\":3},{\"item\":\"demo-2\" ,\"quantity\":3}]}");
}

static void test_transfer(void) {
    struct options options = {.item = "demo", .items = 11, .quantity = 3, .transfers = 5, .token = "secret"};
    request_template_init(&form, REQUEST_TRANSFER, "h:1", &options, RUN);
    const char *text = render(9, 5, &(struct planned_request){.count = 2, .items = {10, 2}});
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
    request_template_init(&form, REQUEST_BASKET, host, &options, RUN);
    const char *body = body_of(render(0, 0, &planned));
    CHECK_HAS(body, "iiii-99999\",\"quantity\":1000}]}");
    CHECK(strlen(body) > 2900);
    request_template_init(&form, REQUEST_TRANSFER, host, &options, RUN);
    CHECK_HAS(body_of(render(0, 0, &planned)), ",\"quantity\":1000}");
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
