#include <string.h>

#include "loadtest/judge/tally.h"

struct count {
    const struct ledger *ledger;
    const struct demand *demand;
    struct tally *tallies;
    struct tally_verdict found;
    int64_t quantity;
};

/* An acknowledged basket is whole, or it is lost as a whole. */
static bool is_torn(const struct ledger_order *orders, unsigned count) {
    unsigned here = 0;
    unsigned missing = 0;
    for (unsigned i = 0; i < count; i++) {
        if (orders[i].absent) {
            return true;
        }
        here += orders[i].check == LEDGER_HERE || orders[i].check == LEDGER_RETURNED;
        missing += orders[i].check == LEDGER_MISSING;
    }
    return here > 0 && missing > 0;
}

static void count_transfer(struct count *c, const struct ledger_order *order, const struct wish *wish) {
    c->tallies[wish->items[0]].out += c->quantity;
    c->tallies[wish->items[1]].in += c->quantity;
    c->found.wrong += order->misstated;
    c->tallies[wish->items[0]].wrong += order->misstated;
}

/* Whether an earlier line of the same basket was told the same order, where only the sequence tells them
 * apart: of another item it would be another order. */
static bool told_before(const struct ledger *ledger, const struct ledger_order *order,
                        const struct wish *wish) {
    const struct ledger_order *first = order - order->part;
    for (unsigned i = 0; i < order->part; i++) {
        if (wish->items[i] == wish->items[order->part] && !order->absent &&
            strcmp(ledger_order_id(ledger, &first[i]), ledger_order_id(ledger, order)) == 0) {
            return true;
        }
    }
    return false;
}

static void count_order(struct count *c, const struct ledger_order *order, const struct wish *wish) {
    struct tally *t = &c->tallies[wish->items[order->part]];
    bool wrong = order->misstated || order->check == LEDGER_MISSING || order->check == LEDGER_OTHER ||
                 told_before(c->ledger, order, wish);
    t->orders++;
    t->returned += order->check == LEDGER_RETURNED;
    t->wrong += wrong;
    c->found.wrong += wrong;
    c->found.unchecked += order->check == LEDGER_UNCHECKED && !order->absent;
}

static void count_acknowledgements(struct count *c) {
    for (size_t i = 0; i < c->ledger->order_count; i++) {
        const struct ledger_order *order = &c->ledger->orders[i];
        struct wish wish;
        demand_of_key(c->demand, c->ledger->lines[order->line].key, &wish);
        c->found.duplicated += order->surplus;
        if (order->extra) {
            c->found.duplicated += order->differs;
            continue;
        }
        c->found.duplicated += order->next != 0; /* each but the first of a key and part is the next of one */
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

static int64_t times(const struct wish *wish, uint32_t item) {
    int64_t times = 0;
    for (unsigned i = 0; i < wish->count; i++) {
        times += wish->items[i] == item;
    }
    return times;
}

static void count_told(struct count *c, const struct ledger_line *line, const struct wish *wish) {
    if (strcmp(c->ledger->reasons[line->reason], "sold-out") != 0 || line->part >= wish->count) {
        return;
    }
    struct tally *t = &c->tallies[wish->items[line->part]];
    int64_t units = times(wish, wish->items[line->part]) * c->quantity;
    t->told_least = t->told == 0 || units < t->told_least ? units : t->told_least;
    t->told += units;
}

/* What it may have taken before it was refused for another of its items, or by a try that was not answered.
 */
static void count_held(struct count *c, const struct ledger_line *line, const struct wish *wish) {
    unsigned takes = wish->kind == DEMAND_TRANSFER ? 1 : wish->count;
    if (wish->kind == DEMAND_PURCHASE) {
        return;
    }
    for (unsigned i = 0; i < takes; i++) {
        struct tally *t = &c->tallies[wish->items[i]];
        if (line->cause != 0) {
            t->doubtful += c->quantity;
        } else if (line->outcome == LEDGER_REJECTED && wish->count > 1) {
            int64_t units = times(wish, wish->items[i]) * c->quantity;
            t->refused += c->quantity;
            t->refused_most = units > t->refused_most ? units : t->refused_most;
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

/* A key whose order was acknowledged before this request was sent must not hear anything else. */
static bool rejected_after_win(const struct ledger *ledger, const struct ledger_line *line) {
    uint32_t first = ledger->key_order[line->key];
    return first != 0 && line->sent_ns > ledger->orders[first - 1].answered_ns;
}

static void count_lines(struct count *c) {
    for (size_t i = 0; i < c->ledger->line_count; i++) {
        const struct ledger_line *line = &c->ledger->lines[i];
        struct wish wish;
        demand_of_key(c->demand, line->key, &wish);
        count_held(c, line, &wish);
        switch (line->outcome) {
        case LEDGER_OK: c->found.settled++; break;
        case LEDGER_REJECTED:
            c->found.settled++;
            count_told(c, line, &wish);
            c->found.duplicated += rejected_after_win(c->ledger, line);
            break;
        case LEDGER_NOT_SENT: c->found.unsent++; break;
        default: count_unresolved(c, &wish); break;
        }
    }
}

struct tally_verdict tally_ledger(const struct ledger *ledger, const struct demand *demand,
                                  struct tally *tallies) {
    struct count c = {
        .ledger = ledger,
        .demand = demand,
        .tallies = tallies,
        .quantity = demand->options->quantity,
    };
    count_acknowledgements(&c);
    count_lines(&c);
    return c.found;
}
