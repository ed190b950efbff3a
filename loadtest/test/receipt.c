#include "loadtest/test/receipt.h"

#include <string.h>

#include "test/harness.h"

static struct request_log request_log;
static uint64_t clock_ns;
static unsigned orders_each;

static void free_log(void *unused) {
    (void)unused;
    request_log_free(&request_log);
}

void receipt_begin(unsigned basket_lines) {
    request_log_free(&request_log);
    request_log_init(&request_log);
    clock_ns = 1000;
    orders_each = basket_lines;
    harness_defer(free_log, NULL);
}

static void acknowledge(struct log_line *line, unsigned part, const char *id) {
    struct log_order *order = request_log_acknowledge(&request_log, line, (uint8_t)part, id, strlen(id));
    CHECK(order);
    order->content = line->key;
    order->check = ORDER_FOUND;
}

static uint8_t reason(const char *name) {
    return request_log_reason(&request_log, name, strlen(name));
}

static void add(enum receipt_what what, uint32_t key) {
    struct log_line *line = request_log_add(&request_log);
    CHECK(line);
    line->key = key;
    line->intended_ns = ++clock_ns;
    line->sent_ns = ++clock_ns;
    line->answered_ns = ++clock_ns;
    if (key >= request_log.key_count)
        request_log.key_count = key + 1;
    switch (what) {
    case LATE_SOLD_OUT: line->sent_ns = request_log.orders[key].answered_ns; /* fall through */
    case SOLD_OUT:
    case LIMIT:
        line->outcome = OUTCOME_REJECTED;
        line->reason = reason(what == LIMIT ? "purchase-limit" : "sold-out");
        return;
    case UNKNOWN:
        line->outcome = OUTCOME_UNKNOWN;
        line->cause = reason("timed-out");
        return;
    case UNSENT: line->outcome = OUTCOME_NOT_SENT; return;
    default: break;
    }
    line->outcome = OUTCOME_ACCEPTED;
    for (unsigned part = 0; part < orders_each; part++)
        acknowledge(line, part, harness_format("order-%u-%u", key, part));
    if (orders_each == 0)
        acknowledge(line, 0,
                    harness_format("order-%u%s", key,
                                   what == WON_B   ? "-b"
                                   : what == WON_C ? "-c"
                                                   : ""));
}

static void amend(struct log_order *order, enum receipt_what what) {
    switch (what) {
    case MISSING: order->check = ORDER_MISSING; break;
    case DIFFERENT: order->check = ORDER_DIFFERENT; break;
    case RETURNED: order->check = ORDER_RETURNED; break;
    case UNCHECKED: order->check = ORDER_UNCHECKED; break;
    case ABSENT:
        order->absent = true;
        order->check = ORDER_UNCHECKED;
        order->id = strlen(request_log.ids); /* "" */
        break;
    case MISSTATED: order->misstated = true; break;
    case SURPLUS: order->surplus = true; break;
    case OTHER_CONTENT: order->content++; break;
    default: order->id = order[-2].id; break;
    }
}

void receipt_do(enum receipt_what what, uint32_t of) {
    CHECK(what < MISSING || of < request_log.order_count);
    if (what >= MISSING)
        amend(&request_log.orders[of], what);
    else if (what != NOTHING)
        add(what, of);
}

const char *receipt_verdict(const struct options *options, const struct books *before,
                            const struct books *after) {
    static const char *const kinds[] = {"clean", "violated", "inconclusive"};
    struct verdict v;
    struct plan plan;
    CHECK(request_log_match(&request_log));
    CHECK(plan_init(&plan, options));
    bool reached = verdict_reach(&request_log, &plan, before, after, &v);
    plan_free(&plan);
    CHECK(reached && v.audited == (after != NULL));
    const struct {
        const char *name;
        long long count;
    } counters[] = {{"over", v.oversold},
                    {"lost", v.lost},
                    {"dup", v.duplicated},
                    {"phantom", v.phantom},
                    {"under", v.undersold},
                    {"unresolved", v.unresolved},
                    {"unchecked", v.unchecked},
                    {"torn", v.torn},
                    {"unbalanced", v.unbalanced},
                    {"unsent", v.unsent},
                    {"not conserved", after && !v.conserved}};
    const char *text = kinds[v.kind];
    for (size_t i = 0; i < sizeof counters / sizeof counters[0]; i++) {
        if (counters[i].count != 0)
            text = harness_format("%s %s %lld", text, counters[i].name, counters[i].count);
    }
    return text;
}
