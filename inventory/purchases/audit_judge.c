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
    count->units += order.quantity;
    audit->orders[order.state]++;
    audit->units[order.state] += order.quantity;
    if (order.pending) {
        audit->pending_orders++;
        audit->pending += order.quantity;
    }
    if (order.state == INVENTORY_STATE_HELD || order.state == INVENTORY_STATE_CONFIRMED)
        count->by_orders += audit_user_weight(count, order.user, order.quantity);
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
    return text_index(item_fields, ITEM_FIELDS, field) >= 0 || strcmp(field, "returned") == 0;
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

static int64_t audit_returned_units(const struct inventory_audit *audit) {
    return audit->units[INVENTORY_STATE_CANCELLED] + audit->units[INVENTORY_STATE_EXPIRED] +
           audit->units[INVENTORY_STATE_ABORTED];
}

static int64_t audit_entered_holds(const struct inventory_audit *audit) {
    return audit->orders[INVENTORY_STATE_HELD] - audit->pending_orders;
}

/* ---- nothing changed: all counts must be equal ---- */

static void audit_judge_exact(struct audit_count *count) {
    struct inventory_audit *audit = &count->audit;
    const struct inventory_item *item = &audit->item;
    int64_t held = audit->units[INVENTORY_STATE_HELD], sold = audit->units[INVENTORY_STATE_CONFIRMED];
    audit->oversold = larger(held + sold - audit_stock(item), 0);
    audit->conserved = item->available >= 0 && audit_nowhere(item) == 0 && item->held == held &&
                       item->sold == sold && audit->holds == audit_entered_holds(audit) &&
                       (item->limit == 0 || count->by_counters == count->by_orders) &&
                       count->last.returned == audit_returned_units(audit) && audit->over_limit == 0 &&
                       audit->unreadable == 0;
}

/* ---- the item sold meanwhile ----
 *
 * Each order is read in a state that it had between the two moments; an order made in between may be missing.
 * Three numbers only grow: units sold, since a confirmed order stays confirmed; units returned, likewise; and
 * held + sold + returned, which is all that was ever debited. So the sums over the orders must lie between
 * the counters at the two moments. */

struct change {
    int64_t created; /* new fields */
    int64_t taken, sold, returned;
    /* Units debited, but in no other counter yet: only with strategies that write step by step. */
    int64_t nowhere;
};

static int64_t audit_taken(const struct audit_moment *moment) {
    return moment->item.held + moment->item.sold + moment->returned;
}

/* False: a number that only grows has become smaller. */
static bool audit_read_change(const struct audit_count *count, struct change *change) {
    const struct audit_moment *first = &count->first, *last = &count->last;
    *change = (struct change){.created = last->fields - first->fields,
                              .taken = audit_taken(last) - audit_taken(first),
                              .sold = last->item.sold - first->item.sold,
                              .returned = last->returned - first->returned};
    return change->created >= 0 && change->taken >= 0 && change->sold >= 0 && change->returned >= 0 &&
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
    return within(audit_returned_units(&count->audit), first->returned, last->returned) &&
           within(count->units, audit_taken(first), audit_taken(last) + change->nowhere) &&
           (first->item.limit == 0 || within(count->audit.user_units, audit_taken(first) - last->returned,
                                             audit_taken(last) - first->returned + change->nowhere));
}

/* The entries of a hold and of a user are written in the same step as the order, except with those
 * strategies. */
static bool audit_entries_agree(const struct audit_count *count, const struct change *change) {
    const struct inventory_audit *audit = &count->audit;
    int64_t changed = change->created + change->sold + change->returned; /* orders, at most */
    return within(audit->holds, audit_entered_holds(audit) - changed, audit_entered_holds(audit) + changed) &&
           audit->over_limit == 0;
}

static void audit_judge_changing(struct audit_count *count, const struct change *change) {
    struct inventory_audit *audit = &count->audit;
    const struct audit_moment *first = &count->first, *last = &count->last;
    int64_t held = audit->units[INVENTORY_STATE_HELD], sold = audit->units[INVENTORY_STATE_CONFIRMED];
    audit->off_by = larger(change->taken, change->sold + change->returned) + change->nowhere;
    /* Orders read as sold are still sold. Of those read as held, all but the returned units still are held or
     * sold. */
    audit->oversold = larger(sold + larger(held - change->returned, 0) - audit_stock(&last->item), 0);
    audit->conserved = audit_counters_agree(&first->item) && audit_counters_agree(&last->item) &&
                       within(sold, first->item.sold, last->item.sold + change->nowhere) &&
                       audit_returns_agree(count, change) &&
                       (audit_goes_by_steps(last->item.strategy) || audit_entries_agree(count, change)) &&
                       audit->oversold == 0 && audit->unreadable == 0;
}

/* No order changed if there are as many fields, units sold and units held as before: without a new order and
 * without a confirm, units held can only become fewer. Then all counts are of the last moment; only
 * `available` may include one more restock. */
bool audit_judge(struct audit_count *count) {
    struct inventory_audit *audit = &count->audit;
    const struct audit_moment *first = &count->first, *last = &count->last;
    struct change change;
    audit->item = last->item;
    audit->holds = last->holds;
    if (!audit_read_change(count, &change))
        return false;
    audit->exact = change.created == 0 && change.sold == 0 && last->item.held == first->item.held;
    if (audit->exact) {
        audit_judge_exact(count);
    } else {
        if (audit_goes_by_steps(last->item.strategy))
            change.nowhere = larger(audit_nowhere(&last->item), 0);
        audit_judge_changing(count, &change);
    }
    return true;
}
