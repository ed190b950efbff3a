#include <string.h>

#include "loadtest/item.h"
#include "loadtest/purchase.h"
#include "test/harness.h"

static struct ledger ledger;
static struct response response;

static void free_ledger(void *unused) {
    (void)unused;
    ledger_free(&ledger);
}

static struct ledger_line *begin(void) {
    ledger_init(&ledger);
    harness_defer(free_ledger, NULL);
    return ledger_add(&ledger);
}

static void judge(struct ledger_line *line, enum client_result result) {
    struct pool_answer answer = {.result = result, .sent_ns = 5, .answered_ns = 7, .target = 2};
    if (result == CLIENT_ANSWERED)
        answer.response = &response;
    purchase_judge(&ledger, line, &answer);
}

static void judge_answer(struct ledger_line *line, unsigned status, const char *body) {
    memset(&response, 0, sizeof response);
    response.status = status;
    response.body_length = strlen(body);
    memcpy(response.body, body, response.body_length);
    judge(line, CLIENT_ANSWERED);
}

static void check(const struct ledger_line *line, enum ledger_outcome outcome, const char *reason) {
    CHECK_INT(line->outcome, outcome);
    CHECK_STR(ledger.reasons[line->reason], reason);
}

static void test_request(void) {
    struct purchase_form form = {.length = 0};
    char request[CLIENT_REQUEST];
    struct options options = {.item = "demo", .quantity = 12};
    purchase_form_init(&form, "h:1", &options, "0123456789abcdef");
    size_t length = purchase_render(&form, 4294967295, 99999999, request);
    CHECK_STR(
        harness_format("%.*s", (int)length, request),
        "POST /v1/purchases HTTP/1.1\r\nHost: h:1\r\nContent-Type: application/json\r\nContent-Length: 48\r\n"
        "Idempotency-Key: sl-0123456789abcdef-4294967295\r\n\r\n"
        "{\"item\":\"demo\",\"user\":\"u99999999\",\"quantity\":12}");
    length = purchase_render(&form, 7, 0, request);
    CHECK_HAS(harness_format("%.*s", (int)length, request), "abcdef-0000000007\r\n");
    CHECK_HAS(harness_format("%.*s", (int)length, request), "\"u00000000\"");
    char user[PURCHASE_USER_DIGITS + 2];
    purchase_user(42, user);
    CHECK_STR(user, "u00000042");
}

/* The first key that buys that item. */
static uint32_t key_of(const struct options *options, uint32_t item) {
    uint32_t key = 0;
    while (item_of_key(options, key) != item)
        key++;
    return key;
}

static const char *body_of(const struct purchase_form *form, uint32_t key) {
    char request[CLIENT_REQUEST];
    size_t length = purchase_render(form, key, 5, request);
    const char *text = harness_format("%.*s", (int)length, request);
    CHECK_HAS(text, "\r\nContent-Length: 51\r\n");
    const char *body = strstr(text, "\r\n\r\n") + 4;
    CHECK_INT(strlen(body), 51);
    return body;
}

static void test_items(void) {
    struct purchase_form form = {.length = 0};
    struct options options = {.item = "demo", .items = 101, .quantity = 1, .seed = harness_seed()};
    purchase_form_init(&form, "h:1", &options, "0123456789abcdef");
    CHECK_STR(body_of(&form, key_of(&options, 100)),
              "{\"item\":\"demo-100\",\"user\":\"u00000005\",\"quantity\":1}");
    CHECK_STR(body_of(&form, key_of(&options, 42)),
              "{\"item\":\"demo-42\" ,\"user\":\"u00000005\",\"quantity\":1}");
    CHECK_STR(body_of(&form, key_of(&options, 0)),
              "{\"item\":\"demo-0\"  ,\"user\":\"u00000005\",\"quantity\":1}");
    options.items = 1;
    purchase_form_init(&form, "h:1", &options, "0123456789abcdef");
    char request[CLIENT_REQUEST];
    size_t length = purchase_render(&form, 3, 5, request);
    CHECK_HAS(harness_format("%.*s", (int)length, request), "{\"item\":\"demo-0\",\"user\":");
}

static void test_answers(void) {
    struct ledger_line *line = begin();
    judge_answer(line, 409, "{\"type\":\"/problems/sold-out\"}");
    check(line, LEDGER_REJECTED, "sold-out");
    CHECK_INT(line->cause, 0);
    judge_answer(line, 404, "<html>");
    check(line, LEDGER_REJECTED, "http-404");
    judge_answer(line, 400, "{\"type\":\"about:blank\"}");
    check(line, LEDGER_REJECTED, "http-400");
    judge_answer(line, 400, "{\"type\":\"/a\x1b[31m b\"}");
    check(line, LEDGER_REJECTED, "a??31m?b");
    judge_answer(line, 201, "{\"order\":\"demo:1\"}");
    check(line, LEDGER_OK, "");
    CHECK_STR(ledger_order_id(&ledger, &ledger.orders[line->order]), "demo:1");
    CHECK_INT(line->status, 201);
    CHECK_INT(line->tries, 5);
    CHECK_INT(line->sent_ns, 5);
    CHECK_INT(line->answered_ns, 7);
    CHECK_INT(line->target, 2);
}

static void test_unknown(void) {
    static const struct {
        enum client_result result;
        const char *reason;
    } cases[] = {{CLIENT_BROKEN, "connection-broken"},
                 {CLIENT_TIMED_OUT, "timed-out"},
                 {CLIENT_UNREADABLE, "unreadable-answer"}};
    struct ledger_line *line = begin();
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        judge(line, cases[i].result);
        check(line, LEDGER_UNKNOWN, cases[i].reason);
        CHECK_STR(ledger.reasons[line->cause], cases[i].reason);
    }
    judge_answer(line, 503, "{\"type\":\"/problems/overloaded\"}");
    check(line, LEDGER_UNKNOWN, "overloaded");
    judge_answer(line, 500, "");
    check(line, LEDGER_UNKNOWN, "http-500");
    judge_answer(line, 201, "{\"id\":\"demo:1\"}");
    check(line, LEDGER_UNKNOWN, "no-order-in-answer");
    judge_answer(line, 201, "{\"order\":\"demo:1\"");
    check(line, LEDGER_UNKNOWN, "no-order-in-answer");
}

static void test_unknown_stays(void) {
    struct ledger_line *line = begin();
    judge(line, CLIENT_NOT_SENT);
    check(line, LEDGER_NOT_SENT, "not-sent");
    CHECK_INT(line->sent_ns, 0);
    judge(line, CLIENT_TIMED_OUT);
    judge(line, CLIENT_NOT_SENT);
    check(line, LEDGER_UNKNOWN, "timed-out");
    judge_answer(line, 409, "{\"type\":\"sold-out\"}");
    check(line, LEDGER_REJECTED, "sold-out");
    CHECK_STR(ledger.reasons[line->cause], "timed-out");
}

static void test_reasons_are_bounded(void) {
    begin();
    uint8_t first = ledger_reason(&ledger, "first", 5);
    for (int i = 0; i < 300; i++) {
        const char *name = harness_format("reason-%d", i);
        CHECK(ledger_reason(&ledger, name, strlen(name)) < LEDGER_REASONS);
    }
    CHECK_INT(ledger_reason(&ledger, "first", 5), first);
    CHECK_STR(ledger.reasons[ledger_reason(&ledger, "one more", 8)], "other");
    const char *lengthy = "a-reason-that-is-longer-than-a-reason-may-be";
    ledger_free(&ledger);
    ledger_init(&ledger);
    CHECK_INT(ledger_reason(&ledger, lengthy, strlen(lengthy)),
              ledger_reason(&ledger, lengthy, strlen(lengthy)));
}

int main(int argc, char **argv) {
    harness_begin(argc, argv);
    harness_run("purchase: the request", test_request);
    harness_run("purchase: the request for one of several items", test_items);
    harness_run("purchase: answers", test_answers);
    harness_run("purchase: what is unknown", test_unknown);
    harness_run("purchase: unknown until it is answered", test_unknown_stays);
    harness_run("purchase: reasons are bounded", test_reasons_are_bounded);
    return harness_finish();
}
