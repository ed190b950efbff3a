#include <string.h>

#include "loadtest/test/receipt.h"
#include "test/harness.h"

struct request_log request_log;
static uint64_t clock_ns;

static void free_log(void *unused) {
    (void)unused;
    request_log_free(&request_log);
}

void receipt_begin(void) {
    request_log_free(&request_log);
    request_log_init(&request_log);
    clock_ns = 1000;
    harness_defer(free_log, NULL);
}

struct log_line *receipt_line(uint32_t key) {
    struct log_line *line = request_log_add(&request_log);
    CHECK(line != NULL);
    line->key = key;
    line->intended_ns = ++clock_ns;
    line->sent_ns = ++clock_ns;
    line->answered_ns = ++clock_ns;
    if (key >= request_log.key_count)
        request_log.key_count = key + 1;
    return line;
}

void receipt_rejected(uint32_t key, const char *why) {
    struct log_line *line = receipt_line(key);
    line->outcome = OUTCOME_REJECTED;
    line->reason = request_log_reason(&request_log, why, strlen(why));
}

void receipt_unknown(uint32_t key) {
    struct log_line *line = receipt_line(key);
    line->outcome = OUTCOME_UNKNOWN;
    line->cause = request_log_reason(&request_log, "timed-out", strlen("timed-out"));
}

void receipt_won_content(uint32_t key, const char *order, uint64_t content) {
    struct log_line *line = receipt_line(key);
    line->outcome = OUTCOME_ACCEPTED;
    struct log_order *noted = request_log_acknowledge(&request_log, line, 0, order, strlen(order));
    CHECK(noted != NULL);
    noted->content = content;
    noted->check = ORDER_FOUND;
}

void receipt_won(uint32_t key) {
    receipt_won_content(key, harness_format("order-%u", key), key);
}

void receipt_won_basket(uint32_t key, unsigned lines) {
    struct log_line *line = receipt_line(key);
    line->outcome = OUTCOME_ACCEPTED;
    for (unsigned i = 0; i < lines; i++) {
        const char *id = harness_format("order-%u-%u", key, i);
        struct log_order *noted = request_log_acknowledge(&request_log, line, (uint8_t)i, id, strlen(id));
        CHECK(noted != NULL);
        noted->content = key;
        noted->check = ORDER_FOUND;
    }
}

struct log_order *receipt_order(uint32_t key, unsigned part) {
    for (size_t i = 0; i < request_log.order_count; i++) {
        if (request_log.lines[request_log.orders[i].line].key == key && request_log.orders[i].part == part)
            return &request_log.orders[i];
    }
    FAIL("key %u has no order for its line %u", key, part);
}

struct verdict receipt_judge(const struct options *options, const struct books *before,
                             const struct books *after) {
    struct verdict v;
    struct plan plan;
    CHECK(request_log_match(&request_log));
    CHECK(plan_init(&plan, options));
    bool reached = verdict_reach(&request_log, &plan, before, after, &v);
    plan_free(&plan);
    CHECK(reached);
    return v;
}

const char *receipt_text(struct verdict v) {
    static const char *const kinds[] = {"clean", "violated", "inconclusive"};
    const struct {
        const char *name;
        long long count;
    } counters[] = {{"over", v.oversold},       {"lost", v.lost},       {"dup", v.duplicated},
                    {"phantom", v.phantom},     {"under", v.undersold}, {"unresolved", v.unresolved},
                    {"unchecked", v.unchecked}, {"torn", v.torn},       {"unbalanced", v.unbalanced}};
    const char *text = kinds[v.kind];
    for (size_t i = 0; i < sizeof counters / sizeof counters[0]; i++) {
        if (counters[i].count != 0)
            text = harness_format("%s %s %lld", text, counters[i].name, counters[i].count);
    }
    return text;
}
