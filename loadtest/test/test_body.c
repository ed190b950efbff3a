#include <string.h>

#include "loadtest/judge/answer_body.h"
#include "test/harness.h"

static bool read_text(const char *text, struct body *body) {
    /* A copy of exactly this size, without a NUL, so that a sanitizer finds a read past its end. */
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

static const char *text_of(struct body_text text) {
    return harness_format("%.*s", (int)text.length, text.bytes != NULL ? text.bytes : "");
}

static void test_order(void) {
    struct body body = read_good("{\"item\":\"a\",\"nested\":{\"order\":\"no\",\"list\":[1,\"]}\",{}]},"
                                 " \"order\" : \"demo:17\" ,\"quantity\":-1.5e3,\"none\":null}\r\n");
    CHECK_STR(text_of(body.order), "demo:17");
    CHECK(body_id_usable(body.order));
    CHECK(body.type.bytes == NULL);
}

static void test_type(void) {
    struct body body = read_good("{\"type\":\"https://x.example/problems/sold-out\",\"available\":0}");
    CHECK_STR(text_of(body.type), "sold-out");
    body = read_good("{\"type\":\"sold-out\"}");
    CHECK_STR(text_of(body.type), "sold-out");
    body = read_good("{\"type\":17,\"order\":null}");
    CHECK(body.type.bytes == NULL);
    CHECK(body.order.bytes == NULL);
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

static void test_members(void) {
    struct body body = read_good("{\"transfer\":\"t1\",\"from\":\"a\",\"to\":\"b\",\"quantity\": 17 ,"
                                 "\"basket\":\"b1\",\"user\":\"u\",\"item\":\"i\",\"state\":\"held\"}");
    CHECK_STR(text_of(body.transfer), "t1");
    CHECK_STR(text_of(body.from), "a");
    CHECK_STR(text_of(body.to), "b");
    CHECK_STR(text_of(body.basket), "b1");
    CHECK_STR(text_of(body.user), "u");
    CHECK_STR(text_of(body.item), "i");
    CHECK_STR(text_of(body.state), "held");
    CHECK_INT(body.quantity, 17);
    static const char *const no_number[] = {"-1", "1.5", "1e2", "\"3\"", "null", "12345678901234567890"};
    for (size_t i = 0; i < sizeof no_number / sizeof no_number[0]; i++)
        CHECK_INT(read_good(harness_format("{\"quantity\":%s}", no_number[i])).quantity, 0);
}

static void test_orders(void) {
    struct body order;
    struct body body = read_good("{\"basket\":\"b\",\"orders\": [ {\"order\":\"a:1\",\"quantity\":2} , "
                                 "{ \"quantity\": 3, \"order\": \"b:]7\" }\n],\"state\":\"held\"}");
    CHECK_STR(text_of(body.state), "held");
    CHECK(body.order.bytes == NULL);
    CHECK(body_next_order(&body.orders, &order));
    CHECK_STR(text_of(order.order), "a:1");
    CHECK_INT(order.quantity, 2);
    CHECK(body_next_order(&body.orders, &order));
    CHECK_STR(text_of(order.order), "b:]7");
    CHECK_INT(order.content, read_good("{\"order\":\"b:]7\",\"quantity\":3}").content);
    CHECK(!body_next_order(&body.orders, &order));
    CHECK_STR(text_of(order.order), "b:]7"); /* unchanged */
}

static void test_no_orders(void) {
    static const char *const none[] = {"{}",
                                       "{\"orders\":[]}",
                                       "{\"orders\":[ ]}",
                                       "{\"orders\":[1,2]}",
                                       "{\"orders\":\"[{}]\"}",
                                       "{\"orders\":{\"order\":\"a\"}}",
                                       "{\"orders\":null}",
                                       "{\"orders\":[}}"};
    for (size_t i = 0; i < sizeof none / sizeof none[0]; i++) {
        struct body order;
        struct body body = read_good(none[i]);
        if (body_next_order(&body.orders, &order))
            FAIL("has an order: %s", none[i]);
    }
}

static void test_usable_orders(void) {
    static const char *const unusable[] = {"",    "a b",   "a/b",   "a\\\"b",  "a?b",
                                           "a#b", "a%20b", "a\x7f", "\xc3\xa4"};
    for (size_t i = 0; i < sizeof unusable / sizeof unusable[0]; i++) {
        struct body body = read_good(harness_format("{\"order\":\"%s\"}", unusable[i]));
        if (body_id_usable(body.order))
            FAIL("usable: %s", unusable[i]);
    }
    struct body none = read_good("{}");
    CHECK(!body_id_usable(none.order));
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
    harness_run("body: the other members", test_members);
    harness_run("body: the orders of a basket", test_orders);
    harness_run("body: no orders", test_no_orders);
    harness_run("body: an order's id must fit a URL", test_usable_orders);
    harness_run("body: cut off anywhere is no object", test_every_cut);
    harness_run("body: what is no object is refused", test_bad);
    return harness_finish();
}
