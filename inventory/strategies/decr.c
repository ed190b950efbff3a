/* Strategy `decr`: debit the units, and refund them if the result is negative.
 *
 * It never oversells, since the decrement is atomic. Two things are wrong with it. The debit and the order
 * are two steps, so a crash between them leaves units nowhere. And units that are about to be refunded are
 * missing meanwhile: somebody can be told "sold out" although units are left, even a buyer whose own key wins
 * them at that moment in another process. */
#include "inventory/store/shared.h"
#include "inventory/strategies/client_side.h"
#include "inventory/strategies/strategies.h"

/* Another attempt with the same key was faster: its order stands. */
static void on_twin(void *ctx, const struct redis_value *value) {
    struct inventory_purchase *purchase = ctx;
    if (store_status(purchase->purchases->shared, value) != INVENTORY_OK)
        client_read_finish(purchase, INVENTORY_UNKNOWN);
    else if (redis_value_type(value) == REDIS_STRING)
        purchase_found(purchase, redis_value_text(value), 0);
    else
        client_read_finish(purchase, purchase->read->status);
}

/* The refusal may be due to another attempt with the same key. */
static void on_refunded(void *ctx, const struct redis_value *value) {
    struct inventory_purchase *purchase = ctx;
    if (store_status(purchase->purchases->shared, value) != INVENTORY_OK)
        client_read_finish(purchase, INVENTORY_UNKNOWN);
    else
        client_callf(purchase, on_twin, "HGET %s %s", purchase->in->keys.orders, purchase->digest);
}

static void refund(struct inventory_purchase *purchase, bool user_too) {
    const struct sale_keys *keys = &purchase->in->keys;
    long long quantity = purchase->quantity;
    if (user_too)
        client_callf(purchase, NULL, "HINCRBY %s %s %lld", keys->users, purchase->user, -quantity);
    client_callf(purchase, on_refunded, "HINCRBY %s available %lld", keys->item, quantity);
}

static void count_down(struct inventory_purchase *purchase) {
    if (--purchase->read->pending == 0)
        client_read_finish(purchase, purchase->read->status);
}

static void on_entered(void *ctx, const struct redis_value *value) {
    struct inventory_purchase *purchase = ctx;
    if (store_status(purchase->purchases->shared, value) != INVENTORY_OK)
        purchase->read->status = INVENTORY_UNKNOWN;
    count_down(purchase);
}

/* The order is written: whether the touch failed or not, the rest follows. */
static void on_touched(struct inventory_purchase *purchase, enum inventory_status status) {
    struct client_read *read = purchase->read;
    read->status = status == INVENTORY_OK ? INVENTORY_OK : INVENTORY_UNKNOWN;
    read->pending = 2;
    client_callf(purchase, on_entered, "HINCRBY %s %s %lld", purchase->in->keys.item,
                 read->item.hold_ms ? "held" : "sold", (long long)purchase->quantity);
    client_write_entries(purchase, on_entered);
    count_down(purchase);
}

static void on_written(void *ctx, const struct redis_value *value) {
    struct inventory_purchase *purchase = ctx;
    struct client_read *read = purchase->read;
    enum inventory_status status = store_status(purchase->purchases->shared, value);
    if (status != INVENTORY_OK) {
        client_read_finish(purchase, INVENTORY_UNKNOWN);
        return;
    }
    if (redis_value_integer(value, 0) == 0) {
        read->status = INVENTORY_UNKNOWN;
        refund(purchase, read->item.limit > 0);
        return;
    }
    client_touch_index(purchase, on_touched);
}

static void write_order(struct inventory_purchase *purchase) {
    client_print_record(purchase);
    client_callf(purchase, on_written, "HSETNX %s %s %s", purchase->in->keys.orders, purchase->digest,
                 purchase->read->record);
}

static void on_user(void *ctx, const struct redis_value *value) {
    struct inventory_purchase *purchase = ctx;
    struct client_read *read = purchase->read;
    if (store_status(purchase->purchases->shared, value) != INVENTORY_OK) {
        client_read_finish(purchase, INVENTORY_UNKNOWN);
    } else if (redis_value_integer(value, 0) > read->item.limit) {
        read->status = INVENTORY_LIMIT;
        refund(purchase, true);
    } else {
        write_order(purchase);
    }
}

static void on_taken(void *ctx, const struct redis_value *value) {
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
        refund(purchase, false);
    } else if (read->item.limit == 0) {
        write_order(purchase);
    } else {
        client_callf(purchase, on_user, "HINCRBY %s %s %lld", purchase->in->keys.users, purchase->user,
                     (long long)purchase->quantity);
    }
}

static void on_read(struct inventory_purchase *purchase, enum inventory_status status) {
    if (status != INVENTORY_OK)
        client_read_finish(purchase, status);
    else
        client_callf(purchase, on_taken, "HINCRBY %s available %lld", purchase->in->keys.item,
                     -(long long)purchase->quantity);
}

static void start(struct inventory_purchase *purchase) {
    client_read_begin(purchase, INVENTORY_DECR, on_read);
}

const struct strategy strategy_decr = {.start = start};
