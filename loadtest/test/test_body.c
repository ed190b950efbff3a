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

/* What is known of the body: "order=a:1 quantity=2"; "no object": it was not read. */
static const char *told(const struct body *body) {
    const struct {
        const char *name;
        struct body_text text;
    } texts[] = {{"order", body->order}, {"transfer", body->transfer}, {"basket", body->basket},
                 {"type", body->type},   {"item", body->item},         {"user", body->user},
                 {"state", body->state}, {"from", body->from},         {"to", body->to}};
    const char *all = "";
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        if (texts[i].text.bytes)
            all = harness_format("%s %s=%.*s", all, texts[i].name, (int)texts[i].text.length,
                                 texts[i].text.bytes);
    }
    if (body->quantity)
        all = harness_format("%s quantity=%d", all, (int)body->quantity);
    return *all ? all + 1 : all;
}

static void test_members(void) {
    static const struct {
        const char *text, *want;
    } cases[] = {
        {"{}", ""},
        {"{\"item\":\"a\",\"nested\":{\"order\":\"no\",\"list\":[1,\"]}\",{}]}, \"order\" : \"demo:17\" "
         ",\"quantity\":-1.5e3,\"none\":null}\r\n",
         "order=demo:17 item=a"},
        {"{\"transfer\":\"t1\",\"from\":\"a\",\"to\":\"b\",\"quantity\": 17 "
         ",\"basket\":\"b1\",\"user\":\"u\","
         "\"state\":\"held\"}",
         "transfer=t1 basket=b1 user=u state=held from=a to=b quantity=17"},
        /* The problem's type is its last segment. */
        {"{\"type\":\"https://x.example/problems/sold-out\",\"available\":0}", "type=sold-out"},
        {"{\"type\":\"sold-out\"}", "type=sold-out"},
        {"{\"type\":17,\"order\":null}", ""},
        {"{\"quantity\":-1}", ""},
        {"{\"quantity\":1.5}", ""},
        {"{\"quantity\":1e2}", ""},
        {"{\"quantity\":\"3\"}", ""},
        {"{\"quantity\":null}", ""},
        {"{\"quantity\":12345678901234567890}", ""},
    };
    static const char bad[] = /* a line each; the first one is empty */
        "\nnull\n[]\n\"order\"\n{\"a\"}\n{\"a\":}\n{\"a\":1,}\n{,}\n{a:1}\n{\"a\":1}x\n{\"a\":1 "
        "2}\n{\"a\":]}\n"
        "{\"a\":[}\n{\"a\":\"\\\"}\n{\"a\" 1}\n<html>\n{\"a\":{\"b\":1}";
    struct body body;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        CHECK(read_text(cases[i].text, &body));
        CHECK_STR(told(&body), cases[i].want);
    }
    char *rest = harness_format("%s", bad);
    for (char *line; (line = strsep(&rest, "\n"));) {
        if (read_text(line, &body))
            FAIL("read: %s", line);
    }
}

static uint64_t content_of(const char *text) {
    struct body body;
    CHECK(read_text(text, &body));
    return body.content;
}

/* The content is the members', not their sequence's, and not what may become of an order. */
static void test_content(void) {
    static const char *const others[] = {"{\"order\":\"2\",\"quantity\":2,\"state\":\"held\"}",
                                         "{\"order\":\"1\",\"quantity\":\"2\",\"state\":\"held\"}",
                                         "{\"order\":\"1\",\"quantity\":2,\"user\":\"u\"}",
                                         "{\"order\":\"1\"}", "{\"order\":\"held\",\"quantity\":2}"};
    uint64_t one = content_of("{\"order\":\"1\",\"quantity\":2,\"state\":\"held\"}");
    CHECK(content_of(" { \"state\" : \"held\",\n\"quantity\": 2 , \"order\":\"1\" } ") == one);
    CHECK(content_of(
              "{\"order\":\"1\",\"quantity\":2,\"state\":\"confirmed\",\"version\":2,\"expires_at\":\"x\","
              "\"settled_at\":\"y\",\"payment\":\"p\",\"returned\":1,\"late\":true,\"refund_due\":true}") ==
          one);
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        CHECK(content_of(others[i]) != one);
    CHECK(content_of("{}") == 0);
}

static void test_orders(void) {
    static const char *const none[] = {"[]", "[ ]", "[1,2]", "\"[{}]\"", "{\"order\":\"a\"}", "null", "[}"};
    struct body body, order;
    CHECK(read_text("{\"basket\":\"b\",\"orders\": [ {\"order\":\"a:1\",\"quantity\":2} , "
                    "{ \"quantity\": 3, \"order\": \"b:]7\" }\n],\"state\":\"held\"}",
                    &body));
    CHECK_STR(told(&body), "basket=b state=held");
    CHECK(body_next_order(&body.orders, &order));
    CHECK_STR(told(&order), "order=a:1 quantity=2");
    CHECK(body_next_order(&body.orders, &order));
    CHECK_STR(told(&order), "order=b:]7 quantity=3");
    CHECK_INT(order.content, content_of("{\"order\":\"b:]7\",\"quantity\":3}"));
    CHECK(!body_next_order(&body.orders, &order));
    CHECK_STR(told(&order), "order=b:]7 quantity=3"); /* unchanged */
    CHECK(read_text("{}", &body) && !body_next_order(&body.orders, &order));
    for (size_t i = 0; i < sizeof none / sizeof none[0]; i++) {
        CHECK(read_text(harness_format("{\"orders\":%s}", none[i]), &body));
        if (body_next_order(&body.orders, &order))
            FAIL("has an order: %s", none[i]);
    }
}

/* An order's id must fit a URL. */
static void test_usable_orders(void) {
    static const char *const unusable[] = {"",    "a b",   "a/b",   "a\\\"b",  "a?b",
                                           "a#b", "a%20b", "a\x7f", "\xc3\xa4"};
    struct body body;
    for (size_t i = 0; i < sizeof unusable / sizeof unusable[0]; i++) {
        CHECK(read_text(harness_format("{\"order\":\"%s\"}", unusable[i]), &body));
        if (body_id_usable(body.order))
            FAIL("usable: %s", unusable[i]);
    }
    CHECK(read_text("{}", &body) && !body_id_usable(body.order));
    CHECK(read_text("{\"order\":\"demo:17\"}", &body) && body_id_usable(body.order));
}

static void test_every_cut(void) {
    static const char text[] = "{\"order\":\"d\\\"1\",\"list\":[1,{\"a\":\"}\"}],\"n\":1.5,\"b\":true}";
    struct body body;
    CHECK(read_text(text, &body));
    for (size_t length = 0; length < sizeof text - 1; length++) {
        if (read_text(harness_format("%.*s", (int)length, text), &body))
            FAIL("read, though cut off at %zu", length);
    }
}

int main(int argc, char **argv) {
    harness_begin(argc, argv);
    harness_run("body: members, and what is no object", test_members);
    harness_run("body: the content", test_content);
    harness_run("body: the orders of a basket", test_orders);
    harness_run("body: usable ids", test_usable_orders);
    harness_run("body: cut off anywhere is no object", test_every_cut);
    return harness_finish();
}
