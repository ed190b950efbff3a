#include <stdlib.h>
#include <string.h>

#include "loadtest/item.h"
#include "loadtest/verdict.h"

/* What the ledger comes to for one item. */
struct receipts {
    int64_t orders;     /* acknowledged, each once */
    int64_t returned;   /* of these: cancelled or expired by the time they were checked */
    int64_t wrong;      /* of these: not in the books, or there as something else */
    int64_t told_sold;  /* requests that were told sold-out */
    int64_t unresolved; /* requests */
};

static int64_t larger(int64_t a, int64_t b) {
    return a > b ? a : b;
}

static int64_t smaller(int64_t a, int64_t b) {
    return a < b ? a : b;
}

/* `receipts` has one for each item. */
static void count_orders(const struct ledger *ledger, const struct options *options,
                         struct receipts *receipts, struct verdict *verdict) {
    for (size_t i = 0; i < ledger->order_count; i++) {
        const struct ledger_order *order = &ledger->orders[i];
        if (order->extra) {
            verdict->duplicated += order->differs;
            continue;
        }
        struct receipts *r = &receipts[item_of_key(options, ledger->lines[order->line].key)];
        r->orders++;
        r->returned += order->check == LEDGER_RETURNED;
        r->wrong += order->check == LEDGER_MISSING || order->check == LEDGER_OTHER;
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

static void count_lines(const struct ledger *ledger, const struct options *options, struct receipts *receipts,
                        struct verdict *verdict) {
    for (size_t i = 0; i < ledger->line_count; i++) {
        const struct ledger_line *line = &ledger->lines[i];
        struct receipts *r = &receipts[item_of_key(options, line->key)];
        switch (line->outcome) {
        case LEDGER_OK: verdict->settled++; break;
        case LEDGER_REJECTED:
            verdict->settled++;
            r->told_sold += is_sold_out(ledger, line);
            verdict->duplicated += rejected_after_win(ledger, line);
            break;
        case LEDGER_NOT_SENT: break;
        default:
            r->unresolved++;
            verdict->unresolved++;
            break;
        }
    }
}

/* Orders that were returned when they were checked may have been counted by the audit before that, or not:
 * they are given the benefit of that doubt, as are holds of the first audit, which may have lapsed since. */
static void compare(const struct receipts *r, int64_t quantity, const struct books *before,
                    const struct books *after, struct verdict *v) {
    int64_t least = (r->orders - r->returned) * quantity;
    int64_t most = (r->orders + r->unresolved) * quantity;
    int64_t taken = after->held + after->sold;

    v->oversold += larger(larger(after->oversold, 0), least + before->sold - after->stock);

    int64_t missing_units = least - (taken - before->sold);
    v->lost += larger(r->wrong, (missing_units + quantity - 1) / quantity);

    int64_t phantom_units = taken - before->held - before->sold - most;
    int64_t phantom_orders = after->orders - before->orders - r->orders - r->unresolved;
    v->phantom += larger(larger(phantom_orders, (phantom_units + quantity - 1) / quantity), 0);

    bool returns = r->returned > 0 || before->held > 0 || after->stock != before->stock;
    if (!returns) {
        v->undersold += smaller(larger(after->available, 0) / quantity, r->told_sold) * quantity;
    }
    v->conserved = v->conserved && after->conserved;
}

bool verdict_reach(const struct ledger *ledger, const struct options *options, const struct books *before,
                   const struct books *after, struct verdict *verdict) {
    uint32_t count = item_count(options);
    struct receipts *receipts = calloc(count, sizeof *receipts);
    if (receipts == NULL) {
        return false;
    }
    bool audited = before != NULL && after != NULL;
    struct verdict v = {.kind = VERDICT_CLEAN, .audited = audited, .conserved = audited};
    count_orders(ledger, options, receipts, &v);
    count_lines(ledger, options, receipts, &v);
    for (uint32_t i = 0; i < count; i++) {
        if (audited) {
            compare(&receipts[i], options->quantity, &before[i], &after[i], &v);
        } else {
            v.lost += receipts[i].wrong;
        }
    }
    free(receipts);
    if (v.oversold + v.lost + v.duplicated + v.phantom + v.undersold > 0 || (v.audited && !v.conserved)) {
        v.kind = VERDICT_VIOLATED;
    } else if (!v.audited || v.unresolved + v.unchecked > 0 || v.settled == 0) {
        v.kind = VERDICT_UNTOLD;
    }
    *verdict = v;
    return true;
}

struct books verdict_sum(const struct books *books, uint32_t count) {
    struct books sum = {.conserved = true};
    for (uint32_t i = 0; i < count; i++) {
        sum.conserved = sum.conserved && books[i].conserved;
        sum.stock += books[i].stock;
        sum.available += books[i].available;
        sum.held += books[i].held;
        sum.sold += books[i].sold;
        sum.orders += books[i].orders;
        sum.oversold += books[i].oversold;
    }
    return sum;
}
