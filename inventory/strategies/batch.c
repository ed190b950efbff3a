/* Group commit: strategies `batch` and `lua`.
 *
 * Purchases gather in their items' queues. At the end of each turn of the loop those of all items leave
 * together, as one flight, if none is in flight: one script call for the items on sale, and a check for each
 * item that is sold out. A second flight may leave beside the first, if it is at least as large: the store
 * works on one while the replies and requests of the other are on their way, and small calls, each of which
 * costs a sync of the append-only file, do not keep it busy. There is no timer: a lone purchase finds nothing
 * in flight and leaves at once. In a cluster, where no call reaches two items, each item has flights of its
 * own. `lua` does not gather: each purchase leaves by itself.
 *
 * A check does not sell: it only reads the units left, the time, and the orders of the keys. It reads the
 * units first: if an order is not there afterwards, it was not there when no units were left. */
#include <stdlib.h>
#include <string.h>

#include "base/decimal.h"
#include "inventory/purchases/due.h"
#include "inventory/purchases/purchase.h"
#include "inventory/store/item_terms.h"
#include "inventory/store/shared.h"
#include "inventory/strategies/strategies.h"
#include "purchase.lua.h"

enum { IN_FLIGHT_MAX = 2 };

static const struct redis_script purchase_script = {purchase_lua, purchase_lua_sha1};

/* What left together. */
struct flight {
    struct strategies *strategies;
    struct lane *lane;
    struct item *item; /* the only one, whose lane it is; NULL: it may have many */
    int open;          /* batches without their replies, and 1 until all is sent */
    int purchases;     /* in it */
};

/* The purchases of one item in a call. */
struct batch {
    struct batch *next; /* the next item's in the call; or in the list of spare ones */
    struct strategies *strategies;
    struct flight *flight; /* NULL: it left by itself */
    struct item *item;
    int64_t now_ms;              /* by the store's clock */
    int64_t indexed_ms;          /* not 0: the item is in the index of due times until then, see due.h */
    int64_t available;           /* of a check: the units left; -1: there is no such item */
    struct redis *checked;       /* of a check: whom it asks */
    enum inventory_status check; /* of a check: the outcome */
    enum inventory_status empty; /* of a check: the answer if no units are left */
    int count;
    struct inventory_purchase *purchases[INVENTORY_BATCH_MAX];
};

/* A batch without purchases; NULL when out of memory. */
static struct batch *batch_new(struct strategies *strategies, struct item *item, struct flight *flight) {
    struct batch *batch = strategies->spare_batches;
    if (batch)
        strategies->spare_batches = batch->next;
    else if (!(batch = malloc(sizeof *batch)))
        return NULL;
    batch->next = NULL;
    batch->strategies = strategies;
    batch->flight = flight;
    batch->item = item;
    batch->indexed_ms = 0;
    batch->count = 0;
    item->users++;
    if (flight)
        flight->open++;
    return batch;
}

static void batch_add(struct batch *batch, struct inventory_purchase *purchase, int64_t sent_ms) {
    purchase->sent_ms = sent_ms;
    batch->purchases[batch->count++] = purchase;
}

/* One batch of it is done, or the sending. */
static void flight_count_down(struct flight *flight) {
    if (!flight || --flight->open > 0)
        return;
    struct strategies *strategies = flight->strategies;
    struct item *item = flight->item;
    flight->lane->in_flight--;
    flight->lane->in_flight_purchases -= flight->purchases;
    free(flight);
    if (!item)
        return;
    if (!STAILQ_EMPTY(&item->waiting))
        item_mark_dirty(strategies->purchases, item);
    items_drop(&strategies->purchases->items, item);
}

static void batch_drop(struct batch *batch) {
    struct strategies *strategies = batch->strategies;
    flight_count_down(batch->flight);
    items_drop(&strategies->purchases->items, batch->item);
    batch->next = strategies->spare_batches;
    strategies->spare_batches = batch;
}

void batch_free_spares(struct strategies *strategies) {
    while (strategies->spare_batches) {
        struct batch *next = strategies->spare_batches->next;
        free(strategies->spare_batches);
        strategies->spare_batches = next;
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
    if (inventory_strategy_teaches(strategy) && !batch->strategies->shared->config.teaching) {
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

static void send_sale(struct batch *first);

static void on_indexed(void *ctx, const struct redis_value *value) {
    struct batch *batch = ctx;
    failpoint(batch->strategies->shared, "before first hold");
    if (store_status(batch->strategies->shared, value) == INVENTORY_OK) {
        purchase_keep_due(batch->strategies->purchases, batch->item->name, batch->indexed_ms);
        send_sale(batch);
    } else {
        finish_all(batch, INVENTORY_UNAVAILABLE);
        batch_drop(batch);
    }
}

/* This would be the first hold of the item: enters the item in the index of due times, after which the call
 * is sent again, for this item alone. False: that was done already, and took longer than a hold. */
static bool index_item(struct batch *batch, int64_t until_ms) {
    if (batch->indexed_ms)
        return false;
    batch->indexed_ms = until_ms;
    failpoint(batch->strategies->shared, "before index");
    due_enter_first(batch->strategies->shared->store, batch->item->name, until_ms, on_indexed, batch);
    return true;
}

/* The item's part of a reply. */
static void on_item_sold(struct batch *batch, const struct redis_value *value) {
    size_t count = redis_value_count(value);
    const struct redis_value *first = count ? redis_value_at(value, 0) : value;
    const char *word = redis_value_text(first);
    bool number = redis_value_type(first) == REDIS_INTEGER;
    if (number && (count == 0 || count == 2 || count == (size_t)batch->count + 2)) {
        batch->available = redis_value_integer(first, 0);
        batch->item->sold_out = batch->available == 0;
        int64_t hold_until_ms = count ? redis_value_integer(redis_value_at(value, 1), 0) : 0;
        for (int i = 0; i < batch->count; i++)
            finish_one(batch, batch->purchases[i], count > 2 ? redis_value_at(value, (size_t)i + 2) : NULL,
                       hold_until_ms);
    } else if (word && count == 2 && strcmp(word, "index") == 0) {
        if (index_item(batch, redis_value_integer(redis_value_at(value, 1), 0)))
            return;
        finish_all(batch, INVENTORY_UNAVAILABLE);
    } else if (word && count == 2) {
        start_otherwise(batch, redis_value_text(redis_value_at(value, 1)));
    } else {
        finish_all(batch, word ? INVENTORY_UNKNOWN_ITEM : INVENTORY_UNAVAILABLE);
    }
    batch_drop(batch);
}

/* Behind the replies of all items: the numbers of those that the index of due times may have lost. While a
 * part of it is away, each sale would leave a call that waits for it. */
static void mend_index(const struct batch *first, const struct redis_value *value) {
    struct router *store = first->strategies->shared->store;
    size_t items = 0;
    for (const struct batch *batch = first; batch; batch = batch->next)
        items++;
    const struct redis_value *late =
        redis_value_count(value) > items + 1 ? redis_value_at(value, items + 1) : NULL;
    for (size_t i = 0; late && i < redis_value_count(late); i++) {
        int64_t number = redis_value_integer(redis_value_at(late, i), 0);
        const struct batch *batch = first;
        while (batch && --number > 0)
            batch = batch->next;
        if (batch && due_is_up(store, key_part(batch->item->name)))
            due_mend(store, batch->item->name);
    }
}

static void on_sold(void *ctx, const struct redis_value *value) {
    struct batch *batch = ctx;
    enum inventory_status status = store_status(batch->strategies->shared, value);
    int64_t now_ms = 0;
    if (status == INVENTORY_OK)
        mend_index(batch, value);
    if (status == INVENTORY_OK && redis_value_count(value) > 0)
        now_ms = redis_value_integer(redis_value_at(value, 0), 0);
    for (size_t i = 1; batch; i++) {
        struct batch *next = batch->next;
        batch->next = NULL;
        batch->now_ms = now_ms;
        if (status == INVENTORY_OK && i < redis_value_count(value)) {
            on_item_sold(batch, redis_value_at(value, i));
        } else {
            finish_all(batch, status == INVENTORY_OK ? INVENTORY_UNAVAILABLE : status);
            batch_drop(batch);
        }
        batch = next;
    }
}

/* Where the arguments of a call are put together. */
struct args {
    const char **argv;
    char *numbers;
    int count;
};

static void add_text(struct args *args, const char *text) {
    args->argv[args->count++] = text;
}

static void add_number(struct args *args, int64_t number) {
    add_text(args, args->numbers);
    args->numbers = decimal_append(args->numbers, (uint64_t)number) + 1;
}

static void add_keys(struct args *args, const struct sale_keys *keys, bool events) {
    add_text(args, keys->item);
    add_text(args, keys->orders);
    add_text(args, keys->users);
    add_text(args, keys->holds);
    if (events)
        add_text(args, keys->events);
}

static void add_purchases(struct args *args, const struct batch *batch) {
    add_number(args, batch->count);
    for (int i = 0; i < batch->count; i++)
        add_text(args, batch->purchases[i]->digest);
    for (int i = 0; i < batch->count; i++)
        add_text(args, batch->purchases[i]->user);
    for (int i = 0; i < batch->count; i++)
        add_number(args, batch->purchases[i]->quantity);
}

/* Sends the batches of a call, from the first on. */
static void send_sale(struct batch *first) {
    struct strategies *strategies = first->strategies;
    bool events = strategies->shared->config.events;
    struct args args = {strategies->argv, strategies->numbers, SCRIPT_ARGV};
    for (const struct batch *batch = first; batch; batch = batch->next)
        add_keys(&args, &batch->item->keys, events);
    int keys = args.count - SCRIPT_ARGV;
    add_text(&args, events ? "5" : "4");
    /* If an item has another strategy now, since it was created anew, the reply says so; see
     * start_otherwise(). */
    add_text(&args, inventory_strategy_name(first->flight ? INVENTORY_BATCH : INVENTORY_LUA));
    add_number(&args, first->indexed_ms);
    for (const struct batch *batch = first; batch; batch = batch->next) {
        add_purchases(&args, batch);
        metric_add(&strategies->shared->metrics->batched, (uint64_t)batch->count);
    }
    metric_add(&strategies->shared->metrics->batches, 1);
    router_run(strategies->shared->store, &purchase_script, keys, args.count, args.argv, on_sold, first);
}

/* ---- checks ---- */

/* The three calls of a check stay together on one connection. If a server of a cluster does not carry them
 * out, since the slot moves, the purchases are tried as if there were units. */
static bool can_check(struct batch *batch, const struct redis_value *value) {
    bool error = value && redis_value_type(value) == REDIS_ERROR;
    if (error && !router_is_one(batch->strategies->shared->store)) {
        router_note(batch->strategies->shared->store, batch->checked, value);
        batch->item->sold_out = false;
    }
    if (batch->check == INVENTORY_OK)
        batch->check = store_status(batch->strategies->shared, value);
    return batch->check == INVENTORY_OK;
}

static void on_time(void *ctx, const struct redis_value *value) {
    struct batch *batch = ctx;
    batch->check = INVENTORY_OK;
    if (can_check(batch, value))
        batch->now_ms = store_time_ms(value);
}

static void on_units(void *ctx, const struct redis_value *value) {
    struct batch *batch = ctx;
    batch->available = -1;
    if (!can_check(batch, value) || redis_value_count(value) != 3)
        return;
    batch->available = redis_value_integer(redis_value_at(value, 0), -1);
    batch->empty = terms_judge_time(batch->now_ms, redis_value_integer(redis_value_at(value, 1), 0),
                                    redis_value_integer(redis_value_at(value, 2), 0));
    if (batch->empty == INVENTORY_OK)
        batch->empty = INVENTORY_SOLD_OUT;
}

static void start_again(struct batch *batch) {
    for (int i = 0; i < batch->count; i++)
        purchase_again(batch->purchases[i]);
    batch_drop(batch);
}

static void on_orders(void *ctx, const struct redis_value *value) {
    struct batch *batch = ctx;
    bool good = can_check(batch, value);
    enum inventory_status status = batch->check;
    if (!good && !batch->item->sold_out) {
        start_again(batch);
        return;
    }
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
    struct strategies *strategies = batch->strategies;
    const struct sale_keys *keys = &batch->item->keys;
    struct redis *redis = batch->checked = router_connection(strategies->shared->store, keys->item);
    const char **argv = strategies->argv;
    metric_add(&strategies->shared->metrics->checks, 1);
    if (!redis) {
        finish_all(batch, INVENTORY_UNAVAILABLE);
        batch_drop(batch);
        return;
    }
    argv[0] = "HMGET";
    argv[1] = keys->orders;
    for (int i = 0; i < batch->count; i++)
        argv[2 + i] = batch->purchases[i]->digest;
    redis_callf(redis, on_time, batch, "TIME");
    redis_callf(redis, on_units, batch, "HMGET %s available starts ends", keys->item);
    redis_call(redis, on_orders, batch, 2 + batch->count, argv);
}

/* ---- what leaves ---- */

static bool may_leave(const struct lane *lane) {
    return lane->in_flight == 0 ||
           (lane->in_flight < IN_FLIGHT_MAX && lane->gathered >= lane->in_flight_purchases);
}

/* `item`: it is for this one alone. NULL when out of memory. */
static struct flight *flight_new(struct strategies *strategies, struct lane *lane, struct item *item) {
    struct flight *flight = malloc(sizeof *flight);
    if (!flight)
        return NULL;
    *flight = (struct flight){.strategies = strategies, .lane = lane, .item = item, .open = 1};
    lane->in_flight++;
    if (item)
        item->users++;
    return flight;
}

/* Takes what waits for the item, as far as there is room; NULL: out of memory. */
static struct batch *take(struct strategies *strategies, struct item *item, struct flight *flight) {
    struct batch *batch = batch_new(strategies, item, flight);
    if (!batch)
        return NULL;
    int64_t sent_ms = clock_wall_ms(strategies->shared->config.clock);
    while (!STAILQ_EMPTY(&item->waiting) && flight->purchases < INVENTORY_BATCH_MAX) {
        batch_add(batch, purchase_queue_take(&item->waiting), sent_ms);
        flight->purchases++;
    }
    flight->lane->gathered -= batch->count;
    flight->lane->in_flight_purchases += batch->count;
    return batch;
}

/* The first in line. */
static struct item *take_dirty(struct dirty_items *dirty) {
    struct item *item = STAILQ_FIRST(dirty);
    if (!item)
        return NULL;
    STAILQ_REMOVE_HEAD(dirty, next_dirty);
    item->dirty = false;
    return item;
}

/* Items of one server: those on sale in one call. An item of which more waits than there is room for goes to
 * the end of the line. False: out of memory; what waits is tried again in the next turn. */
static bool send_together(struct strategies *strategies) {
    struct flight *flight = flight_new(strategies, &strategies->lane, NULL);
    struct batch *sale = NULL, **last = &sale, *batch = NULL;
    struct item *item;
    if (!flight)
        return false;
    while (flight->purchases < INVENTORY_BATCH_MAX && (item = take_dirty(&strategies->purchases->dirty))) {
        batch = take(strategies, item, flight);
        if (!STAILQ_EMPTY(&item->waiting))
            item_mark_dirty(strategies->purchases, item);
        if (!batch)
            break;
        if (batch->item->sold_out) {
            send_check(batch);
        } else {
            *last = batch;
            last = &batch->next;
        }
    }
    if (sale)
        send_sale(sale);
    flight_count_down(flight);
    return batch != NULL;
}

/* An item of a cluster. It is dirty again when a flight of it has ended and more waits. */
static bool send_item(struct strategies *strategies, struct item *item) {
    struct flight *flight = flight_new(strategies, &item->lane, item);
    struct batch *batch = flight ? take(strategies, item, flight) : NULL;
    if (batch)
        (item->sold_out ? send_check : send_sale)(batch);
    flight_count_down(flight);
    return batch != NULL;
}

void batch_flush(struct strategies *strategies) {
    struct dirty_items now = STAILQ_HEAD_INITIALIZER(now);
    struct item *item;
    if (router_is_one(strategies->shared->store)) {
        while (!STAILQ_EMPTY(&strategies->purchases->dirty) && may_leave(&strategies->lane) &&
               send_together(strategies)) {
        }
        return;
    }
    STAILQ_CONCAT(&now,
                  &strategies->purchases->dirty); /* what gets dirty from here on waits for the next turn */
    while ((item = take_dirty(&now))) {
        item->users++;
        while (!STAILQ_EMPTY(&item->waiting) && may_leave(&item->lane) && send_item(strategies, item)) {
        }
        items_drop(&strategies->purchases->items, item);
    }
}

static void gather(struct inventory_purchase *purchase) {
    struct strategies *strategies = purchase->strategies;
    struct lane *lane = router_is_one(strategies->shared->store) ? &strategies->lane : &purchase->in->lane;
    STAILQ_INSERT_TAIL(&purchase->in->waiting, purchase, next);
    lane->gathered++;
    item_mark_dirty(strategies->purchases, purchase->in);
}

static void send_alone(struct inventory_purchase *purchase) {
    struct batch *batch = batch_new(purchase->strategies, purchase->in, NULL);
    if (!batch) {
        purchase_finish(purchase, INVENTORY_OVERLOADED);
        return;
    }
    batch_add(batch, purchase, clock_wall_ms(batch->strategies->shared->config.clock));
    (batch->item->sold_out ? send_check : send_sale)(batch);
}

const struct strategy strategy_batch = {.start = gather};
const struct strategy strategy_lua = {.start = send_alone};
