/* Strategy `decr`: debit the units, and refund them if the result is negative.
 *
 * It never oversells, since the decrement is atomic. Two things are wrong with it. The debit and the order
 * are two steps, so a crash between them leaves units nowhere. And units that are about to be refunded are
 * missing meanwhile: somebody can be told "sold out" although units are left, even a buyer whose own key wins
 * them at that moment in another process; and a late confirm (settle.lua), which is final, can find none. */
#include "inventory/strategies/strategies.h"

/* Another attempt with the same key was faster: its order stands. */
static void decr_on_twin(void *ctx, const struct redis_value *value) {
    struct inventory_purchase *purchase = ctx;
    if (store_status(purchase->purchases->shared, value) != INVENTORY_OK)
        client_read_finish(purchase, INVENTORY_UNKNOWN);
    else if (redis_value_type(value) == REDIS_STRING)
        purchase_found(purchase, redis_value_text(value), 0);
    else
        client_read_finish(purchase, purchase->read->status);
}

/* The refusal may be due to another attempt with the same key. */
static void decr_on_refunded(void *ctx, const struct redis_value *value) {
    struct inventory_purchase *purchase = ctx;
    if (store_status(purchase->purchases->shared, value) != INVENTORY_OK)
        client_read_finish(purchase, INVENTORY_UNKNOWN);
    else
        client_callf(purchase, decr_on_twin, "HGET %s %s", purchase->in->keys.item, purchase->digest);
}

static void decr_refund(struct inventory_purchase *purchase, bool user_too) {
    const struct sale_keys *keys = &purchase->in->keys;
    long long quantity = purchase->quantity;
    if (user_too)
        client_callf(purchase, NULL, "HINCRBY %s " USER_FIELD "%s %lld", keys->item, purchase->user,
                     -quantity);
    client_callf(purchase, decr_on_refunded, "HINCRBY %s available %lld", keys->item, quantity);
}

static void decr_count_down(struct inventory_purchase *purchase) {
    if (--purchase->read->pending == 0)
        client_read_finish(purchase, purchase->read->status);
}

static void decr_on_entered(void *ctx, const struct redis_value *value) {
    struct inventory_purchase *purchase = ctx;
    if (store_status(purchase->purchases->shared, value) != INVENTORY_OK)
        purchase->read->status = INVENTORY_UNKNOWN;
    decr_count_down(purchase);
}

/* The order is written. */
static void decr_write_rest(struct inventory_purchase *purchase) {
    struct client_read *read = purchase->read;
    read->status = INVENTORY_OK;
    read->pending = 2;
    client_callf(purchase, decr_on_entered, "HINCRBY %s %s %lld", purchase->in->keys.item,
                 read->item.hold_ms ? "held" : "sold", (long long)purchase->quantity);
    client_write_entries(purchase, decr_on_entered);
    decr_count_down(purchase);
}

static void decr_on_written(void *ctx, const struct redis_value *value) {
    struct inventory_purchase *purchase = ctx;
    struct client_read *read = purchase->read;
    enum inventory_status status = store_status(purchase->purchases->shared, value);
    if (status != INVENTORY_OK) {
        client_read_finish(purchase, INVENTORY_UNKNOWN);
        return;
    }
    if (redis_value_integer(value, 0) == 0) {
        read->status = INVENTORY_UNKNOWN;
        decr_refund(purchase, read->item.limit > 0);
        return;
    }
    decr_write_rest(purchase);
}

static void decr_write_order(struct inventory_purchase *purchase) {
    client_print_record(purchase);
    client_callf(purchase, decr_on_written, "HSETNX %s %s %s", purchase->in->keys.item, purchase->digest,
                 purchase->read->record);
}

static void decr_on_user(void *ctx, const struct redis_value *value) {
    struct inventory_purchase *purchase = ctx;
    struct client_read *read = purchase->read;
    if (store_status(purchase->purchases->shared, value) != INVENTORY_OK) {
        client_read_finish(purchase, INVENTORY_UNKNOWN);
    } else if (redis_value_integer(value, 0) > read->item.limit) {
        read->status = INVENTORY_LIMIT;
        decr_refund(purchase, true);
    } else {
        decr_write_order(purchase);
    }
}

static void decr_on_taken(void *ctx, const struct redis_value *value) {
    struct inventory_purchase *purchase = ctx;
    struct client_read *read = purchase->read;
    enum inventory_status status = store_status(purchase->purchases->shared, value);
    if (status != INVENTORY_OK) {
        client_read_finish(purchase, status);
        return;
    }
    int64_t left = redis_value_integer(value, -1);
    if (left < 0) {
        read->item.available = left + purchase->quantity;
        read->status = INVENTORY_SOLD_OUT;
        decr_refund(purchase, false);
    } else if (read->item.limit == 0) {
        decr_write_order(purchase);
    } else {
        client_callf(purchase, decr_on_user, "HINCRBY %s " USER_FIELD "%s %lld", purchase->in->keys.item,
                     purchase->user, (long long)purchase->quantity);
    }
}

static void decr_on_read(struct inventory_purchase *purchase, enum inventory_status status) {
    if (status != INVENTORY_OK)
        client_read_finish(purchase, status);
    else
        client_callf(purchase, decr_on_taken, "HINCRBY %s available %lld", purchase->in->keys.item,
                     -(long long)purchase->quantity);
}

void decr_start(struct inventory_purchase *purchase) {
    client_read_begin(purchase, NULL, NULL, INVENTORY_DECR, decr_on_read);
}
