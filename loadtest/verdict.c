#include <string.h>

#include "loadtest/verdict.h"

/* What the ledger comes to. */
struct receipts {
    int64_t orders;    /* acknowledged, each once */
    int64_t returned;  /* of these: cancelled or expired by the time they were checked */
    int64_t wrong;     /* of these: not in the books, or there as something else */
    int64_t told_sold; /* requests that were told sold-out */
};

static int64_t larger(int64_t a, int64_t b) {
    return a > b ? a : b;
}

static int64_t smaller(int64_t a, int64_t b) {
    return a < b ? a : b;
}

static void count_orders(const struct ledger *ledger, struct receipts *receipts, struct verdict *verdict) {
    for (size_t i = 0; i < ledger->order_count; i++) {
        const struct ledger_order *order = &ledger->orders[i];
        if (order->extra) {
            verdict->duplicated += order->differs;
            continue;
        }
        receipts->orders++;
        receipts->returned += order->check == LEDGER_RETURNED;
        receipts->wrong += order->check == LEDGER_MISSING || order->check == LEDGER_OTHER;
        verdict->unchecked += order->check == LEDGER_UNCHECKED;
        verdict->duplicated += order->next != 0; /* each order but the first of a key is the next of one */
    }
}

static bool is_sold_out(const struct ledger *ledger, const struct ledger_line *line) {
    return strcmp(ledger->reasons[line->reason], "sold-out") == 0;
}

/* A key whose order was acknowledged before this request was sent must not hear anything else. */
static bool rejected_after_win(const struct ledger *ledger, const struct ledger_line *line) {
    uint32_t first = ledger->key_order[line->key];
    return first != 0 && line->sent_ns > ledger->orders[first - 1].answered_ns;
}

static void count_lines(const struct ledger *ledger, struct receipts *receipts, struct verdict *verdict) {
    for (size_t i = 0; i < ledger->line_count; i++) {
        const struct ledger_line *line = &ledger->lines[i];
        switch (line->outcome) {
        case LEDGER_OK: verdict->settled++; break;
        case LEDGER_REJECTED:
            verdict->settled++;
            receipts->told_sold += is_sold_out(ledger, line);
            verdict->duplicated += rejected_after_win(ledger, line);
            break;
        case LEDGER_NOT_SENT: break;
        default: verdict->unresolved++; break;
        }
    }
}

/* Orders that were returned when they were checked may have been counted by the audit before that, or not:
 * they are given the benefit of that doubt, as are holds of the first audit, which may have lapsed since. */
static void compare(const struct receipts *r, int64_t quantity, const struct books *before,
                    const struct books *after, struct verdict *v) {
    int64_t least = (r->orders - r->returned) * quantity;
    int64_t most = (r->orders + v->unresolved) * quantity;
    int64_t taken = after->held + after->sold;

    v->oversold = larger(larger(after->oversold, 0), least + before->sold - after->stock);

    int64_t missing_units = least - (taken - before->sold);
    v->lost = larger(v->lost, (missing_units + quantity - 1) / quantity);

    int64_t phantom_units = taken - before->held - before->sold - most;
    int64_t phantom_orders = after->orders - before->orders - r->orders - v->unresolved;
    v->phantom = larger(larger(phantom_orders, (phantom_units + quantity - 1) / quantity), 0);

    bool returns = r->returned > 0 || before->held > 0 || after->stock != before->stock;
    if (!returns) {
        v->undersold = smaller(larger(after->available, 0) / quantity, r->told_sold) * quantity;
    }
    v->audited = true;
    v->conserved = after->conserved;
}

struct verdict verdict_reach(const struct ledger *ledger, int64_t quantity, const struct books *before,
                             const struct books *after) {
    struct verdict v = {.kind = VERDICT_CLEAN};
    struct receipts receipts = {.orders = 0};
    count_orders(ledger, &receipts, &v);
    count_lines(ledger, &receipts, &v);
    v.lost = receipts.wrong;
    if (before != NULL && after != NULL) {
        compare(&receipts, quantity, before, after, &v);
    }
    if (v.oversold + v.lost + v.duplicated + v.phantom + v.undersold > 0 || (v.audited && !v.conserved)) {
        v.kind = VERDICT_VIOLATED;
    } else if (!v.audited || v.unresolved + v.unchecked > 0 || v.settled == 0) {
        v.kind = VERDICT_UNTOLD;
    }
    return v;
}
