/* A basket as people write it, for lessons: read all items, decide, work, write all.
 *
 * Two things are wrong with it. A caller that read the same units meanwhile is overwritten, as in naive.c.
 * And between the first and the last write there is half a basket; if the process ends there, nobody notices.
 * If the lines have fencing tokens, line.lua writes by increments and refuses an overtaken holder: that stops
 * the first fault, not the second. */
#include <stdio.h>
#include <string.h>

#include "inventory/transactions/transactions_internal.h"

/* ---- the orders, by which a retry is known ---- */

/* Whether the record is the line's order, as this request wants it. */
static bool naive_basket_is_wanted(const struct transaction_run *run, int line, const char *record,
                                   int64_t *created_ms) {
    const struct inventory_transaction *transaction = run->transaction;
    struct inventory_order order;
    if (!record || !record_read(&order, transaction->lines[line].item, "", record) ||
        order.quantity != transaction->lines[line].quantity || strcmp(order.user, transaction->user) != 0)
        return false;
    *created_ms = order.created_ms;
    return true;
}

static void naive_basket_on_orders(void *ctx, const struct redis_value *value) {
    struct transaction_part *part = ctx;
    struct transaction_run *run = part->run;
    int lines[INVENTORY_LINES_MAX], n = lines_of(part, lines), there = 0;
    bool good = store_status(run->shared, value) == INVENTORY_OK && redis_value_count(value) == (size_t)n;
    for (int i = 0; good && i < n; i++) {
        const struct redis_value *record = redis_value_at(value, (size_t)i);
        if (redis_value_type(record) == REDIS_NIL)
            continue;
        there++;
        if (!naive_basket_is_wanted(run, lines[i], redis_value_text(record), &run->transaction->created_ms))
            run->found = INVENTORY_KEY_REUSED;
    }
    if (there > 0 && there < n)
        run->found = INVENTORY_KEY_REUSED; /* they are written together */
    part->done = there > 0;
    lines_count_down(run, good);
}

static void naive_basket_ask_orders(struct transaction_part *part) {
    int lines[INVENTORY_LINES_MAX], n = lines_of(part, lines);
    char digests[INVENTORY_LINES_MAX][INVENTORY_DIGEST_SIZE];
    const char *argv[2 + INVENTORY_LINES_MAX] = {"HMGET", part->keys.item};
    for (int i = 0; i < n; i++) {
        lines_digest(part->run->transaction, lines[i], digests[i]);
        argv[2 + i] = digests[i];
    }
    router_call(part->run->shared->store, naive_basket_on_orders, part, 2 + n, argv);
}

/* ---- the write ---- */

static void naive_basket_on_command(void *ctx, const struct redis_value *value) {
    struct transaction_run *run = ctx;
    lines_count_down(run, store_status(run->shared, value) == INVENTORY_OK);
}

/* Writes what follows from the read, whatever is there now. */
static void naive_basket_overwrite(struct transaction_part *part) {
    struct transaction_run *run = part->run;
    struct router *store = run->shared->store;
    const struct sale_keys *keys = &part->keys;
    int lines[INVENTORY_LINES_MAX], n = lines_of(part, lines);
    char digests[INVENTORY_LINES_MAX][INVENTORY_DIGEST_SIZE], records[INVENTORY_LINES_MAX][RECORD_SIZE];
    const char *orders[2 + 2 * INVENTORY_LINES_MAX] = {"HSET", keys->item};
    const char *entry[3 + 2 * INVENTORY_LINES_MAX] = {"XADD", keys->events, "*"};
    for (int i = 0; i < n; i++) {
        struct inventory_order order;
        inventory_transaction_order(run->transaction, lines[i], &order);
        record_print(records[i], &order);
        lines_digest(run->transaction, lines[i], digests[i]);
        orders[2 + 2 * i] = entry[3 + 2 * i] = digests[i];
        orders[3 + 2 * i] = entry[4 + 2 * i] = records[i];
    }
    run->pending += 2 + (part->limit > 0) + run->shared->config.events;
    router_callf(store, keys->item, naive_basket_on_command, run, "HSET %s available %lld", keys->item,
                 (long long)(part->available - part->quantity));
    router_callf(store, keys->item, naive_basket_on_command, run, "HINCRBY %s sold %lld", keys->item,
                 (long long)part->quantity);
    router_call(store, naive_basket_on_command, run, 2 + 2 * n, orders);
    if (part->limit)
        router_callf(store, keys->item, naive_basket_on_command, run, "HSET %s " USER_FIELD "%s %lld",
                     keys->item, run->transaction->user, (long long)(part->had + part->quantity));
    if (run->shared->config.events)
        router_call(store, naive_basket_on_command, run, 3 + 2 * n, entry);
}

/* Ends a read or write that was refused, or whose reply was lost. */
static void naive_basket_end(struct transaction_run *run) {
    if (run->status == INVENTORY_UNKNOWN)
        transaction_lost(run);
    else
        transaction_finish(run, run->status);
}

static void naive_basket_on_written(struct transaction_run *run) {
    if (run->status != INVENTORY_OK) {
        naive_basket_end(run);
        return;
    }
    run->transaction->phase = PHASE_CONFIRMED;
    transaction_conclude(run);
}

/* ---- from step to step ---- */

static void naive_basket_on_worked(void *ctx, bool closing) {
    struct transaction_run *run = ctx;
    if (closing) {
        transaction_finish(run, INVENTORY_UNAVAILABLE);
        return;
    }
    run->begun = run->mine = true;
    if (run->transaction->locked && run->shared->config.fencing && run->transaction->lines[0].token.fence > 0)
        lines_write(run, WRITE_SELL, naive_basket_on_written);
    else
        lines_each_part(run, WRITE_SELL, "sell", naive_basket_overwrite, naive_basket_on_written);
}

static void naive_basket_on_read(struct transaction_run *run) {
    struct inventory_transaction *transaction = run->transaction;
    if (run->status != INVENTORY_OK) {
        naive_basket_end(run);
        return;
    }
    if (transaction->created_ms == 0)
        transaction->created_ms = run->now_ms;
    work_delay_begin(&run->transactions->inventory->strategies->work_delay, &run->delayed,
                     naive_basket_on_worked, run);
}

static void naive_basket_on_asked(struct transaction_run *run) {
    bool all = true;
    for (int p = 0; p < run->part_count; p++)
        all = all && run->parts[p].done;
    if (run->status == INVENTORY_UNKNOWN) {
        transaction_lost(run);
    } else if (run->found != INVENTORY_OK) {
        transaction_finish(run, run->found);
    } else if (all) {
        naive_basket_on_written(run);
    } else if (run->begun) {
        transaction_finish(run, INVENTORY_UNKNOWN); /* a reply was lost, and not all was written */
    } else {
        lines_read(run, true, naive_basket_on_read);
        lines_count_down(run, true);
    }
}

static void naive_basket_begin(struct transaction_run *run) {
    struct inventory_transaction *transaction = run->transaction;
    memcpy(transaction->nonce, transaction->id,
           sizeof transaction->nonce); /* so that a retry has the same orders */
    transaction->created_ms = transaction->expires_ms = 0;
    transaction->state = INVENTORY_STATE_CONFIRMED;
    run->found = INVENTORY_OK;
    for (int p = 0; p < run->part_count; p++)
        run->parts[p].done = false;
    lines_each_part(run, WRITE_NOTHING, "orders", naive_basket_ask_orders, naive_basket_on_asked);
}

void inventory_transaction_make_naive(struct inventory *inventory,
                                      struct inventory_transaction *transaction) {
    if (inventory->shared.config.teaching)
        transaction_begin(inventory->transactions, transaction, naive_basket_begin, INVENTORY_READ);
    else
        transaction->done(transaction, INVENTORY_REFUSED);
}
