/* Strategy `decr`: debit the units, and refund them if the result is negative.
 *
 * It never oversells, since the decrement is atomic. Two things are wrong with it. The debit and the order
 * are two steps, so a crash between them leaves units nowhere. And units that are about to be refunded are
 * missing meanwhile: somebody can be told "sold out" although units are left, even a buyer whose own key wins
 * them at that moment in another process. */
#include <stdio.h>

#include "inventory/store/status.h"
#include "inventory/strategies/client_side.h"
#include "inventory/strategies/strategies.h"

/* Another attempt with the same key was faster: its order stands. */
static void on_twin(void *ctx, const struct redis_value *value) {
    struct inventory_purchase *purchase = ctx;
    if (store_status(purchase->inventory, value) != INVENTORY_OK)
        client_read_finish(purchase, INVENTORY_UNKNOWN);
    else if (redis_value_type(value) == REDIS_STRING)
        purchase_found(purchase, redis_value_text(value), 0);
    else
        client_read_finish(purchase, purchase->read->status);
}

/* The refusal may be due to another attempt with the same key. */
static void on_refunded(void *ctx, const struct redis_value *value) {
    struct inventory_purchase *purchase = ctx;
    struct client_read *read = purchase->read;
    if (store_status(purchase->inventory, value) != INVENTORY_OK ||
        !redis_callv(read->redis, on_twin, purchase, "HGET", purchase->in->keys.orders, purchase->digest,
                     NULL))
        client_read_finish(purchase, INVENTORY_UNKNOWN);
    else
        redis_flush(read->redis);
}

static void refund(struct inventory_purchase *purchase, bool user_too) {
    struct client_read *read = purchase->read;
    const struct sale_keys *keys = &purchase->in->keys;
    char quantity[24], minus[24];
    snprintf(quantity, sizeof quantity, "%lld", (long long)purchase->quantity);
    snprintf(minus, sizeof minus, "%lld", -(long long)purchase->quantity);
    if (user_too)
        redis_callv(read->redis, NULL, NULL, "HINCRBY", keys->users, purchase->user, minus, NULL);
    if (!redis_callv(read->redis, on_refunded, purchase, "HINCRBY", keys->item, "available", quantity, NULL))
        client_read_finish(purchase, INVENTORY_UNKNOWN);
    else
        redis_flush(read->redis);
}

static void on_entered(void *ctx, const struct redis_value *value) {
    struct inventory_purchase *purchase = ctx;
    struct client_read *read = purchase->read;
    if (store_status(purchase->inventory, value) != INVENTORY_OK)
        read->status = INVENTORY_UNKNOWN;
    if (--read->pending == 0)
        client_read_finish(purchase, read->status);
}

static void on_written(void *ctx, const struct redis_value *value) {
    struct inventory_purchase *purchase = ctx;
    struct client_read *read = purchase->read;
    enum inventory_status status = store_status(purchase->inventory, value);
    if (status != INVENTORY_OK) {
        client_read_finish(purchase, INVENTORY_UNKNOWN);
        return;
    }
    if (redis_value_integer(value, 0) == 0) {
        read->status = INVENTORY_UNKNOWN;
        refund(purchase, read->limit > 0);
        return;
    }
    char quantity[24];
    snprintf(quantity, sizeof quantity, "%lld", (long long)purchase->quantity);
    read->status = INVENTORY_OK;
    read->pending = redis_callv(read->redis, on_entered, purchase, "HINCRBY", purchase->in->keys.item,
                                read->hold_ms ? "held" : "sold", quantity, NULL);
    read->pending += client_touch_index(purchase, on_entered);
    read->pending += client_write_entries(purchase, on_entered);
    if (read->pending == 0)
        client_read_finish(purchase, INVENTORY_UNKNOWN);
    else
        redis_flush(read->redis);
}

static void write_order(struct inventory_purchase *purchase) {
    struct client_read *read = purchase->read;
    client_print_record(purchase);
    if (!redis_callv(read->redis, on_written, purchase, "HSETNX", purchase->in->keys.orders, purchase->digest,
                     read->record, NULL))
        client_read_finish(purchase, INVENTORY_UNKNOWN);
    else
        redis_flush(read->redis);
}

static void on_user(void *ctx, const struct redis_value *value) {
    struct inventory_purchase *purchase = ctx;
    struct client_read *read = purchase->read;
    if (store_status(purchase->inventory, value) != INVENTORY_OK) {
        client_read_finish(purchase, INVENTORY_UNKNOWN);
    } else if (redis_value_integer(value, 0) > read->limit) {
        read->status = INVENTORY_LIMIT;
        refund(purchase, true);
    } else {
        write_order(purchase);
    }
}

static void on_taken(void *ctx, const struct redis_value *value) {
    struct inventory_purchase *purchase = ctx;
    struct client_read *read = purchase->read;
    enum inventory_status status = store_status(purchase->inventory, value);
    if (status != INVENTORY_OK) {
        client_read_finish(purchase, status);
        return;
    }
    int64_t left = redis_value_integer(value, -1);
    if (left < 0) {
        read->available = left + purchase->quantity;
        read->status = INVENTORY_SOLD_OUT;
        refund(purchase, false);
    } else if (read->limit == 0) {
        write_order(purchase);
    } else {
        char quantity[24];
        snprintf(quantity, sizeof quantity, "%lld", (long long)purchase->quantity);
        if (!redis_callv(read->redis, on_user, purchase, "HINCRBY", purchase->in->keys.users, purchase->user,
                         quantity, NULL))
            client_read_finish(purchase, INVENTORY_UNKNOWN);
        else
            redis_flush(read->redis);
    }
}

static void on_read(struct inventory_purchase *purchase, enum inventory_status status) {
    struct client_read *read = purchase->read;
    if (status != INVENTORY_OK) {
        client_read_finish(purchase, status);
        return;
    }
    char minus[24];
    snprintf(minus, sizeof minus, "%lld", -(long long)purchase->quantity);
    if (!redis_callv(read->redis, on_taken, purchase, "HINCRBY", purchase->in->keys.item, "available", minus,
                     NULL))
        client_read_finish(purchase, INVENTORY_UNAVAILABLE);
    else
        redis_flush(read->redis);
}

static void start(struct inventory_purchase *purchase) {
    client_read_begin(purchase, purchase->inventory->redis, INVENTORY_DECR, on_read);
}

const struct strategy strategy_decr = {.start = start};
