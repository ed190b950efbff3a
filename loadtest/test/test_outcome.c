/* What an answer means for its line of the request log, and for the orders that it acknowledges. */
#include <string.h>

#include "loadtest/http/connection_pool.h"
#include "loadtest/judge/request_log.h"
#include "loadtest/request_plan.h"
#include "test/harness.h"

static struct request_log request_log;
static struct options options;
static const struct plan plan = {.options = &options};
static struct planned_request planned; /* of key 0 */
static struct log_line *line;          /* of the running test: buys, for user 4, with key 0 */

static void free_log(void *unused) {
    (void)unused;
    request_log_free(&request_log);
}

static void begin(struct options of) {
    options = of;
    options.item = "demo";
    options.quantity = 2;
    options.seed = harness_seed();
    request_log_free(&request_log);
    request_log_init(&request_log);
    harness_defer(free_log, NULL);
    plan_of_key(&plan, 0, &planned);
    line = request_log_add(&request_log);
    line->user = 4;
}

/* The outcome and the reason; and a character for each order: . right, c confirmed, m misstated, a absent;
 * then + for surplus orders. */
static const char *record(enum connection_result result, unsigned status, const char *body) {
    static const char *const outcomes[] = {"open", "not sent", "unknown", "accepted", "rejected"};
    static struct response response;
    struct pool_answer answer = {.result = result, .sent_ns = 5, .answered_ns = 7};
    if (result == CONNECTION_ANSWERED) {
        memset(&response, 0, sizeof response);
        response.status = status;
        response.body_length = strlen(body);
        memcpy(response.body, body, response.body_length);
        answer.response = &response;
    }
    size_t first = request_log.order_count;
    request_log_record(&request_log, line, &plan, &answer);
    const char *reason = request_log.reasons[line->reason];
    const char *text = harness_format("%s%s%s", outcomes[line->outcome], *reason ? " " : "", reason);
    for (size_t i = first; i < request_log.order_count; i++) {
        const struct log_order *order = &request_log.orders[i];
        CHECK(order->part == i - first && line->order == first);
        CHECK(order->misstated + order->absent <= 1);
        text = harness_format("%s%s%c", text, i > first ? "" : " ",
                              order->misstated   ? 'm'
                              : order->absent    ? 'a'
                              : order->confirmed ? 'c'
                                                 : '.');
    }
    bool surplus = request_log.order_count > first && request_log.orders[first].surplus;
    return surplus ? harness_format("%s+", text) : text;
}

static const char *answer(unsigned status, const char *body) {
    return record(CONNECTION_ANSWERED, status, body);
}

static void test_purchase(void) {
    static const struct {
        unsigned status;
        const char *body, *want;
    } cases[] = {
        {409, "{\"type\":\"/problems/sold-out\"}", "rejected sold-out"},
        {404, "<html>", "rejected http-404"},
        {400, "{\"type\":\"about:blank\"}", "rejected http-400"},
        {400, "{\"type\":\"/a\x1b[31m b\"}", "rejected a??31m?b"},
        {503, "{\"type\":\"/problems/overloaded\"}", "unknown overloaded"},
        {500, "", "unknown http-500"},
        {201, "{\"id\":\"demo:1\"}", "unknown no-order-in-answer"},
        {201, "{\"order\":\"demo:1\"", "unknown no-order-in-answer"},
        {201, "{\"order\":\"demo:1\",\"state\":\"confirmed\"}", "accepted c"},
        {201, "{\"order\":\"demo:1\",\"state\":\"held\"}", "accepted ."},
        {201, "{\"order\":\"demo:1\"}", "accepted ."},
    };
    begin((struct options){.items = 0});
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        CHECK_STR(answer(cases[i].status, cases[i].body), cases[i].want);
    CHECK_STR(request_log_order_id(&request_log, &request_log.orders[line->order]), "demo:1");
    CHECK_INT(line->status, 201);
    CHECK_INT(line->tries, sizeof cases / sizeof cases[0]);
    CHECK_INT(line->sent_ns, 5);
    CHECK_INT(line->answered_ns, 7);
}

static void test_no_answer(void) {
    begin((struct options){.items = 0});
    CHECK_STR(record(CONNECTION_NOT_SENT, 0, NULL), "not sent not-sent");
    CHECK_INT(line->sent_ns, 0);
    CHECK_STR(record(CONNECTION_BROKEN, 0, NULL), "unknown connection-broken");
    CHECK_STR(record(CONNECTION_UNREADABLE, 0, NULL), "unknown unreadable-answer");
    CHECK_STR(record(CONNECTION_TIMED_OUT, 0, NULL), "unknown timed-out");
    CHECK_STR(record(CONNECTION_NOT_SENT, 0, NULL), "unknown timed-out"); /* until it is answered */
    CHECK_STR(answer(409, "{\"type\":\"sold-out\"}"), "rejected sold-out");
    CHECK_STR(request_log.reasons[line->cause], "timed-out");
    begin((struct options){.items = 0});
    answer(409, "{\"type\":\"sold-out\"}");
    CHECK_INT(line->cause, 0);
}

/* ---- baskets ---- */

static void begin_basket(void) {
    begin((struct options){.items = 5, .basket_lines = 3});
}

static const char *bought(uint32_t item, int number) {
    return harness_format(
        "{\"order\":\"demo-%u:%d\",\"item\":\"demo-%u\",\"user\":\"u00000004\",\"quantity\":2,"
        "\"state\":\"held\"}",
        item, number, item);
}

/* A basket with orders of these lines; + is an order too many, ? an order of another item than that of line
 * 1, - one without an id, and 7 no order at all. */
static const char *basket(const char *lines) {
    const char *orders = "";
    for (int i = 0; lines[i]; i++) {
        const char *order = lines[i] == '+'   ? bought(0, 4)
                            : lines[i] == '?' ? bought((planned.items[1] + 1) % 5, 2)
                            : lines[i] == '-' ? "{\"item\":\"demo-1\"}"
                            : lines[i] == '7' ? "7"
                                              : bought(planned.items[lines[i] - '0'], i + 1);
        orders = harness_format("%s%s%s", orders, i > 0 ? " , " : "", order);
    }
    return harness_format("{\"basket\":\"b:1\",\"user\":\"u00000004\",\"state\":\"held\",\"orders\":[%s]}",
                          orders);
}

static const char *replace(const char *text, const char *old, const char *new) {
    const char *at = strstr(text, old);
    CHECK(at);
    return harness_format("%.*s%s%s", (int)(at - text), text, new, at + strlen(old));
}

static void test_basket(void) {
    static const struct {
        const char *lines, *old, *new, *want;
    } cases[] = {
        {"012+", "", "", "accepted ...+"},
        {"01", "", "", "accepted ..a"},
        {"0-2", "", "", "accepted .a."},
        {"072", "", "", "accepted .aa"},
        {"0?2", "", "", "accepted .m."},
        {"012", "\"quantity\":2", "\"quantity\":1", "accepted m.."},
        {"012", "u00000004\",\"quantity\"", "u00000005\",\"quantity\"", "accepted m.."},
        {"012", "held\"}", "confirmed\"}", "accepted m.."},
        {"012", "u00000004", "u00000005", "accepted m.."}, /* the basket's */
        {"", "", "", "unknown no-order-in-answer"},
        {"012", "\"b:1\"", "1", "unknown no-basket-in-answer"},
        {"012", "{\"basket\"", "<html>", "unknown no-basket-in-answer"},
        {"012", "", "", "accepted ..."},
    };
    begin_basket();
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        CHECK_STR(answer(201, replace(basket(cases[i].lines), cases[i].old, cases[i].new)), cases[i].want);
    CHECK_STR(request_log_order_id(&request_log, &request_log.orders[line->order + 2]),
              harness_format("demo-%u:3", planned.items[2]));
    CHECK_STR(answer(409, "{\"type\":\"/problems/sold-out\",\"line\":1,\"item\":\"demo-1\"}"),
              "rejected sold-out");
}

/* Each order has its own content hash; the first one includes that of the basket. */
static void test_content(void) {
    begin_basket();
    const char *third = bought(planned.items[2], 3);
    answer(201, basket("012"));
    answer(201, replace(basket("012"), third, replace(third, "held\"", "held\",\"more\":1")));
    answer(201, replace(basket("012"), "{\"basket\"", "{\"more\":1,\"basket\""));
    const struct log_order *orders = request_log.orders;
    CHECK_INT(request_log.order_count, 9);
    CHECK(orders[0].content == orders[3].content && orders[0].content != orders[6].content);
    CHECK(orders[1].content == orders[4].content && orders[1].content == orders[7].content);
    CHECK(orders[2].content != orders[5].content && orders[2].content == orders[8].content);
}

/* ---- transfers ---- */

static void test_transfer(void) {
    begin((struct options){.items = 5, .transfers = 100});
    const char *good =
        harness_format("{\"transfer\":\"t:1\",\"from\":\"demo-%u\",\"to\":\"demo-%u\",\"quantity\":2}",
                       planned.items[0], planned.items[1]);
    CHECK_STR(answer(200, "{}"), "unknown no-transfer-in-answer");
    CHECK_STR(answer(200, good), "accepted .");
    CHECK_STR(request_log_order_id(&request_log, &request_log.orders[0]), "t:1");
    CHECK_STR(answer(200, replace(good, "\"quantity\":2", "\"quantity\":3")), "accepted m");
    CHECK_STR(answer(200, replace(good, "\"to\":\"demo", "\"to\":\"mode")), "accepted m");
    CHECK_STR(answer(200, replace(good, "}", ",\"more\":1}")), "accepted .");
    CHECK(request_log.orders[0].content != request_log.orders[3].content);
}

static void test_reasons_are_bounded(void) {
    begin((struct options){.items = 0});
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
    harness_run("answer: to a purchase", test_purchase);
    harness_run("answer: none, unknown until there is one", test_no_answer);
    harness_run("answer: to a basket", test_basket);
    harness_run("answer: the content of a basket", test_content);
    harness_run("answer: to a transfer", test_transfer);
    harness_run("answer: reasons are bounded", test_reasons_are_bounded);
    return harness_finish();
}
