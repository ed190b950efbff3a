/* Counts the pages of an audit, and judges whether the counts agree with the counters of the item. */
#include "inventory/purchases/purchases.h"

#include <sodium.h>
#include <string.h>

_Static_assert(sizeof((struct audit_count *)0)->key == crypto_shorthash_KEYBYTES, "the key of the user sums");

void audit_count_init(struct audit_count *count) {
    *count = (struct audit_count){.fields = 0};
    randombytes_buf(count->key, sizeof count->key);
}

static uint64_t audit_user_weight(const struct audit_count *count, const char *user, int64_t units) {
    uint64_t hash;
    crypto_shorthash((unsigned char *)&hash, (const unsigned char *)user, strlen(user), count->key);
    return hash * (uint64_t)units;
}

static void audit_count_order(struct audit_count *count, const char *record) {
    struct inventory_audit *audit = &count->audit;
    struct inventory_order order;
    if (!record_read(&order, "", "", record)) {
        audit->unreadable++;
        return;
    }
    bool is_sold = order.state == INVENTORY_STATE_CONFIRMED || order.state == INVENTORY_STATE_RETURNED;
    bool is_held = order.state == INVENTORY_STATE_HELD || order.state == INVENTORY_STATE_PAYING;
    count->taken += order.quantity * (1 + order.late);
    count->sold += is_sold ? order.quantity : 0;
    count->released += order.quantity * ((!is_sold && !is_held) + order.late);
    count->returned += order.returned;
    audit->orders[order.state]++;
    audit->units[order.state] += order.quantity - order.returned;
    if (order.pending) {
        audit->pending_orders++;
        audit->pending += order.quantity;
    }
    if (is_held || is_sold)
        count->by_orders += audit_user_weight(count, order.user, order.quantity - order.returned);
}

static void audit_count_user(struct audit_count *count, const char *user, int64_t had) {
    struct inventory_audit *audit = &count->audit;
    audit->user_units += had;
    count->by_counters += audit_user_weight(count, user, had);
    if (count->first.item.limit && had > count->first.item.limit)
        audit->over_limit++;
}

/* Whether it is a field of the item itself, see stock.lua. */
static bool audit_is_item_field(const char *field) {
    return text_index(item_fields, ITEM_FIELDS, field) >= 0 || strcmp(field, "released") == 0 ||
           strcmp(field, "returned") == 0;
}

void audit_count_page(struct audit_count *count, const struct redis_value *page) {
    for (size_t i = 0; i + 1 < redis_value_count(page); i += 2) {
        const char *field = redis_value_text(redis_value_at(page, i));
        const struct redis_value *value = redis_value_at(page, i + 1);
        const char *text = redis_value_text(value);
        count->fields++;
        if (field && *field == *USER_FIELD)
            audit_count_user(count, field + 1, redis_value_integer(value, 0));
        else if (field && inventory_digest_valid(field))
            audit_count_order(count, text ? text : "");
        else if (!field || (*field != *MOVE_FIELD && !audit_is_item_field(field)))
            count->audit.unreadable++;
    }
}

static int64_t larger(int64_t a, int64_t b) {
    return a > b ? a : b;
}

static bool within(int64_t n, int64_t least, int64_t most) {
    return n >= least && n <= most;
}

static int64_t audit_stock(const struct inventory_item *item) {
    return item->initial + item->restocked;
}

/* Units that are in no counter. */
static int64_t audit_nowhere(const struct inventory_item *item) {
    return audit_stock(item) - item->available - item->held - item->sold;
}

static int64_t audit_held_units(const struct inventory_audit *audit) {
    return audit->units[INVENTORY_STATE_HELD] + audit->units[INVENTORY_STATE_PAYING];
}

static int64_t audit_entered_holds(const struct inventory_audit *audit) {
    return audit->orders[INVENTORY_STATE_HELD] + audit->orders[INVENTORY_STATE_PAYING] -
           audit->pending_orders;
}

/* ---- nothing changed: all counts must be equal ---- */

static void audit_judge_exact(struct audit_count *count) {
    struct inventory_audit *audit = &count->audit;
    const struct inventory_item *item = &audit->item;
    int64_t held = audit_held_units(audit), sold = audit->units[INVENTORY_STATE_CONFIRMED];
    audit->oversold = larger(held + sold - audit_stock(item), 0);
    audit->conserved = item->available >= 0 && audit_nowhere(item) == 0 && item->held == held &&
                       item->sold == sold && audit->holds == audit_entered_holds(audit) &&
                       (item->limit == 0 || count->by_counters == count->by_orders) &&
                       count->last.released == count->released && count->last.returned == count->returned &&
                       audit->over_limit == 0 && audit->unreadable == 0;
}

/* ---- the item sold meanwhile ----
 *
 * Each order is read in a state that it had between the two moments; an order made in between may be missing.
 * Some numbers only grow: all units that were ever sold, that were ever given back, and that were ever taken,
 * which is held + sold + all that was given back. So the sums over the orders must lie between the counters
 * at the two moments. */

struct change {
    int64_t created; /* new fields */
    int64_t taken, sold, back;
    /* Units debited, but in no other counter yet: only with strategies that write step by step. */
    int64_t nowhere;
};

static int64_t audit_back(const struct audit_moment *moment) {
    return moment->released + moment->returned;
}

static int64_t audit_taken(const struct audit_moment *moment) {
    return moment->item.held + moment->item.sold + audit_back(moment);
}

static int64_t audit_sold(const struct audit_moment *moment) {
    return moment->item.sold + moment->returned;
}

/* False: a number that only grows has become smaller. */
static bool audit_read_change(const struct audit_count *count, struct change *change) {
    const struct audit_moment *first = &count->first, *last = &count->last;
    *change = (struct change){.created = last->fields - first->fields,
                              .taken = audit_taken(last) - audit_taken(first),
                              .sold = audit_sold(last) - audit_sold(first),
                              .back = audit_back(last) - audit_back(first)};
    return change->created >= 0 && change->taken >= 0 && change->sold >= 0 && change->back >= 0 &&
           within(count->fields, first->fields, last->fields);
}

static bool audit_goes_by_steps(enum inventory_strategy strategy) {
    return strategy == INVENTORY_DECR || strategy == INVENTORY_NAIVE || strategy == INVENTORY_LOCKED;
}

static bool audit_counters_agree(const struct inventory_item *item) {
    return audit_goes_by_steps(item->strategy) ? audit_nowhere(item) >= 0
                                               : audit_nowhere(item) == 0 && item->available >= 0;
}

static bool audit_returns_agree(const struct audit_count *count, const struct change *change) {
    const struct audit_moment *first = &count->first, *last = &count->last;
    return within(count->released, first->released, last->released) &&
           within(count->returned, first->returned, last->returned) &&
           within(count->taken, audit_taken(first), audit_taken(last) + change->nowhere) &&
           (first->item.limit == 0 || within(count->audit.user_units, audit_taken(first) - audit_back(last),
                                             audit_taken(last) - audit_back(first) + change->nowhere));
}

/* The entries of a hold and of a user are written in the same step as the order, except with those
 * strategies. */
static bool audit_entries_agree(const struct audit_count *count, const struct change *change) {
    const struct inventory_audit *audit = &count->audit;
    int64_t changed = change->created + change->sold + change->back; /* orders, at most */
    return within(audit->holds, audit_entered_holds(audit) - changed, audit_entered_holds(audit) + changed) &&
           audit->over_limit == 0;
}

static void audit_judge_changing(struct audit_count *count, const struct change *change) {
    struct inventory_audit *audit = &count->audit;
    const struct audit_moment *first = &count->first, *last = &count->last;
    int64_t released = last->released - first->released, returned = last->returned - first->returned;
    audit->off_by = larger(change->taken, change->sold + change->back) + change->nowhere;
    /* Of the units read as held or sold, all but those that were given back meanwhile still are. */
    audit->oversold =
        larger(larger(audit_held_units(audit) - released, 0) +
                   larger(audit->units[INVENTORY_STATE_CONFIRMED] - returned, 0) - audit_stock(&last->item),
               0);
    audit->conserved = audit_counters_agree(&first->item) && audit_counters_agree(&last->item) &&
                       within(count->sold, audit_sold(first), audit_sold(last) + change->nowhere) &&
                       audit_returns_agree(count, change) &&
                       (audit_goes_by_steps(last->item.strategy) || audit_entries_agree(count, change)) &&
                       audit->oversold == 0 && audit->unreadable == 0;
}

/* No order changed its units if there are as many fields as before, and nothing has grown. Then all counts
 * are of the last moment; only `available` may include one more restock. */
bool audit_judge(struct audit_count *count) {
    struct inventory_audit *audit = &count->audit;
    const struct audit_moment *last = &count->last;
    struct change change;
    audit->item = last->item;
    audit->holds = last->holds;
    if (!audit_read_change(count, &change))
        return false;
    audit->exact = change.created == 0 && change.taken == 0 && change.sold == 0 && change.back == 0;
    if (audit->exact) {
        audit_judge_exact(count);
    } else {
        if (audit_goes_by_steps(last->item.strategy))
            change.nowhere = larger(audit_nowhere(&last->item), 0);
        audit_judge_changing(count, &change);
    }
    return true;
}
