/* The audit of all items together.
 *
 *     list      the items, by SCAN of each server, until no slot moved meanwhile
 *     compare the journal with the items (reconcile.c): what items lack
 *     items     one after the other: its orders and moves with the journal (what the items have and it does
 *               not know), then its own books (purchases/audit.c)
 *
 * An order of a basket, or a move of a transfer, names its transaction. The journal must have that, with the
 * nonce from which the order's digest follows. The journal is asked after the item. So if it lacks the
 * transaction, the order is read again: an attempt that was aborted meanwhile is no error. */
#include "inventory/transactions/transactions_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "inventory/purchases/putback.h"

enum { KEYS_PAGE = 1000, TOLD_MOST = 100, LISTS_MOST = 10, MAP_MS = 10000 };

struct audit_all {
    struct transactions *transactions;
    inventory_audit_all_fn *fn;
    void *ctx;
    struct inventory_audit_sum sum;

    int server, lists;
    unsigned moves;       /* of slots, when this list was begun */
    int64_t map_until_ms; /* until then the list waits for the map of slots */
    char (*items)[INVENTORY_NAME_MAX + 1];
    size_t count, room, at;

    struct scan scan; /* of the item */
    int64_t unknown_before;
    int pending; /* entries of this page, and 1 until all were begun */
    bool awaits_map, to_compare, scanning, failed;
    int told;
};

/* An entry of an item whose transaction is looked up. */
struct entry {
    struct audit_all *in;
    enum receipt_kind kind; /* ORDER or MOVE */
    int64_t quantity;
    struct inventory_transaction transaction;
    char field[FIELD_SIZE], record[RECORD_SIZE];
};

static void audit_all_begin_item(struct audit_all *in);
static void audit_all_list(struct audit_all *in);
static void audit_all_list_more(struct audit_all *in, const char *cursor);

/* ---- the end ---- */

static void audit_all_end(struct audit_all *in, enum inventory_status status) {
    struct inventory_audit_sum *sum = &in->sum;
    in->transactions->audit_all = NULL;
    sum->conserved =
        sum->unbalanced == 0 && sum->oversold == 0 && sum->journal.torn == 0 && sum->unknown == 0;
    in->fn(in->ctx, status, status == INVENTORY_OK ? sum : NULL);
    free(in->items);
    free(in);
}

/* ---- an item ---- */

static void audit_all_on_audit(void *ctx, enum inventory_status status, const struct inventory_audit *told) {
    struct audit_all *in = ctx;
    struct inventory_audit_sum *sum = &in->sum;
    if (status != INVENTORY_OK) {
        audit_all_end(in, status == INVENTORY_UNKNOWN_ITEM ? INVENTORY_UNAVAILABLE : status);
        return;
    }
    sum->items++;
    sum->unbalanced += !told->conserved;
    sum->stock += told->item.initial + told->item.restocked;
    sum->available += told->item.available;
    sum->held += told->item.held;
    sum->sold += told->item.sold;
    sum->oversold += told->oversold;
    sum->shortage += told->item.shortage;
    in->at++;
    audit_all_begin_item(in);
}

static void audit_all_on_page(void *ctx, const struct redis_value *page, bool again);

static void audit_all_begin_item(struct audit_all *in) {
    struct transactions *transactions = in->transactions;
    struct sale_keys keys;
    if (in->at == in->count) {
        audit_all_end(in, INVENTORY_OK);
        return;
    }
    sale_keys_make(&keys, in->items[in->at]);
    in->scanning = true;
    in->unknown_before = in->sum.unknown;
    scan_begin(&in->scan, transactions->shared, keys.item, audit_all_on_page, in);
}

/* An entry was looked up. The last one ends the page. */
static void audit_all_count_down(struct audit_all *in) {
    if (--in->pending > 0)
        return;
    if (in->failed) {
        audit_all_end(in, INVENTORY_UNAVAILABLE);
        return;
    }
    if (scan_go_on(&in->scan))
        return;
    in->scanning = false;
    inventory_item_audit(in->transactions->inventory, in->items[in->at], audit_all_on_audit, in);
}

/* ---- an order, or a move ---- */

/* The digest of the order or move. */
static const char *audit_all_name(const struct entry *entry) {
    return entry->field + (entry->kind == RECEIPT_MOVE);
}

static void audit_all_end_entry(struct entry *entry) {
    struct audit_all *in = entry->in;
    free(entry);
    audit_all_count_down(in);
}

static void audit_all_tell(const struct entry *entry) {
    struct audit_all *in = entry->in;
    const struct inventory_config *config = &in->transactions->shared->config;
    in->sum.unknown += entry->quantity;
    if (config->on_loss && in->told++ < TOLD_MOST)
        config->on_loss(config->on_loss_ctx,
                        &(struct inventory_loss){.kind = (enum inventory_loss_kind)entry->kind,
                                                 .item = in->items[in->at],
                                                 .name = audit_all_name(entry),
                                                 .outcome = INVENTORY_LOSS_UNKNOWN_TRANSACTION});
}

static void audit_all_on_entry_again(void *ctx, const struct redis_value *value) {
    struct entry *entry = ctx;
    bool good = store_status(entry->in->transactions->shared, value) == INVENTORY_OK;
    const char *record = good ? redis_value_text(value) : NULL;
    entry->in->failed |= !good;
    if (record && strcmp(record, entry->record) == 0)
        audit_all_tell(entry);
    audit_all_end_entry(entry);
}

/* Whether the entry is final in the item: an order is sold, or units have arrived. */
static bool audit_all_is_final(const struct entry *entry) {
    return entry->record[0] == 'c' || strncmp(entry->record, "receive", 7) == 0;
}

/* Whether the journal, as it was read, accounts for the entry. */
static bool audit_all_is_known(const struct entry *entry, const char *item) {
    const struct inventory_transaction *transaction = &entry->transaction;
    struct inventory_order order;
    bool same = strcmp(transaction->nonce, audit_all_name(entry)) == 0;
    if (entry->kind == RECEIPT_ORDER)
        same = record_read(&order, item, audit_all_name(entry), entry->record) &&
               inventory_transaction_has_order(transaction, &order);
    return same && (!audit_all_is_final(entry) || phases[transaction->phase].is == INVENTORY_STATE_CONFIRMED);
}

static void audit_all_on_journal(void *ctx, const struct redis_value *value) {
    struct entry *entry = ctx;
    struct audit_all *in = entry->in;
    struct sale_keys keys;
    bool good = store_status(in->transactions->shared, value) == INVENTORY_OK;
    in->failed |= !good;
    if (!good || (redis_value_text(value) && journal_read(&entry->transaction, redis_value_text(value)) &&
                  audit_all_is_known(entry, in->items[in->at]))) {
        audit_all_end_entry(entry);
        return;
    }
    sale_keys_make(&keys, in->items[in->at]);
    router_call(in->transactions->shared->store, audit_all_on_entry_again, entry, 3,
                (const char *[]){"HGET", keys.item, entry->field});
}

/* WORD QUANTITY TRANSFER, see line.lua; a restock is only numbers. */
static bool audit_all_read_move(struct entry *entry) {
    const char *quantity = strchr(entry->record, ' ');
    char *id = NULL;
    entry->quantity = quantity ? strtoll(quantity, &id, 10) : 0;
    entry->transaction.kind = INVENTORY_TRANSFER;
    if (!id || *id++ != ' ' || !inventory_digest_valid(id) || strncmp(entry->record, "refund", 6) == 0)
        return false;
    stpcpy(entry->transaction.id, id);
    return true;
}

static bool audit_all_read_order(struct entry *entry, const char *item) {
    struct inventory_order order;
    if (!record_read(&order, item, audit_all_name(entry), entry->record) || !order.basket[0] ||
        (order.state != INVENTORY_STATE_HELD && order.state != INVENTORY_STATE_CONFIRMED))
        return false;
    entry->quantity = order.quantity;
    entry->transaction.kind = INVENTORY_BASKET;
    stpcpy(entry->transaction.id, order.basket);
    return true;
}

static void audit_all_look_up(struct audit_all *in, const char *field, const char *record) {
    struct entry of = {.in = in, .kind = field && *field == *MOVE_FIELD ? RECEIPT_MOVE : RECEIPT_ORDER};
    if (!field || !record || !inventory_digest_valid(field + (of.kind == RECEIPT_MOVE)) ||
        strlen(record) >= sizeof of.record)
        return;
    stpcpy(of.field, field);
    stpcpy(of.record, record);
    if (of.kind == RECEIPT_ORDER ? !audit_all_read_order(&of, in->items[in->at]) : !audit_all_read_move(&of))
        return; /* the entry is of no transaction, or holds no units */
    struct entry *entry = malloc(sizeof *entry);
    if (!entry) {
        in->failed = true;
        return;
    }
    *entry = of;
    in->pending++;
    journal_ask(in->transactions, &entry->transaction, audit_all_on_journal, entry);
}

static void audit_all_on_page(void *ctx, const struct redis_value *page, bool again) {
    struct audit_all *in = ctx;
    in->failed |= !page;
    in->pending = 1;
    if (again)
        in->sum.unknown = in->unknown_before;
    for (size_t i = 0; page && !again && i + 1 < redis_value_count(page); i += 2)
        audit_all_look_up(in, redis_value_text(redis_value_at(page, i)),
                          redis_value_text(redis_value_at(page, i + 1)));
    audit_all_count_down(in);
}

/* ---- the journal ---- */

static void audit_all_on_compared(void *ctx, enum inventory_status status,
                                  const struct inventory_reconciled *told) {
    struct audit_all *in = ctx;
    if (status != INVENTORY_OK) {
        audit_all_end(in, status);
        return;
    }
    in->sum.journal = *told;
    audit_all_begin_item(in);
}

/* ---- which items there are ---- */

/* False: out of memory. */
static bool audit_all_note_item(struct audit_all *in, const char *key) {
    const char *item = item_of_key(key);
    if (!item)
        return true;
    if (in->count == in->room) {
        size_t room = in->room ? 2 * in->room : 64;
        void *more = realloc(in->items, room * sizeof in->items[0]);
        if (!more)
            return false;
        in->items = more;
        in->room = room;
    }
    snprintf(in->items[in->count++], sizeof in->items[0], "%s", item);
    return true;
}

static int audit_all_compare_names(const void *a, const void *b) {
    return strcmp(a, b);
}

/* A slot that moved while the servers were scanned was met at both servers, or at neither. */
static void audit_all_remove_doubles(struct audit_all *in) {
    size_t kept = 0;
    if (in->count > 0)
        qsort(in->items, in->count, sizeof in->items[0], audit_all_compare_names);
    for (size_t i = 0; i < in->count; i++) {
        if (kept == 0 || strcmp(in->items[i], in->items[kept - 1]) != 0)
            memmove(in->items[kept++], in->items[i], sizeof in->items[0]);
    }
    in->count = kept;
}

/* The map of slots was read, or cannot be read. If a slot has moved since the list was begun, the servers are
 * scanned again. */
static void audit_all_check_list(struct audit_all *in) {
    const struct router *store = in->transactions->shared->store;
    bool known = router_has_map(store);
    if (!known && shared_now_ms(in->transactions->shared) < in->map_until_ms)
        return;
    in->awaits_map = false;
    if (known && router_moves(store) == in->moves) {
        audit_all_remove_doubles(in);
        in->to_compare = true;
    } else if (known && in->lists++ < LISTS_MOST) {
        audit_all_list(in);
    } else {
        audit_all_end(in, INVENTORY_UNAVAILABLE);
    }
}

/* An inventory that sells hears of moved slots and added servers. This one may sell nothing, so it reads the
 * map before the scans and after them. It may ask a server that hangs first. */
static void audit_all_read_map(struct audit_all *in) {
    struct transactions *transactions = in->transactions;
    in->awaits_map = true;
    in->map_until_ms =
        shared_now_ms(transactions->shared) + transactions->shared->config.call_timeout_ms + MAP_MS;
    router_want_map(transactions->shared->store);
    audit_all_check_list(in);
}

static void audit_all_on_keys(void *ctx, const struct redis_value *value) {
    struct audit_all *in = ctx;
    bool good =
        store_status(in->transactions->shared, value) == INVENTORY_OK && redis_value_count(value) == 2;
    const struct redis_value *keys = good ? redis_value_at(value, 1) : NULL;
    for (size_t i = 0; good && i < redis_value_count(keys); i++)
        good = audit_all_note_item(in, redis_value_text(redis_value_at(keys, i)));
    const char *cursor = good ? redis_value_text(redis_value_at(value, 0)) : NULL;
    if (!cursor) {
        audit_all_end(in, INVENTORY_UNAVAILABLE);
        return;
    }
    in->server += strcmp(cursor, "0") == 0;
    audit_all_list_more(in, cursor);
}

static void audit_all_list_more(struct audit_all *in, const char *cursor) {
    struct router *store = in->transactions->shared->store;
    while (in->server < router_servers(store) && !router_server(store, in->server))
        in->server++;
    if (in->server < router_servers(store)) {
        redis_callf(router_server(store, in->server), audit_all_on_keys, in,
                    "SCAN %s MATCH seckill:{*}:* COUNT %d", cursor, KEYS_PAGE);
        return;
    }
    audit_all_read_map(in);
}

static void audit_all_list(struct audit_all *in) {
    in->server = 0;
    in->moves = router_moves(in->transactions->shared->store);
    audit_all_list_more(in, "0");
}

/* ---- the call ---- */

void inventory_audit_all(struct inventory *inventory, inventory_audit_all_fn *fn, void *ctx) {
    struct transactions *transactions = inventory->transactions;
    bool whole =
        router_is_up(transactions->shared->store, NULL) && router_is_whole(transactions->shared->store);
    struct audit_all *in = whole && !transactions->audit_all ? calloc(1, sizeof *in) : NULL;
    if (!in) {
        fn(ctx, whole ? INVENTORY_OVERLOADED : INVENTORY_UNAVAILABLE, NULL);
        return;
    }
    in->transactions = transactions;
    in->fn = fn;
    in->ctx = ctx;
    transactions->audit_all = in;
    in->moves = router_moves(transactions->shared->store) - 1; /* differs, so the first list begins */
    audit_all_read_map(in);
}

/* Waits while another comparison is in progress. */
void audit_all_tick(struct transactions *transactions) {
    struct audit_all *in = transactions->audit_all;
    if (in && in->scanning) {
        scan_tick(&in->scan);
    } else if (in && in->awaits_map) {
        audit_all_check_list(in);
    } else if (in && in->to_compare && !transactions->reconciling) {
        in->to_compare = false;
        inventory_transactions_reconcile(transactions->inventory, false, audit_all_on_compared, in);
    }
}

/* Calls in flight were answered when the store was closed; an audit without one ends here. */
void audit_all_close(struct transactions *transactions) {
    if (transactions->audit_all)
        audit_all_end(transactions->audit_all, INVENTORY_UNAVAILABLE);
}
