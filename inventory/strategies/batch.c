/* Group commit: strategies `batch` and `lua`.
 *
 * Purchases gather in their item's queue. At the end of each turn of the loop all of them leave in one script
 * call, if no call for the item is in flight. A second call may leave beside it, if it is at least as large:
 * the store works on one while the replies and requests of the other are on their way, and small calls, each
 * of which costs a sync of the append-only file, do not keep it busy. There is no timer: a lone purchase
 * finds nothing in flight and leaves at once.
 *
 * A sold-out item is not sold by script. Its purchases gather in the same way, but the call only reads the
 * units left, the time, and the orders of their keys. It reads the units first: if an order is not there
 * afterwards, it was not there when no units were left. */
#include <stdlib.h>
#include <string.h>

#include "base/decimal.h"
#include "inventory/model/terms.h"
#include "inventory/purchases/holds.h"
#include "inventory/purchases/lost.h"
#include "inventory/store/failpoint.h"
#include "inventory/store/status.h"
#include "inventory/strategies/strategies.h"
#include "purchase.lua.h"

enum { IN_FLIGHT_MAX = 2 };

static const struct script purchase_script = {purchase_lua, purchase_lua_sha1};

struct batch {
    struct batch *next; /* in the list of spare ones */
    struct inventory *inventory;
    struct item *item;
    int64_t now_ms;              /* by the store's clock */
    int64_t indexed_ms;          /* not 0: the item is in the index of due times until then, see holds.h */
    int64_t available;           /* of a check: the units left; -1: there is no such item */
    enum inventory_status check; /* of a check: the outcome */
    enum inventory_status empty; /* of a check: the answer if no units are left */
    int count;
    struct inventory_purchase *purchases[INVENTORY_BATCH_MAX];
};

static struct batch *batch_take(struct inventory *inventory, struct item *item, int most) {
    struct batch *batch = inventory->spare_batches;
    if (batch)
        inventory->spare_batches = batch->next;
    else if (!(batch = malloc(sizeof *batch)))
        return NULL;
    batch->inventory = inventory;
    batch->item = item;
    batch->indexed_ms = 0;
    batch->count = 0;
    int64_t sent_ms = clock_wall_ms(inventory->config.clock);
    while (!STAILQ_EMPTY(&item->waiting) && batch->count < most) {
        struct inventory_purchase *purchase = purchases_take(&item->waiting);
        purchase->sent_ms = sent_ms;
        batch->purchases[batch->count++] = purchase;
    }
    item->gathered -= batch->count;
    item->in_flight++;
    item->in_flight_purchases += batch->count;
    item->users++;
    return batch;
}

static void batch_drop(struct batch *batch) {
    struct inventory *inventory = batch->inventory;
    struct item *item = batch->item;
    item->in_flight--;
    item->in_flight_purchases -= batch->count;
    if (!STAILQ_EMPTY(&item->waiting))
        item_mark_dirty(inventory, item);
    items_drop(&inventory->items, item);
    batch->next = inventory->spare_batches;
    inventory->spare_batches = batch;
}

void batch_free_spares(struct inventory *inventory) {
    while (inventory->spare_batches) {
        struct batch *next = inventory->spare_batches->next;
        free(inventory->spare_batches);
        inventory->spare_batches = next;
    }
}

static void finish_all(struct batch *batch, enum inventory_status status) {
    for (int i = 0; i < batch->count; i++) {
        if (status == INVENTORY_UNKNOWN)
            purchase_lost(batch->purchases[i]);
        else
            purchase_finish(batch->purchases[i], status);
    }
}

/* The item has another strategy than this process took for granted. */
static void start_otherwise(struct batch *batch, const char *name) {
    enum inventory_strategy strategy;
    if (!name || !inventory_strategy_find(name, &strategy)) {
        finish_all(batch, INVENTORY_REFUSED);
        return;
    }
    if (inventory_strategy_teaches(strategy) && !batch->inventory->config.teaching) {
        finish_all(batch, INVENTORY_REFUSED);
        return;
    }
    batch->item->strategy = strategy;
    for (int i = 0; i < batch->count; i++)
        purchase_again(batch->purchases[i]);
}

/* `result` is NULL if all were sold. */
static void finish_one(struct batch *batch, struct inventory_purchase *purchase,
                       const struct redis_value *result, int64_t hold_until_ms) {
    enum inventory_status refusal;
    const char *text = result ? redis_value_text(result) : NULL;
    purchase->available = batch->available;
    if (!text && result && redis_value_integer(result, 0) != 1)
        purchase_finish(purchase, INVENTORY_UNAVAILABLE);
    else if (!text)
        purchase_sold(purchase, batch->now_ms, hold_until_ms);
    else if (terms_refusal(text, &refusal))
        purchase_finish(purchase, refusal);
    else
        purchase_found(purchase, text, 0);
}

static void send_sale(struct batch *batch);

static void on_indexed(void *ctx, const struct redis_value *value) {
    struct batch *batch = ctx;
    failpoint(batch->inventory, "before first hold");
    if (store_status(batch->inventory, value) == INVENTORY_OK) {
        send_sale(batch);
    } else {
        finish_all(batch, INVENTORY_UNAVAILABLE);
        batch_drop(batch);
    }
}

/* This would be the first hold of the item: enters the item in the index of due times, after which the call
 * is sent again. False: that was done already, and took longer than a hold. */
static bool index_item(struct batch *batch, int64_t until_ms) {
    if (batch->indexed_ms)
        return false;
    batch->indexed_ms = until_ms;
    failpoint(batch->inventory, "before index");
    due_enter_first(batch->inventory->redis, batch->item->name, until_ms, on_indexed, batch);
    return true;
}

static void on_sold(void *ctx, const struct redis_value *value) {
    struct batch *batch = ctx;
    enum inventory_status status = store_status(batch->inventory, value);
    size_t count = value ? redis_value_count(value) : 0;
    if (status != INVENTORY_OK) {
        finish_all(batch, status);
    } else if (count == 3 || count == (size_t)batch->count + 3) {
        batch->available = redis_value_integer(redis_value_at(value, 0), 0);
        batch->item->sold_out = batch->available == 0;
        int64_t hold_until_ms = redis_value_integer(redis_value_at(value, 1), 0);
        batch->now_ms = redis_value_integer(redis_value_at(value, 2), 0);
        for (int i = 0; i < batch->count; i++)
            finish_one(batch, batch->purchases[i], count == 3 ? NULL : redis_value_at(value, (size_t)i + 3),
                       hold_until_ms);
    } else if (count == 2 && strcmp(redis_value_text(redis_value_at(value, 0)), "index") == 0) {
        if (index_item(batch, redis_value_integer(redis_value_at(value, 1), 0)))
            return;
        finish_all(batch, INVENTORY_UNAVAILABLE);
    } else if (count == 2) {
        start_otherwise(batch, redis_value_text(redis_value_at(value, 1)));
    } else {
        finish_all(batch, INVENTORY_UNKNOWN_ITEM);
    }
    batch_drop(batch);
}

static void send_sale(struct batch *batch) {
    struct inventory *inventory = batch->inventory;
    const struct sale_keys *keys = &batch->item->keys;
    const char **argv = inventory->argv;
    int argc = SCRIPT_ARGV, n = batch->count;
    char indexed[DECIMAL_SIZE];
    decimal_append(indexed, (uint64_t)batch->indexed_ms);
    argv[argc++] = keys->item;
    argv[argc++] = keys->orders;
    argv[argc++] = keys->users;
    argv[argc++] = keys->holds;
    argv[argc++] = keys->events;
    /* If the item has another strategy now, since it was created anew, the reply says so; see
     * start_otherwise(). */
    argv[argc++] =
        inventory_strategy_name(batch->item->strategy == INVENTORY_LUA ? INVENTORY_LUA : INVENTORY_BATCH);
    argv[argc++] = indexed;
    for (int i = 0; i < n; i++) {
        const struct inventory_purchase *purchase = batch->purchases[i];
        decimal_append(inventory->quantities[i], (uint64_t)purchase->quantity);
        argv[argc + i] = purchase->digest;
        argv[argc + n + i] = purchase->user;
        argv[argc + 2 * n + i] = inventory->quantities[i];
    }
    metric_add(&inventory->metrics->batches, 1);
    metric_add(&inventory->metrics->batched, (uint64_t)n);
    script_call(inventory, &purchase_script, 5, argc + 3 * n, argv, on_sold, batch);
}

static void on_time(void *ctx, const struct redis_value *value) {
    struct batch *batch = ctx;
    batch->check = store_status(batch->inventory, value);
    if (batch->check == INVENTORY_OK)
        batch->now_ms = store_time_ms(value);
}

static void on_units(void *ctx, const struct redis_value *value) {
    struct batch *batch = ctx;
    if (batch->check == INVENTORY_OK)
        batch->check = store_status(batch->inventory, value);
    batch->available = -1;
    if (batch->check != INVENTORY_OK || redis_value_count(value) != 3)
        return;
    batch->available = redis_value_integer(redis_value_at(value, 0), -1);
    batch->empty = terms_judge_time(batch->now_ms, redis_value_integer(redis_value_at(value, 1), 0),
                                    redis_value_integer(redis_value_at(value, 2), 0));
    if (batch->empty == INVENTORY_OK)
        batch->empty = INVENTORY_SOLD_OUT;
}

static void on_orders(void *ctx, const struct redis_value *value) {
    struct batch *batch = ctx;
    enum inventory_status status = batch->check;
    if (status == INVENTORY_OK)
        status = store_status(batch->inventory, value);
    if (status == INVENTORY_UNKNOWN)
        status = INVENTORY_UNAVAILABLE; /* it was only a read */
    else if (status == INVENTORY_OK && batch->available < 0)
        status = INVENTORY_UNKNOWN_ITEM;
    if (status != INVENTORY_OK || redis_value_count(value) != (size_t)batch->count) {
        finish_all(batch, status == INVENTORY_OK ? INVENTORY_UNAVAILABLE : status);
        batch_drop(batch);
        return;
    }
    if (batch->available > 0)
        batch->item->sold_out = false;
    for (int i = 0; i < batch->count; i++) {
        struct inventory_purchase *purchase = batch->purchases[i];
        const struct redis_value *record = redis_value_at(value, (size_t)i);
        purchase->available = batch->available;
        if (redis_value_type(record) == REDIS_STRING)
            purchase_found(purchase, redis_value_text(record), 0);
        else if (batch->available == 0)
            purchase_finish(purchase, batch->empty);
        else
            purchase_again(purchase);
    }
    batch_drop(batch);
}

static void send_check(struct batch *batch) {
    struct inventory *inventory = batch->inventory;
    const char **argv = inventory->argv;
    argv[0] = "HMGET";
    argv[1] = batch->item->keys.orders;
    for (int i = 0; i < batch->count; i++)
        argv[2 + i] = batch->purchases[i]->digest;
    metric_add(&inventory->metrics->checks, 1);
    redis_callf(inventory->redis, on_time, batch, "TIME");
    redis_callf(inventory->redis, on_units, batch, "HMGET %s available starts ends", batch->item->keys.item);
    redis_call(inventory->redis, on_orders, batch, 2 + batch->count, argv);
}

static bool may_leave(const struct item *item) {
    return item->in_flight == 0 ||
           (item->in_flight < IN_FLIGHT_MAX && item->gathered >= item->in_flight_purchases);
}

void batch_flush(struct inventory *inventory, struct item *item) {
    bool alone = item->strategy == INVENTORY_LUA;
    while (!STAILQ_EMPTY(&item->waiting) && (alone || may_leave(item))) {
        struct batch *batch = batch_take(inventory, item, alone ? 1 : INVENTORY_BATCH_MAX);
        if (!batch)
            return; /* out of memory: the next purchase marks the item again */
        (item->sold_out ? send_check : send_sale)(batch);
    }
}

static void start(struct inventory_purchase *purchase) {
    struct item *item = purchase->in;
    STAILQ_INSERT_TAIL(&item->waiting, purchase, next);
    item->gathered++;
    item_mark_dirty(purchase->inventory, item);
}

const struct strategy strategy_batch = {.start = start};
const struct strategy strategy_lua = {.start = start};
