/* Group commit: strategies `batch` and `lua`.
 *
 * Purchases gather in their items' queues, and the items in a lane. There is one lane; in a cluster each part
 * has one, since no call reaches two parts. At the end of each turn of the loop a lane's purchases leave
 * together, as one flight, if none is in flight: one script call for the items on sale, and a check for each
 * item that is sold out. A second flight may leave beside the first, if it is at least as large: the store
 * works on one while the replies and requests of the other are on their way. Each call costs a sync of the
 * append-only file, so the store is not kept busy with small calls. There is no timer: a lone purchase finds
 * nothing in flight and leaves at once. `lua` does not gather: each purchase leaves by itself.
 *
 * A check does not sell: it only reads the units left, the time, and the orders of the keys. It reads the
 * units first, so an order that is not there afterwards was not there when no units were left. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "inventory/strategies/strategies.h"
#include "purchase.lua.h"

enum { IN_FLIGHT_MAX = 2, ALONE_MS = 10000 };

static const struct redis_script purchase_script = {purchase_lua, purchase_lua_sha1};

/* The calls that left together. */
struct flight {
    struct lane *lane;
    int open;      /* batches whose replies are still to come, and 1 until all is sent */
    int purchases; /* in it */
};

/* The purchases of one item in a call. */
struct batch {
    struct batch *next; /* the next item's in the call; or in the list of spare ones */
    struct strategies *strategies;
    struct flight *flight; /* NULL: the batch left by itself */
    struct item *item;
    int64_t now_ms;              /* by the store's clock */
    int64_t available;           /* of a check: the units left; -1: there is no such item */
    struct redis *checked;       /* of a check: the server that it asks */
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
    batch->count = 0;
    item->refs++;
    if (flight)
        flight->open++;
    return batch;
}

static void batch_add(struct batch *batch, struct inventory_purchase *purchase, int64_t sent_ms) {
    purchase->sent_ms = sent_ms;
    batch->purchases[batch->count++] = purchase;
}

/* A batch of the flight is done, or all of it was sent. */
static void flight_count_down(struct flight *flight) {
    if (!flight || --flight->open > 0)
        return;
    flight->lane->in_flight--;
    flight->lane->in_flight_purchases -= flight->purchases;
    free(flight);
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

static void batch_finish_all(struct batch *batch, enum inventory_status status) {
    for (int i = 0; i < batch->count; i++) {
        if (status == INVENTORY_UNKNOWN)
            purchase_lost(batch->purchases[i]);
        else
            purchase_finish(batch->purchases[i], status);
    }
}

/* The item's terms differ from those that this process took for granted. */
static void batch_start_otherwise(struct batch *batch, const char *terms) {
    struct inventory_item item;
    bool refused = !terms || !item_terms_read(&item, terms) ||
                   (inventory_strategy_teaches(item.strategy) && !batch->strategies->shared->config.teaching);
    if (refused) {
        batch_finish_all(batch, INVENTORY_REFUSED);
        return;
    }
    batch->item->strategy = item.strategy;
    batch->item->has_limit = item.limit > 0;
    batch->item->has_holds = item.hold_ms > 0;
    for (int i = 0; i < batch->count; i++)
        purchase_again(batch->purchases[i]);
}

/* `result` is NULL if all were sold. */
static void batch_finish_one(struct batch *batch, struct inventory_purchase *purchase,
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

/* The item failed; see 'failed' in purchase.lua. */
static void batch_fail(struct batch *batch, const struct redis_value *value) {
    struct shared *shared = batch->strategies->shared;
    const char *error = redis_value_text(redis_value_at(value, 1));
    bool written = redis_value_integer(redis_value_at(value, 2), 1) > 0;
    metric_add(&shared->metrics->store_errors, 1);
    snprintf(shared->error, sizeof shared->error, "item %s: %s", batch->item->name, error ? error : "");
    batch_finish_all(batch, written ? INVENTORY_UNKNOWN : INVENTORY_UNAVAILABLE);
}

/* The item's part of a reply. */
static void batch_on_item_sold(struct batch *batch, const struct redis_value *value) {
    size_t count = redis_value_count(value);
    const struct redis_value *first = count ? redis_value_at(value, 0) : value;
    const char *word = redis_value_text(first);
    bool number = redis_value_type(first) == REDIS_INTEGER;
    if (number && (count == 0 || count == 2 || count == (size_t)batch->count + 2)) {
        batch->available = redis_value_integer(first, 0);
        batch->item->sold_out = batch->available == 0;
        int64_t hold_until_ms = count ? redis_value_integer(redis_value_at(value, 1), 0) : 0;
        for (int i = 0; i < batch->count; i++)
            batch_finish_one(batch, batch->purchases[i],
                             count > 2 ? redis_value_at(value, (size_t)i + 2) : NULL, hold_until_ms);
    } else if (word && count == 2) {
        batch_start_otherwise(batch, redis_value_text(redis_value_at(value, 1)));
    } else if (word && count == 3) {
        batch_fail(batch, value);
    } else {
        batch_finish_all(batch, word ? INVENTORY_UNKNOWN_ITEM : INVENTORY_UNAVAILABLE);
    }
    batch_drop(batch);
}

static void batch_start_again(struct batch *batch) {
    for (int i = 0; i < batch->count; i++)
        purchase_again(batch->purchases[i]);
    batch_drop(batch);
}

/* A slot of a cluster moves, and the call's items are on both servers (TRYAGAIN). For a while each of the
 * lane's items gets calls of its own, which go to the right server. */
static bool batch_split_call(struct batch *first, const struct redis_value *value) {
    const char *error = value ? redis_value_error(value) : NULL;
    if (!error || !first->next || strncmp(error, "TRYAGAIN", 8) != 0)
        return false;
    first->flight->lane->alone_until_ms = shared_now_ms(first->strategies->shared) + ALONE_MS;
    for (struct batch *next; first; first = next) {
        next = first->next;
        batch_start_again(first);
    }
    return true;
}

static void batch_on_sold(void *ctx, const struct redis_value *value) {
    struct batch *batch = ctx;
    enum inventory_status status = store_status(batch->strategies->shared, value);
    int64_t now_ms = 0;
    if (batch_split_call(batch, value))
        return;
    if (status == INVENTORY_OK && redis_value_count(value) > 0)
        now_ms = redis_value_integer(redis_value_at(value, 0), 0);
    for (size_t i = 1; batch; i++) {
        struct batch *next = batch->next;
        batch->next = NULL;
        batch->now_ms = now_ms;
        if (status == INVENTORY_OK && i < redis_value_count(value)) {
            batch_on_item_sold(batch, redis_value_at(value, i));
        } else {
            batch_finish_all(batch, status == INVENTORY_OK ? INVENTORY_UNAVAILABLE : status);
            batch_drop(batch);
        }
        batch = next;
    }
}

/* The arguments of a call, while they are put together. */
struct args {
    const char **argv;
    char *texts; /* where the next made text is written */
    int count;
};

static void batch_add_text(struct args *args, const char *text) {
    args->argv[args->count++] = text;
}

static void batch_add_number(struct args *args, int64_t number) {
    batch_add_text(args, args->texts);
    args->texts = decimal_append(args->texts, (uint64_t)number) + 1;
}

static void batch_add_keys(struct args *args, const struct item *item, bool events) {
    batch_add_text(args, item->keys.item);
    if (item->has_holds) {
        batch_add_text(args, item->keys.holds);
        batch_add_text(args, item->keys.due);
    }
    if (events)
        batch_add_text(args, item->keys.events);
}

static void batch_add_purchases(struct args *args, const struct batch *batch, bool each) {
    batch_add_number(args, 4 * batch->count + 2 * batch->item->has_limit + batch->item->has_holds);
    for (int i = 0; i < batch->count; i++)
        batch_add_text(args, batch->purchases[i]->digest);
    for (int i = 0; i < batch->count; i++) {
        const char *user = batch->purchases[i]->user;
        if (!batch->item->has_limit) {
            batch_add_text(args, user);
            continue;
        }
        batch_add_text(args, args->texts);
        args->texts = stpcpy(stpcpy(args->texts, USER_FIELD), user) + 1;
    }
    for (int i = 0; each && i < batch->count; i++)
        batch_add_number(args, batch->purchases[i]->quantity);
}

/* Whether each purchase is for one unit, as most are: then the call has no quantities. */
static bool batch_is_of_ones(const struct batch *batch) {
    for (; batch; batch = batch->next) {
        for (int i = 0; i < batch->count; i++) {
            if (batch->purchases[i]->quantity != 1)
                return false;
        }
    }
    return true;
}

/* Sends the batches of a call, from the first on. */
static void batch_send_sale(struct batch *first) {
    struct strategies *strategies = first->strategies;
    bool events = strategies->shared->config.events, each = !batch_is_of_ones(first);
    struct args args = {strategies->argv, strategies->texts, SCRIPT_ARGV};
    for (const struct batch *batch = first; batch; batch = batch->next)
        batch_add_keys(&args, batch->item, events);
    int keys = args.count - SCRIPT_ARGV;
    /* If an item was created anew with another strategy, the reply says so; see batch_start_otherwise(). */
    batch_add_text(&args, inventory_strategy_name(first->flight ? INVENTORY_BATCH : INVENTORY_LUA));
    batch_add_text(&args, events ? "on" : "off");
    batch_add_text(&args, each ? "each" : "ones");
    for (const struct batch *batch = first; batch; batch = batch->next) {
        batch_add_purchases(&args, batch, each);
        metric_add(&strategies->shared->metrics->batched, (uint64_t)batch->count);
    }
    metric_add(&strategies->shared->metrics->batches, 1);
    router_run(strategies->shared->store, &purchase_script, keys, args.count, args.argv, batch_on_sold,
               first);
}

/* ---- checks ---- */

/* The three calls of a check stay together on one connection. If a server of a cluster refuses them since the
 * slot moves, the purchases are tried as if there were units. */
static bool batch_can_check(struct batch *batch, const struct redis_value *value) {
    bool error = value && redis_value_type(value) == REDIS_ERROR;
    if (error && !router_is_one(batch->strategies->shared->store)) {
        router_note(batch->strategies->shared->store, batch->checked, value);
        batch->item->sold_out = false;
    }
    if (batch->check == INVENTORY_OK)
        batch->check = store_status(batch->strategies->shared, value);
    return batch->check == INVENTORY_OK;
}

static void batch_on_time(void *ctx, const struct redis_value *value) {
    struct batch *batch = ctx;
    batch->check = INVENTORY_OK;
    if (batch_can_check(batch, value))
        batch->now_ms = store_time_ms(value);
}

static void batch_on_units(void *ctx, const struct redis_value *value) {
    struct batch *batch = ctx;
    struct inventory_item item;
    batch->available = -1;
    if (!batch_can_check(batch, value) || !item_read(&item, batch->item->name, value))
        return;
    batch->available = item.available;
    batch->empty = terms_judge_time(batch->now_ms, item.starts_ms, item.ends_ms);
    if (batch->empty == INVENTORY_OK)
        batch->empty = INVENTORY_SOLD_OUT;
}

static void batch_on_orders(void *ctx, const struct redis_value *value) {
    struct batch *batch = ctx;
    bool good = batch_can_check(batch, value);
    enum inventory_status status = batch->check;
    if (!good && !batch->item->sold_out) {
        batch_start_again(batch);
        return;
    }
    if (status == INVENTORY_UNKNOWN)
        status = INVENTORY_UNAVAILABLE; /* it was only a read */
    else if (status == INVENTORY_OK && batch->available < 0)
        status = INVENTORY_UNKNOWN_ITEM;
    if (status != INVENTORY_OK || redis_value_count(value) != (size_t)batch->count) {
        batch_finish_all(batch, status == INVENTORY_OK ? INVENTORY_UNAVAILABLE : status);
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

static void batch_send_check(struct batch *batch) {
    struct strategies *strategies = batch->strategies;
    const struct sale_keys *keys = &batch->item->keys;
    struct redis *redis = batch->checked = router_connection(strategies->shared->store, keys->item);
    const char **argv = strategies->argv;
    metric_add(&strategies->shared->metrics->checks, 1);
    if (!redis) {
        batch_finish_all(batch, INVENTORY_UNAVAILABLE);
        batch_drop(batch);
        return;
    }
    redis_callf(redis, batch_on_time, batch, "TIME");
    item_command(argv, keys->item);
    redis_call(redis, batch_on_units, batch, ITEM_ARGC, argv);
    for (int i = 0; i < batch->count; i++)
        argv[2 + i] = batch->purchases[i]->digest; /* after HMGET and the key */
    redis_call(redis, batch_on_orders, batch, 2 + batch->count, argv);
}

/* ---- what leaves ---- */

static bool batch_may_leave(const struct lane *lane) {
    return lane->in_flight == 0 ||
           (lane->in_flight < IN_FLIGHT_MAX && lane->gathered >= lane->in_flight_purchases);
}

/* A batch of the purchases that wait for the item, as far as the flight has room; NULL: out of memory. */
static struct batch *batch_take(struct strategies *strategies, struct item *item, struct flight *flight) {
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

/* Sends one flight, with the items on sale in one call. An item with more purchases than there is room for
 * goes to the end of the line. False: out of memory; the next turn tries again. */
static bool batch_send_flight(struct strategies *strategies, struct lane *lane) {
    struct flight *flight = malloc(sizeof *flight);
    struct batch *sale = NULL, **last = &sale, *batch = NULL;
    struct item *item;
    if (!flight)
        return false;
    *flight = (struct flight){.lane = lane, .open = 1};
    lane->in_flight++;
    bool alone = shared_now_ms(strategies->shared) < lane->alone_until_ms;
    while (flight->purchases < INVENTORY_BATCH_MAX && !(alone && batch) && (item = lane_take(lane))) {
        batch = batch_take(strategies, item, flight);
        if (!STAILQ_EMPTY(&item->waiting))
            lane_add(lane, item);
        if (!batch)
            break;
        if (batch->item->sold_out) {
            batch_send_check(batch);
        } else {
            *last = batch;
            last = &batch->next;
        }
    }
    if (sale)
        batch_send_sale(sale);
    flight_count_down(flight);
    return batch;
}

void batch_flush(struct strategies *strategies) {
    int lanes = router_is_one(strategies->shared->store) ? 1 : ITEM_PARTS;
    for (int i = 0; i < lanes; i++) {
        struct lane *lane = &strategies->purchases->lanes[i];
        while (!STAILQ_EMPTY(&lane->dirty) && batch_may_leave(lane) && batch_send_flight(strategies, lane)) {
        }
    }
}

void batch_start(struct inventory_purchase *purchase) {
    struct lane *lane = lane_of(purchase->purchases, purchase->in);
    STAILQ_INSERT_TAIL(&purchase->in->waiting, purchase, next);
    lane->gathered++;
    lane_add(lane, purchase->in);
}

void batch_start_alone(struct inventory_purchase *purchase) {
    struct batch *batch = batch_new(purchase->strategies, purchase->in, NULL);
    if (!batch) {
        purchase_finish(purchase, INVENTORY_OVERLOADED);
        return;
    }
    batch_add(batch, purchase, clock_wall_ms(batch->strategies->shared->config.clock));
    (batch->item->sold_out ? batch_send_check : batch_send_sale)(batch);
}
