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
    CHECK(ledger_acknowledge(&ledger, line, order, strlen(order), content));
    ledger.orders[line->order].check = LEDGER_HERE;
}

void receipt_won(uint32_t key) {
    receipt_won_content(key, harness_format("order-%u", key), key);
}

struct verdict receipt_judge(const struct options *options, const struct books *before,
                             const struct books *after) {
    struct verdict v;
    CHECK(ledger_match(&ledger));
    CHECK(verdict_reach(&ledger, options, before, after, &v));
    return v;
}

const char *receipt_text(struct verdict v) {
    static const char *const kinds[] = {"clean", "violated", "untold"};
    return harness_format("%s over %d lost %d dup %d phantom %d under %d unresolved %d unchecked %d",
                          kinds[v.kind], (int)v.oversold, (int)v.lost, (int)v.duplicated, (int)v.phantom,
                          (int)v.undersold, (int)v.unresolved, (int)v.unchecked);
}
