#include <string.h>

#include "loadtest/judge/tally.h"

struct count {
    const struct request_log *log;
    const struct demand *demand;
    struct tally *tallies;
    struct tally_verdict found;
    int64_t quantity;
};

/* Torn: some orders of an acknowledged basket exist and some do not. */
static bool is_torn(const struct log_order *orders, unsigned count) {
    unsigned here = 0;
    unsigned missing = 0;
    for (unsigned i = 0; i < count; i++) {
        if (orders[i].absent) {
            return true;
        }
        here += orders[i].check == ORDER_FOUND || orders[i].check == ORDER_RETURNED;
        missing += orders[i].check == ORDER_MISSING;
    }
    return here > 0 && missing > 0;
}

static void count_transfer(struct count *c, const struct log_order *order, const struct wish *wish) {
    c->tallies[wish->items[0]].out += c->quantity;
    c->tallies[wish->items[1]].in += c->quantity;
    c->found.wrong += order->misstated;
    c->tallies[wish->items[0]].wrong += order->misstated;
}

/* True: an earlier line of the basket, for the same item, was acknowledged with the same order. */
static bool repeats_earlier_line(const struct request_log *log, const struct log_order *order,
                                 const struct wish *wish) {
    const struct log_order *first = order - order->part;
    for (unsigned i = 0; i < order->part; i++) {
        if (wish->items[i] == wish->items[order->part] && !order->absent &&
            strcmp(request_log_order_id(log, &first[i]), request_log_order_id(log, order)) == 0) {
            return true;
        }
    }
    return false;
}

static void count_order(struct count *c, const struct log_order *order, const struct wish *wish) {
    struct tally *t = &c->tallies[wish->items[order->part]];
    bool wrong = order->misstated || order->check == ORDER_MISSING || order->check == ORDER_DIFFERENT ||
                 repeats_earlier_line(c->log, order, wish);
    t->orders++;
    t->returned += order->check == ORDER_RETURNED;
    t->wrong += wrong;
    c->found.wrong += wrong;
    c->found.unchecked += order->check == ORDER_UNCHECKED && !order->absent;
}

static void count_acknowledgements(struct count *c) {
    for (size_t i = 0; i < c->log->order_count; i++) {
        const struct log_order *order = &c->log->orders[i];
        struct wish wish;
        demand_of_key(c->demand, c->log->lines[order->line].key, &wish);
        c->found.duplicated += order->surplus;
        if (order->extra) {
            c->found.duplicated += order->differs;
            continue;
        }
        c->found.duplicated +=
            order->next != 0; /* each order but the first of a key and part is the next of another */
        if (wish.kind == DEMAND_TRANSFER) {
            count_transfer(c, order, &wish);
        } else {
            count_order(c, order, &wish);
        }
        if (wish.kind == DEMAND_BASKET && order->part == 0) {
            c->found.torn += is_torn(order, wish.count);
        }
    }
}

static void count_unresolved(struct count *c, const struct wish *wish) {
    c->found.unresolved++;
    if (wish->kind == DEMAND_TRANSFER) {
        c->tallies[wish->items[0]].out_open += c->quantity;
        c->tallies[wish->items[1]].in_open += c->quantity;
        return;
    }
    for (unsigned i = 0; i < wish->count; i++) {
        c->tallies[wish->items[i]].unresolved++;
    }
}

/* After an order of its key was acknowledged, a request that is sent must not be rejected. */
static bool rejected_after_win(const struct request_log *log, const struct log_line *line) {
    uint32_t first = log->key_order[line->key];
    return first != 0 && line->sent_ns > log->orders[first - 1].answered_ns;
}

static void count_lines(struct count *c) {
    for (size_t i = 0; i < c->log->line_count; i++) {
        const struct log_line *line = &c->log->lines[i];
        struct wish wish;
        demand_of_key(c->demand, line->key, &wish);
        switch (line->outcome) {
        case OUTCOME_ACCEPTED: c->found.settled++; break;
        case OUTCOME_REJECTED:
            c->found.settled++;
            if (wish.kind == DEMAND_PURCHASE && strcmp(c->log->reasons[line->reason], "sold-out") == 0) {
                c->tallies[wish.items[0]].told_sold_out += c->quantity;
            }
            c->found.duplicated += rejected_after_win(c->log, line);
            break;
        case OUTCOME_NOT_SENT: c->found.unsent++; break;
        default: count_unresolved(c, &wish); break;
        }
    }
}

struct tally_verdict tally_log(const struct request_log *log, const struct demand *demand,
                               struct tally *tallies) {
    struct count c = {
        .log = log,
        .demand = demand,
        .tallies = tallies,
        .quantity = demand->options->quantity,
    };
    count_acknowledgements(&c);
    count_lines(&c);
    return c.found;
}
