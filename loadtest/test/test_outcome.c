#include <string.h>

#include "loadtest/http/connection_pool.h"
#include "loadtest/judge/request_log.h"
#include "loadtest/request_plan.h"
#include "test/harness.h"

static struct request_log request_log;
static struct options options;
static const struct plan plan = {.options = &options};
static struct response response;

static void free_log(void *unused) {
    (void)unused;
    request_log_free(&request_log);
}

static struct log_line *begin(void) {
    options = (struct options){.item = "demo", .quantity = 1};
    request_log_init(&request_log);
    harness_defer(free_log, NULL);
    return request_log_add(&request_log);
}

static void judge(struct log_line *line, enum connection_result result) {
    struct pool_answer answer = {.result = result, .sent_ns = 5, .answered_ns = 7};
    if (result == CONNECTION_ANSWERED)
        answer.response = &response;
    request_log_record(&request_log, line, &plan, &answer);
}

static void judge_answer(struct log_line *line, unsigned status, const char *body) {
    memset(&response, 0, sizeof response);
    response.status = status;
    response.body_length = strlen(body);
    memcpy(response.body, body, response.body_length);
    judge(line, CONNECTION_ANSWERED);
}

static void check(const struct log_line *line, enum outcome outcome, const char *reason) {
    CHECK_INT(line->outcome, outcome);
    CHECK_STR(request_log.reasons[line->reason], reason);
}

static void test_answers(void) {
    struct log_line *line = begin();
    judge_answer(line, 409, "{\"type\":\"/problems/sold-out\"}");
    check(line, OUTCOME_REJECTED, "sold-out");
    CHECK_INT(line->cause, 0);
    judge_answer(line, 404, "<html>");
    check(line, OUTCOME_REJECTED, "http-404");
    judge_answer(line, 400, "{\"type\":\"about:blank\"}");
    check(line, OUTCOME_REJECTED, "http-400");
    judge_answer(line, 400, "{\"type\":\"/a\x1b[31m b\"}");
    check(line, OUTCOME_REJECTED, "a??31m?b");
    judge_answer(line, 201, "{\"order\":\"demo:1\"}");
    check(line, OUTCOME_ACCEPTED, "");
    CHECK_STR(request_log_order_id(&request_log, &request_log.orders[line->order]), "demo:1");
    CHECK_INT(line->status, 201);
    CHECK_INT(line->tries, 5);
    CHECK_INT(line->sent_ns, 5);
    CHECK_INT(line->answered_ns, 7);
}

static const struct log_order *order_of(const struct log_line *line, unsigned part) {
    const struct log_order *order = &request_log.orders[line->order + part];
    CHECK_INT(order->part, part);
    return order;
}

static void test_confirmed(void) {
    struct log_line *line = begin();
    judge_answer(line, 201, "{\"order\":\"demo:1\",\"state\":\"confirmed\"}");
    CHECK(order_of(line, 0)->confirmed);
    judge_answer(line, 201, "{\"order\":\"demo:1\",\"state\":\"held\"}");
    CHECK(!order_of(line, 0)->confirmed);
}

/* The basket of key 0, with three lines that the seed has drawn. */
static struct planned_request planned;
static struct log_line *begin_basket(void) {
    begin();
    options = (struct options){
        .item = "demo", .items = 5, .quantity = 2, .basket_lines = 3, .seed = harness_seed()};
    plan_of_key(&plan, 0, &planned);
    struct log_line *line = request_log_add(&request_log);
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
    return harness_format("%s,%s,%s", bought(planned.items[0], 1), bought(planned.items[1], 2),
                          bought(planned.items[2], 3));
}

/* One character for each order: . right, m misstated, a absent; then + for surplus orders. */
static void check_basket(struct log_line *line, const char *want) {
    char got[5] = "...";
    check(line, OUTCOME_ACCEPTED, "");
    for (unsigned i = 0; i < 3; i++) {
        const struct log_order *order = order_of(line, i);
        CHECK(!order->misstated || !order->absent);
        got[i] = order->misstated ? 'm' : got[i];
        got[i] = order->absent ? 'a' : got[i];
    }
    got[3] = order_of(line, 0)->surplus ? '+' : '\0';
    CHECK_STR(got, want);
}

static void test_basket(void) {
    struct log_line *line = begin_basket();
    judge_answer(line, 201, basket(whole()));
    check_basket(line, "...");
    CHECK_STR(request_log_order_id(&request_log, order_of(line, 2)),
              harness_format("demo-%u:3", planned.items[2]));
    CHECK(!order_of(line, 0)->confirmed);
    judge_answer(line, 201, basket(harness_format("%s,%s", whole(), bought(0, 4))));
    check_basket(line, "...+");
    judge_answer(line, 201,
                 basket(harness_format("%s,%s", bought(planned.items[0], 1), bought(planned.items[1], 2))));
    check_basket(line, "..a");
    judge_answer(line, 201,
                 basket(harness_format("%s,{\"item\":\"demo-1\"},%s", bought(planned.items[0], 1),
                                       bought(planned.items[2], 2))));
    check_basket(line, ".a.");
    judge_answer(line, 201,
                 basket(harness_format("%s,7,%s", bought(planned.items[0], 1), bought(planned.items[2], 2))));
    check_basket(line, ".aa");
    uint32_t other = (planned.items[1] + 1) % 5;
    judge_answer(line, 201,
                 basket(harness_format("%s,%s,%s", bought(planned.items[0], 1), bought(other, 2),
                                       bought(planned.items[2], 3))));
    check_basket(line, ".m.");
}

/* Each order has its own content hash; the first one includes that of the basket. */
static void test_basket_content(void) {
    struct log_line *line = begin_basket();
    judge_answer(line, 201, basket(whole()));
    judge_answer(line, 201,
                 basket(harness_format("%s , %s,%s", bought(planned.items[0], 1), bought(planned.items[1], 2),
                                       replace(bought(planned.items[2], 3), "held\"", "held\",\"more\":1"))));
    judge_answer(line, 201, replace(basket(whole()), "{\"basket\"", "{\"more\":1,\"basket\""));
    const struct log_order *orders = request_log.orders;
    CHECK(orders[0].content == orders[3].content && orders[0].content != orders[6].content);
    CHECK(orders[1].content == orders[4].content && orders[1].content == orders[7].content);
    CHECK(orders[2].content != orders[5].content && orders[2].content == orders[8].content);
}

static void test_basket_told_otherwise(void) {
    struct log_line *line = begin_basket();
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
    struct log_line *line = begin_basket();
    judge_answer(line, 201, basket(""));
    check(line, OUTCOME_UNKNOWN, "no-order-in-answer");
    judge_answer(line, 201, replace(basket(whole()), "\"b:1\"", "1"));
    check(line, OUTCOME_UNKNOWN, "no-basket-in-answer");
    judge_answer(line, 201, "<html>");
    check(line, OUTCOME_UNKNOWN, "no-basket-in-answer");
    CHECK_INT(request_log.order_count, 0);
}

static void test_basket_refused(void) {
    struct log_line *line = begin_basket();
    judge_answer(line, 409, "{\"type\":\"/problems/sold-out\",\"line\":1,\"item\":\"demo-1\"}");
    check(line, OUTCOME_REJECTED, "sold-out");
}

static void test_transfer(void) {
    struct log_line *line = begin();
    options =
        (struct options){.item = "demo", .items = 5, .quantity = 2, .transfers = 100, .seed = harness_seed()};
    plan_of_key(&plan, 0, &planned);
    const char *good =
        harness_format("{\"transfer\":\"t:1\",\"from\":\"demo-%u\",\"to\":\"demo-%u\",\"quantity\":2}",
                       planned.items[0], planned.items[1]);
    judge_answer(line, 200, good);
    check(line, OUTCOME_ACCEPTED, "");
    CHECK(!order_of(line, 0)->misstated);
    CHECK_STR(request_log_order_id(&request_log, order_of(line, 0)), "t:1");
    judge_answer(line, 200, replace(good, "\"quantity\":2", "\"quantity\":3"));
    CHECK(order_of(line, 0)->misstated);
    judge_answer(line, 200, replace(good, "\"to\":\"demo", "\"to\":\"mode"));
    CHECK(order_of(line, 0)->misstated);
    judge_answer(line, 200, "{}");
    check(line, OUTCOME_UNKNOWN, "no-transfer-in-answer");
}

static void test_unknown(void) {
    static const struct {
        enum connection_result result;
        const char *reason;
    } cases[] = {{CONNECTION_BROKEN, "connection-broken"},
                 {CONNECTION_TIMED_OUT, "timed-out"},
                 {CONNECTION_UNREADABLE, "unreadable-answer"}};
    struct log_line *line = begin();
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        judge(line, cases[i].result);
        check(line, OUTCOME_UNKNOWN, cases[i].reason);
        CHECK_STR(request_log.reasons[line->cause], cases[i].reason);
    }
    judge_answer(line, 503, "{\"type\":\"/problems/overloaded\"}");
    check(line, OUTCOME_UNKNOWN, "overloaded");
    judge_answer(line, 500, "");
    check(line, OUTCOME_UNKNOWN, "http-500");
    judge_answer(line, 201, "{\"id\":\"demo:1\"}");
    check(line, OUTCOME_UNKNOWN, "no-order-in-answer");
    judge_answer(line, 201, "{\"order\":\"demo:1\"");
    check(line, OUTCOME_UNKNOWN, "no-order-in-answer");
}

static void test_unknown_stays(void) {
    struct log_line *line = begin();
    judge(line, CONNECTION_NOT_SENT);
    check(line, OUTCOME_NOT_SENT, "not-sent");
    CHECK_INT(line->sent_ns, 0);
    judge(line, CONNECTION_TIMED_OUT);
    judge(line, CONNECTION_NOT_SENT);
    check(line, OUTCOME_UNKNOWN, "timed-out");
    judge_answer(line, 409, "{\"type\":\"sold-out\"}");
    check(line, OUTCOME_REJECTED, "sold-out");
    CHECK_STR(request_log.reasons[line->cause], "timed-out");
}

static void test_reasons_are_bounded(void) {
    begin();
    uint8_t first = request_log_reason(&request_log, "first", 5);
    for (int i = 0; i < 300; i++) {
        const char *name = harness_format("reason-%d", i);
        CHECK(request_log_reason(&request_log, name, strlen(name)) < REQUEST_LOG_REASONS);
    }
    CHECK_INT(request_log_reason(&request_log, "first", 5), first);
    CHECK_STR(request_log.reasons[request_log_reason(&request_log, "one more", 8)], "other");
    const char *lengthy = "a-reason-that-is-longer-than-a-reason-may-be";
    request_log_free(&request_log);
    request_log_init(&request_log);
    CHECK_INT(request_log_reason(&request_log, lengthy, strlen(lengthy)),
              request_log_reason(&request_log, lengthy, strlen(lengthy)));
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
