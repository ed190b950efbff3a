/* Strategy `decr`: take the units, look at the sign, give them back where it went below zero.
 *
 * It never oversells, since the decrement is atomic. What is wrong with it: taking and writing the order are
 * two steps, so a crash between them leaves units nowhere; and units that are about to be given back are
 * missing meanwhile, so that somebody can be told "sold out" although units are left, even one whose own key
 * wins them at that moment in another process. */
#include <stdio.h>

#include "inventory/internal.h"

/* The same key was faster: what it took stands. */
static void on_twin(void *ctx, const struct redis_value *value) {
    struct inventory_purchase *purchase = ctx;
    if (store_status(purchase->inventory, value) != INVENTORY_OK)
        look_finish(purchase, INVENTORY_UNKNOWN);
    else if (redis_value_type(value) == REDIS_STRING)
        purchase_found(purchase, redis_value_text(value), 0);
    else
        look_finish(purchase, purchase->look->status);
}

/* What was in the way may have been the same key, sent twice at once. */
static void on_given_back(void *ctx, const struct redis_value *value) {
    struct inventory_purchase *purchase = ctx;
    struct sale_look *look = purchase->look;
    if (store_status(purchase->inventory, value) != INVENTORY_OK ||
        !redis_callv(look->redis, on_twin, purchase, "HGET", purchase->in->keys.orders, purchase->digest,
                     NULL))
        look_finish(purchase, INVENTORY_UNKNOWN);
    else
        redis_flush(look->redis);
}

static void give_back(struct inventory_purchase *purchase, bool user_too) {
    struct sale_look *look = purchase->look;
    const struct sale_keys *keys = &purchase->in->keys;
    char quantity[24], minus[24];
    snprintf(quantity, sizeof quantity, "%lld", (long long)purchase->quantity);
    snprintf(minus, sizeof minus, "%lld", -(long long)purchase->quantity);
    if (user_too)
        redis_callv(look->redis, NULL, NULL, "HINCRBY", keys->users, purchase->user, minus, NULL);
    if (!redis_callv(look->redis, on_given_back, purchase, "HINCRBY", keys->item, "available", quantity,
                     NULL))
        look_finish(purchase, INVENTORY_UNKNOWN);
    else
        redis_flush(look->redis);
}

static void on_entered(void *ctx, const struct redis_value *value) {
    struct inventory_purchase *purchase = ctx;
    struct sale_look *look = purchase->look;
    if (store_status(purchase->inventory, value) != INVENTORY_OK)
        look->status = INVENTORY_UNKNOWN;
    if (--look->pending == 0)
        look_finish(purchase, look->status);
}

static void on_written(void *ctx, const struct redis_value *value) {
    struct inventory_purchase *purchase = ctx;
    struct sale_look *look = purchase->look;
    enum inventory_status status = store_status(purchase->inventory, value);
    if (status != INVENTORY_OK) {
        look_finish(purchase, INVENTORY_UNKNOWN);
        return;
    }
    if (redis_value_integer(value, 0) == 0) {
        look->status = INVENTORY_UNKNOWN;
        give_back(purchase, look->limit > 0);
        return;
    }
    char quantity[24];
    snprintf(quantity, sizeof quantity, "%lld", (long long)purchase->quantity);
    look->status = INVENTORY_OK;
    look->pending = redis_callv(look->redis, on_entered, purchase, "HINCRBY", purchase->in->keys.item,
                                look->hold_ms ? "held" : "sold", quantity, NULL);
    look->pending += look_index(purchase, on_entered);
    look->pending += look_write_entries(purchase, on_entered);
    if (look->pending == 0)
        look_finish(purchase, INVENTORY_UNKNOWN);
    else
        redis_flush(look->redis);
}

static void write_order(struct inventory_purchase *purchase) {
    struct sale_look *look = purchase->look;
    look_record(purchase);
    if (!redis_callv(look->redis, on_written, purchase, "HSETNX", purchase->in->keys.orders, purchase->digest,
                     look->record, NULL))
        look_finish(purchase, INVENTORY_UNKNOWN);
    else
        redis_flush(look->redis);
}

static void on_user(void *ctx, const struct redis_value *value) {
    struct inventory_purchase *purchase = ctx;
    struct sale_look *look = purchase->look;
    if (store_status(purchase->inventory, value) != INVENTORY_OK) {
        look_finish(purchase, INVENTORY_UNKNOWN);
    } else if (redis_value_integer(value, 0) > look->limit) {
        look->status = INVENTORY_LIMIT;
        give_back(purchase, true);
    } else {
        write_order(purchase);
    }
}

static void on_taken(void *ctx, const struct redis_value *value) {
    struct inventory_purchase *purchase = ctx;
    struct sale_look *look = purchase->look;
    enum inventory_status status = store_status(purchase->inventory, value);
    if (status != INVENTORY_OK) {
        look_finish(purchase, status);
        return;
    }
    int64_t left = redis_value_integer(value, -1);
    if (left < 0) {
        look->available = left + purchase->quantity;
        look->status = INVENTORY_SOLD_OUT;
        give_back(purchase, false);
    } else if (look->limit == 0) {
        write_order(purchase);
    } else {
        char quantity[24];
        snprintf(quantity, sizeof quantity, "%lld", (long long)purchase->quantity);
        if (!redis_callv(look->redis, on_user, purchase, "HINCRBY", purchase->in->keys.users, purchase->user,
                         quantity, NULL))
            look_finish(purchase, INVENTORY_UNKNOWN);
        else
            redis_flush(look->redis);
    }
}

static void on_looked(struct inventory_purchase *purchase, enum inventory_status status) {
    struct sale_look *look = purchase->look;
    if (status != INVENTORY_OK) {
        look_finish(purchase, status);
        return;
    }
    char minus[24];
    snprintf(minus, sizeof minus, "%lld", -(long long)purchase->quantity);
    if (!redis_callv(look->redis, on_taken, purchase, "HINCRBY", purchase->in->keys.item, "available", minus,
                     NULL))
        look_finish(purchase, INVENTORY_UNAVAILABLE);
    else
        redis_flush(look->redis);
}

static void start(struct inventory_purchase *purchase) {
    look_begin(purchase, purchase->inventory->redis, INVENTORY_DECR, on_looked);
}

const struct strategy strategy_decr = {.name = "decr", .start = start};
