#include <string.h>

#include "loadtest/body.h"
#include "test/harness.h"

static bool read_text(const char *text, struct body *body) {
    /* Of exactly this size, without a NUL, so that a sanitizer sees a read past its end. */
    size_t length = strlen(text);
    char *copy = harness_alloc(length);
    for (size_t i = 0; i < length; i++)
        copy[i] = text[i];
    return body_read(copy, length, body);
}

static struct body read_good(const char *text) {
    struct body body;
    if (!read_text(text, &body))
        FAIL("not read: %s", text);
    return body;
}

static const char *text_of(const char *bytes, size_t length) {
    return harness_format("%.*s", (int)length, bytes);
}

static void test_order(void) {
    struct body body = read_good("{\"item\":\"a\",\"nested\":{\"order\":\"no\",\"list\":[1,\"]}\",{}]},"
                                 " \"order\" : \"demo:17\" ,\"quantity\":-1.5e3,\"none\":null}\r\n");
    CHECK_STR(text_of(body.order, body.order_length), "demo:17");
    CHECK(body_order_usable(&body));
    CHECK(body.type == NULL);
}

static void test_type(void) {
    struct body body = read_good("{\"type\":\"https://x.example/problems/sold-out\",\"available\":0}");
    CHECK_STR(text_of(body.type, body.type_length), "sold-out");
    body = read_good("{\"type\":\"sold-out\"}");
    CHECK_STR(text_of(body.type, body.type_length), "sold-out");
    body = read_good("{\"type\":17,\"order\":null}");
    CHECK(body.type == NULL);
    CHECK(body.order == NULL);
}

static void test_content(void) {
    uint64_t one = read_good("{\"order\":\"1\",\"quantity\":2,\"state\":\"held\"}").content;
    CHECK(read_good(" { \"state\" : \"held\",\n\"quantity\": 2 , \"order\":\"1\" } ").content == one);
    CHECK(read_good("{\"order\":\"2\",\"quantity\":2,\"state\":\"held\"}").content != one);
    CHECK(read_good("{\"order\":\"1\",\"quantity\":\"2\",\"state\":\"held\"}").content != one);
    CHECK(read_good("{\"order\":\"1\",\"quantity\":2,\"state\":\"confirmed\"}").content != one);
    CHECK(read_good("{\"order\":\"1\",\"quantity\":2}").content != one);
    CHECK(read_good("{\"order\":\"held\",\"quantity\":2,\"state\":\"1\"}").content != one);
    CHECK(read_good("{}").content == 0);
}

static void test_usable_orders(void) {
    static const char *const unusable[] = {"",    "a b",   "a/b",   "a\\\"b",  "a?b",
                                           "a#b", "a%20b", "a\x7f", "\xc3\xa4"};
    for (size_t i = 0; i < sizeof unusable / sizeof unusable[0]; i++) {
        struct body body = read_good(harness_format("{\"order\":\"%s\"}", unusable[i]));
        if (body_order_usable(&body))
            FAIL("usable: %s", unusable[i]);
    }
    struct body none = read_good("{}");
    CHECK(!body_order_usable(&none));
}

static void test_every_cut(void) {
    static const char text[] = "{\"order\":\"d\\\"1\",\"list\":[1,{\"a\":\"}\"}],\"n\":1.5,\"b\":true}";
    struct body body;
    read_good(text);
    for (size_t length = 0; length < sizeof text - 1; length++) {
        if (read_text(harness_format("%.*s", (int)length, text), &body))
            FAIL("read, though cut off at %zu", length);
    }
}

static void test_bad(void) {
    static const char *const bad[] = {
        "",
        "null",
        "[]",
        "\"order\"",
        "{\"a\"}",
        "{\"a\":}",
        "{\"a\":1,}",
        "{,}",
        "{a:1}",
        "{\"a\":1}x",
        "{\"a\":1 2}",
        "{\"a\":]}",
        "{\"a\":[}",
        "{\"a\":\"\\\"}",
        "{\"a\" 1}",
        "<html>",
        "{\"a\":{\"b\":1}",
    };
    struct body body;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        if (read_text(bad[i], &body))
            FAIL("read: %s", bad[i]);
    }
}

int main(int argc, char **argv) {
    harness_begin(argc, argv);
    harness_run("body: finds the order among other members", test_order);
    harness_run("body: the problem's type is its last segment", test_type);
    harness_run("body: the content is the members', not their sequence's", test_content);
    harness_run("body: an order's id must fit a URL", test_usable_orders);
    harness_run("body: cut off anywhere is no object", test_every_cut);
    harness_run("body: what is no object is refused", test_bad);
    return harness_finish();
}
