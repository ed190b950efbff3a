#include <string.h>

#include "loadtest/test/receipt.h"
#include "test/harness.h"

struct ledger ledger;
static uint64_t clock_ns;

static void free_ledger(void *unused) {
    (void)unused;
    ledger_free(&ledger);
}

void receipt_begin(void) {
    ledger_free(&ledger);
    ledger_init(&ledger);
    clock_ns = 1000;
    harness_defer(free_ledger, NULL);
}

struct ledger_line *receipt_line(uint32_t key) {
    struct ledger_line *line = ledger_add(&ledger);
    CHECK(line != NULL);
    line->key = key;
    line->intended_ns = ++clock_ns;
    line->sent_ns = ++clock_ns;
    line->answered_ns = ++clock_ns;
    if (key >= ledger.key_count)
        ledger.key_count = key + 1;
    return line;
}

void receipt_rejected(uint32_t key, const char *why) {
    struct ledger_line *line = receipt_line(key);
    line->outcome = LEDGER_REJECTED;
    line->reason = ledger_reason(&ledger, why, strlen(why));
}

void receipt_unknown(uint32_t key) {
    struct ledger_line *line = receipt_line(key);
    line->outcome = LEDGER_UNKNOWN;
    line->cause = ledger_reason(&ledger, "timed-out", strlen("timed-out"));
}

void receipt_won_content(uint32_t key, const char *order, uint64_t content) {
    struct ledger_line *line = receipt_line(key);
    line->outcome = LEDGER_OK;
    struct ledger_order *noted = ledger_acknowledge(&ledger, line, 0, order, strlen(order));
    CHECK(noted != NULL);
    noted->content = content;
    noted->check = LEDGER_HERE;
}

void receipt_won(uint32_t key) {
    receipt_won_content(key, harness_format("order-%u", key), key);
}

void receipt_won_basket(uint32_t key, unsigned lines) {
    struct ledger_line *line = receipt_line(key);
    line->outcome = LEDGER_OK;
    for (unsigned i = 0; i < lines; i++) {
        const char *id = harness_format("order-%u-%u", key, i);
        struct ledger_order *noted = ledger_acknowledge(&ledger, line, (uint8_t)i, id, strlen(id));
        CHECK(noted != NULL);
        noted->content = key;
        noted->check = LEDGER_HERE;
    }
}

struct ledger_order *receipt_order(uint32_t key, unsigned part) {
    for (size_t i = 0; i < ledger.order_count; i++) {
        if (ledger.lines[ledger.orders[i].line].key == key && ledger.orders[i].part == part)
            return &ledger.orders[i];
    }
    FAIL("key %u has no order for its line %u", key, part);
}

struct verdict receipt_judge(const struct options *options, const struct books *before,
                             const struct books *after) {
    struct verdict v;
    struct demand demand;
    CHECK(ledger_match(&ledger));
    CHECK(demand_init(&demand, options));
    bool reached = verdict_reach(&ledger, &demand, before, after, &v);
    demand_free(&demand);
    CHECK(reached);
    return v;
}

const char *receipt_text(struct verdict v) {
    static const char *const kinds[] = {"clean", "violated", "untold"};
    const char *more = v.torn + v.unbalanced > 0
                           ? harness_format(" torn %d unbalanced %d", (int)v.torn, (int)v.unbalanced)
                           : "";
    return harness_format("%s over %d lost %d dup %d phantom %d under %d unresolved %d unchecked %d%s",
                          kinds[v.kind], (int)v.oversold, (int)v.lost, (int)v.duplicated, (int)v.phantom,
                          (int)v.undersold, (int)v.unresolved, (int)v.unchecked, more);
}
