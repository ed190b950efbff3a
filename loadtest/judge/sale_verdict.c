#include "loadtest/judge/sale_verdict.h"

#include <stdlib.h>
#include <string.h>

/* What the request log says of an item. */
struct tally {
    long long orders;     /* acknowledged, each once */
    long long returned;   /* those that were cancelled or expired when they were checked */
    long long wrong;      /* those that are missing, or differ in the books or in the answer */
    long long unresolved; /* orders that unresolved requests may have made */

    /* Units that acknowledged transfers moved in and out; `open`: units that unresolved transfers may have
     * moved. */
    long long in, out, in_open, out_open;

    long long told_sold_out; /* units that were rejected as sold out */
};

struct count {
    const struct request_log *log;
    const struct plan *plan;
    struct tally *tallies; /* one for each item */
    struct verdict *verdict;
    long long quantity; /* units of each purchase, line and transfer */
};

/* ---- the request log ---- */

/* Torn: some orders of an acknowledged basket exist and some do not. */
static bool is_torn(const struct log_order *orders, unsigned count) {
    unsigned here = 0;
    unsigned missing = 0;
    for (unsigned i = 0; i < count; i++) {
        if (orders[i].absent)
            return true;
        here += orders[i].check == ORDER_FOUND || orders[i].check == ORDER_RETURNED;
        missing += orders[i].check == ORDER_MISSING;
    }
    return here > 0 && missing > 0;
}

/* True: an earlier line of the basket, for the same item, was acknowledged with the same order. */
static bool repeats_earlier_line(const struct request_log *log, const struct log_order *order,
                                 const struct planned_request *planned) {
    const struct log_order *first = order - order->part;
    for (unsigned i = 0; i < order->part; i++) {
        if (planned->items[i] == planned->items[order->part] && !order->absent &&
            strcmp(request_log_order_id(log, &first[i]), request_log_order_id(log, order)) == 0)
            return true;
    }
    return false;
}

static void verdict_count_order(struct count *c, const struct log_order *order,
                                const struct planned_request *planned) {
    struct tally *t = &c->tallies[planned->items[order->part]];
    if (planned->kind == REQUEST_TRANSFER) {
        t->out += c->quantity;
        c->tallies[planned->items[1]].in += c->quantity;
        t->wrong += order->misstated;
        return;
    }
    t->orders++;
    t->returned += order->check == ORDER_RETURNED;
    t->wrong += order->misstated || order->check == ORDER_MISSING || order->check == ORDER_DIFFERENT ||
                repeats_earlier_line(c->log, order, planned);
    c->verdict->unchecked += order->check == ORDER_UNCHECKED && !order->absent;
    if (planned->kind == REQUEST_BASKET && order->part == 0)
        c->verdict->torn += is_torn(order, planned->count);
}

static void verdict_count_acknowledgements(struct count *c) {
    for (size_t i = 0; i < c->log->order_count; i++) {
        const struct log_order *order = &c->log->orders[i];
        struct planned_request planned;
        plan_of_key(c->plan, c->log->lines[order->line].key, &planned);
        c->verdict->duplicated += order->surplus;
        if (order->extra) {
            c->verdict->duplicated += order->differs;
            continue;
        }
        /* Of several orders for one key and part, each but the last has a next one. */
        c->verdict->duplicated += order->next != 0;
        verdict_count_order(c, order, &planned);
    }
}

static void verdict_count_unresolved(struct count *c, const struct planned_request *planned) {
    c->verdict->unresolved++;
    if (planned->kind == REQUEST_TRANSFER) {
        c->tallies[planned->items[0]].out_open += c->quantity;
        c->tallies[planned->items[1]].in_open += c->quantity;
        return;
    }
    for (unsigned i = 0; i < planned->count; i++)
        c->tallies[planned->items[i]].unresolved++;
}

/* Once an order of a key is acknowledged, no request with this key that is sent later may be rejected. */
static bool rejected_after_win(const struct request_log *log, const struct log_line *line) {
    uint32_t first = log->key_order[line->key];
    return first != 0 && line->sent_ns > log->orders[first - 1].answered_ns;
}

static void verdict_count_lines(struct count *c) {
    for (size_t i = 0; i < c->log->line_count; i++) {
        const struct log_line *line = &c->log->lines[i];
        struct planned_request planned;
        plan_of_key(c->plan, line->key, &planned);
        switch (line->outcome) {
        case OUTCOME_ACCEPTED: c->verdict->settled++; break;
        case OUTCOME_REJECTED:
            c->verdict->settled++;
            if (strcmp(c->log->reasons[line->reason], "sold-out") == 0)
                c->tallies[planned.items[0]].told_sold_out += c->quantity;
            c->verdict->duplicated += rejected_after_win(c->log, line);
            break;
        case OUTCOME_NOT_SENT: c->verdict->unsent++; break;
        default: verdict_count_unresolved(c, &planned); break;
        }
    }
}

/* ---- the books ---- */

static long long larger(long long a, long long b) {
    return a > b ? a : b;
}

/* Units that are left though buyers were told sold-out. This can be judged only if units never came back: no
 * order was returned, no hold could expire, the stock did not change, and no basket or transfer could hold
 * units for a moment. */
static long long units_undersold(const struct tally *t, const struct options *options,
                                 const struct books *before, const struct books *after) {
    bool returns = t->returned > 0 || before->held > 0 || after->stock != before->stock ||
                   options->basket_lines > 0 || options->transfers > 0;
    long long left = larger(after->available, 0) / options->quantity * options->quantity;
    return returns ? 0 : left < t->told_sold_out ? left : t->told_sold_out;
}

/* Judges an item. An order that was returned when it was checked may or may not be in the second audit, which
 * was read before that; a hold of the first audit may have expired since. Neither counts against the seller.
 */
static void verdict_compare_books(const struct tally *t, const struct options *options,
                                  const struct books *before, const struct books *after, struct verdict *v) {
    long long quantity = options->quantity;
    long long least = (t->orders - t->returned) * quantity;
    long long most = (t->orders + t->unresolved) * quantity;
    long long taken = after->held + after->sold;

    v->oversold += larger(larger(after->oversold, 0), least + before->sold - after->stock);

    long long missing_units = least - (taken - before->sold);
    v->lost += larger(t->wrong, (missing_units + quantity - 1) / quantity);

    long long phantom_units = taken - before->held - before->sold - most;
    long long phantom_orders = after->orders - before->orders - t->orders - t->unresolved;
    v->phantom += larger(larger(phantom_orders, (phantom_units + quantity - 1) / quantity), 0);

    v->undersold += units_undersold(t, options, before, after);
    v->conserved = v->conserved && after->conserved;
}

/* Units that are where no transfer put them, or missing where a transfer put them. An unresolved transfer may
 * or may not have been carried out; in both cases the total stock stays the same. */
static long long units_unbalanced(const struct tally *tallies, const struct books *before,
                                  const struct books *after, uint32_t count) {
    long long too_few = 0;
    long long too_many = 0;
    long long sum = 0;
    for (uint32_t i = 0; i < count; i++) {
        const struct tally *t = &tallies[i];
        long long change = after[i].stock - before[i].stock;
        too_few += larger(t->in - t->out - t->out_open - change, 0);
        too_many += larger(change - (t->in - t->out + t->in_open), 0);
        sum += change;
    }
    return larger(larger(too_few, too_many), sum < 0 ? -sum : sum);
}

bool verdict_reach(const struct request_log *log, const struct plan *plan, const struct books *before,
                   const struct books *after, struct verdict *verdict) {
    const struct options *options = plan->options;
    uint32_t items = item_count(options);
    struct tally *tallies = calloc(items, sizeof *tallies);
    if (!tallies)
        return false;
    struct verdict v = {.kind = VERDICT_CLEAN, .audited = after, .conserved = after};
    struct count c = {log, plan, tallies, &v, options->quantity};
    verdict_count_acknowledgements(&c);
    verdict_count_lines(&c);
    for (uint32_t i = 0; i < items; i++) {
        if (after)
            verdict_compare_books(&tallies[i], options, &before[i], &after[i], &v);
        else
            v.lost += tallies[i].wrong;
    }
    if (after && options->transfers > 0)
        v.unbalanced = units_unbalanced(tallies, before, after, items);
    free(tallies);
    long long wrong = v.oversold + v.lost + v.duplicated + v.phantom + v.undersold + v.torn + v.unbalanced;
    if (wrong > 0 || (v.audited && !v.conserved))
        v.kind = VERDICT_VIOLATED;
    else if (!v.audited || v.unresolved + v.unchecked + v.unsent > 0 || v.settled == 0)
        v.kind = VERDICT_INCONCLUSIVE;
    *verdict = v;
    return true;
}
