#include <string.h>

#include "loadtest/judge/answer.h"
#include "test/harness.h"

static struct ledger ledger;
static struct options options;
static const struct demand demand = {.options = &options};
static struct response response;

static void free_ledger(void *unused) {
    (void)unused;
    ledger_free(&ledger);
}

static struct ledger_line *begin(void) {
    options = (struct options){.item = "demo", .quantity = 1};
    ledger_init(&ledger);
    harness_defer(free_ledger, NULL);
    return ledger_add(&ledger);
}

static void judge(struct ledger_line *line, enum client_result result) {
    struct pool_answer answer = {.result = result, .sent_ns = 5, .answered_ns = 7, .target = 2};
    if (result == CLIENT_ANSWERED)
        answer.response = &response;
    answer_judge(&demand, &ledger, line, &answer);
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

static const struct ledger_order *order_of(const struct ledger_line *line, unsigned part) {
    const struct ledger_order *order = &ledger.orders[line->order + part];
    CHECK_INT(order->part, part);
    return order;
}

static void test_confirmed(void) {
    struct ledger_line *line = begin();
    judge_answer(line, 201, "{\"order\":\"demo:1\",\"state\":\"confirmed\"}");
    CHECK(order_of(line, 0)->confirmed);
    judge_answer(line, 201, "{\"order\":\"demo:1\",\"state\":\"held\"}");
    CHECK(!order_of(line, 0)->confirmed);
}

/* A basket of three lines of key 0, whose items the seed has drawn. */
static struct wish wish;
static struct ledger_line *begin_basket(void) {
    begin();
    options = (struct options){
        .item = "demo", .items = 5, .quantity = 2, .basket_lines = 3, .seed = harness_seed()};
    demand_of_key(&demand, 0, &wish);
    struct ledger_line *line = ledger_add(&ledger);
    line->user = 4;
    return line;
}

/* An order of such a basket. */
static const char *bought(uint32_t item, int number) {
    return harness_format(
        "{\"order\":\"demo-%u:%d\",\"item\":\"demo-%u\",\"user\":\"u00000004\",\"quantity\":2,"
        "\"state\":\"held\"}",
        item, number, item);
}

static const char *basket(const char *orders) {
    return harness_format("{\"basket\":\"b:1\",\"user\":\"u00000004\",\"state\":\"held\",\"orders\":[%s]}",
                          orders);
}

static const char *replace(const char *text, const char *old, const char *new) {
    const char *at = strstr(text, old);
    CHECK(at != NULL);
    return harness_format("%.*s%s%s", (int)(at - text), text, new, at + strlen(old));
}

static const char *whole(void) {
    return harness_format("%s,%s,%s", bought(wish.items[0], 1), bought(wish.items[1], 2),
                          bought(wish.items[2], 3));
}

/* Of each order: . as it should be, m misstated, a absent; + for more than there should be. */
static void check_basket(struct ledger_line *line, const char *want) {
    char got[5] = "...";
    check(line, LEDGER_OK, "");
    for (unsigned i = 0; i < 3; i++) {
        const struct ledger_order *order = order_of(line, i);
        CHECK(!order->misstated || !order->absent);
        got[i] = order->misstated ? 'm' : got[i];
        got[i] = order->absent ? 'a' : got[i];
    }
    got[3] = order_of(line, 0)->surplus ? '+' : '\0';
    CHECK_STR(got, want);
}

static void test_basket(void) {
    struct ledger_line *line = begin_basket();
    judge_answer(line, 201, basket(whole()));
    check_basket(line, "...");
    CHECK_STR(ledger_order_id(&ledger, order_of(line, 2)), harness_format("demo-%u:3", wish.items[2]));
    CHECK(!order_of(line, 0)->confirmed);
    judge_answer(line, 201, basket(harness_format("%s,%s", whole(), bought(0, 4))));
    check_basket(line, "...+");
    judge_answer(line, 201,
                 basket(harness_format("%s,%s", bought(wish.items[0], 1), bought(wish.items[1], 2))));
    check_basket(line, "..a");
    judge_answer(line, 201,
                 basket(harness_format("%s,{\"item\":\"demo-1\"},%s", bought(wish.items[0], 1),
                                       bought(wish.items[2], 2))));
    check_basket(line, ".a.");
    judge_answer(line, 201,
                 basket(harness_format("%s,7,%s", bought(wish.items[0], 1), bought(wish.items[2], 2))));
    check_basket(line, ".aa");
    uint32_t other = (wish.items[1] + 1) % 5;
    judge_answer(line, 201,
                 basket(harness_format("%s,%s,%s", bought(wish.items[0], 1), bought(other, 2),
                                       bought(wish.items[2], 3))));
    check_basket(line, ".m.");
}

/* Each order has its own content; the first also that of the whole. */
static void test_basket_content(void) {
    struct ledger_line *line = begin_basket();
    judge_answer(line, 201, basket(whole()));
    judge_answer(line, 201,
                 basket(harness_format("%s , %s,%s", bought(wish.items[0], 1), bought(wish.items[1], 2),
                                       replace(bought(wish.items[2], 3), "held\"", "held\",\"more\":1"))));
    judge_answer(line, 201, replace(basket(whole()), "{\"basket\"", "{\"more\":1,\"basket\""));
    const struct ledger_order *orders = ledger.orders;
    CHECK(orders[0].content == orders[3].content && orders[0].content != orders[6].content);
    CHECK(orders[1].content == orders[4].content && orders[1].content == orders[7].content);
    CHECK(orders[2].content != orders[5].content && orders[2].content == orders[8].content);
}

static void test_basket_told_otherwise(void) {
    struct ledger_line *line = begin_basket();
    const char *orders = whole();
    judge_answer(line, 201, basket(replace(orders, "\"quantity\":2", "\"quantity\":1")));
    check_basket(line, "m..");
    judge_answer(line, 201, basket(replace(orders, "u00000004", "u00000005")));
    check_basket(line, "m..");
    judge_answer(line, 201, basket(replace(orders, "held", "confirmed")));
    check_basket(line, "m..");
    judge_answer(line, 201, replace(basket(orders), "u00000004", "u00000005"));
    check_basket(line, "m..");
}

static void test_no_basket(void) {
    struct ledger_line *line = begin_basket();
    judge_answer(line, 201, basket(""));
    check(line, LEDGER_UNKNOWN, "no-order-in-answer");
    judge_answer(line, 201, replace(basket(whole()), "\"b:1\"", "1"));
    check(line, LEDGER_UNKNOWN, "no-basket-in-answer");
    judge_answer(line, 201, "<html>");
    check(line, LEDGER_UNKNOWN, "no-basket-in-answer");
    CHECK_INT(ledger.order_count, 0);
}

static void test_basket_refused(void) {
    struct ledger_line *line = begin_basket();
    judge_answer(
        line, 409,
        harness_format("{\"type\":\"/problems/sold-out\",\"line\":1,\"item\":\"demo-%u\"}", wish.items[1]));
    check(line, LEDGER_REJECTED, "sold-out");
    CHECK_INT(wish.items[line->part], wish.items[1]);
    judge_answer(line, 409, "{\"type\":\"/problems/sold-out\",\"item\":\"other\"}");
    CHECK_INT(line->part, LEDGER_NOWHERE);
    judge_answer(line, 409, "{\"type\":\"/problems/sold-out\"}");
    CHECK_INT(line->part, LEDGER_NOWHERE);
}

static void test_transfer(void) {
    struct ledger_line *line = begin();
    options =
        (struct options){.item = "demo", .items = 5, .quantity = 2, .transfers = 100, .seed = harness_seed()};
    demand_of_key(&demand, 0, &wish);
    const char *good =
        harness_format("{\"transfer\":\"t:1\",\"from\":\"demo-%u\",\"to\":\"demo-%u\",\"quantity\":2}",
                       wish.items[0], wish.items[1]);
    judge_answer(line, 200, good);
    check(line, LEDGER_OK, "");
    CHECK(!order_of(line, 0)->misstated);
    CHECK_STR(ledger_order_id(&ledger, order_of(line, 0)), "t:1");
    judge_answer(line, 200, replace(good, "\"quantity\":2", "\"quantity\":3"));
    CHECK(order_of(line, 0)->misstated);
    judge_answer(line, 200, replace(good, "\"to\":\"demo", "\"to\":\"mode"));
    CHECK(order_of(line, 0)->misstated);
    judge_answer(line, 200, "{}");
    check(line, LEDGER_UNKNOWN, "no-transfer-in-answer");
    judge_answer(line, 409, "{\"type\":\"/problems/sold-out\",\"available\":0}");
    CHECK_INT(line->part, 0);
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
    harness_run("answer: to a purchase", test_answers);
    harness_run("answer: what is told as confirmed", test_confirmed);
    harness_run("answer: to a basket", test_basket);
    harness_run("answer: the content of a basket", test_basket_content);
    harness_run("answer: a basket told otherwise than it was asked for", test_basket_told_otherwise);
    harness_run("answer: no basket", test_no_basket);
    harness_run("answer: a refused basket", test_basket_refused);
    harness_run("answer: to a transfer", test_transfer);
    harness_run("answer: what is unknown", test_unknown);
    harness_run("answer: unknown until it is answered", test_unknown_stays);
    harness_run("answer: reasons are bounded", test_reasons_are_bounded);
    return harness_finish();
}
