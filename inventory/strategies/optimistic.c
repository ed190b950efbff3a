/* Strategy `optimistic`: WATCH the item, read it, MULTI ... EXEC; again if the item changed meanwhile.
 *
 * It is right, and slow when it matters: the more buyers there are, the more of them find the item changed. A
 * watch belongs to a connection, so each purchase in flight needs a connection of its own. There are a few;
 * the other purchases wait. In a cluster each of them connects to every server that it needs. While an item's
 * slot moves, its buyers get UNAVAILABLE. */
#include <stdlib.h>
#include <string.h>

#include "inventory/strategies/strategies.h"

enum { CONNECTIONS = 4 };

struct connection {
    struct router *store;
    struct inventory_purchase *purchase; /* the purchase that uses it */
    struct optimistic *of;
};

struct optimistic {
    struct strategies *strategies;
    struct connection connections[CONNECTIONS];
    struct purchase_queue waiting;
};

static void optimistic_attempt(struct connection *connection);

static void optimistic_serve(struct optimistic *optimistic) {
    for (int i = 0; i < CONNECTIONS && !STAILQ_EMPTY(&optimistic->waiting); i++) {
        struct connection *connection = &optimistic->connections[i];
        if (connection->purchase ||
            !router_is_up(connection->store, STAILQ_FIRST(&optimistic->waiting)->in->keys.item))
            continue;
        connection->purchase = purchase_queue_take(&optimistic->waiting);
        optimistic_attempt(connection);
    }
}

static struct connection *optimistic_connection_of(const struct inventory_purchase *purchase) {
    struct connection *connection = purchase->strategies->optimistic->connections;
    while (connection->purchase != purchase)
        connection++;
    return connection;
}

static void optimistic_leave(struct inventory_purchase *purchase, enum inventory_status status) {
    struct optimistic *optimistic = purchase->strategies->optimistic;
    optimistic_connection_of(purchase)->purchase = NULL;
    client_read_finish(purchase, status);
    optimistic_serve(optimistic);
}

/* A refused write discards the transaction; EXEC says only that, not why. */
static void optimistic_on_queued(void *ctx, const struct redis_value *value) {
    struct inventory_purchase *purchase = ctx;
    if (value && redis_value_type(value) == REDIS_ERROR)
        router_note(purchase->read->store, purchase->read->redis, value);
}

static void optimistic_on_executed(void *ctx, const struct redis_value *value) {
    struct inventory_purchase *purchase = ctx;
    struct strategies *strategies = purchase->strategies;
    enum inventory_status status = store_status(strategies->shared, value);
    if (status != INVENTORY_OK || redis_value_type(value) == REDIS_ARRAY) {
        optimistic_leave(purchase, status);
        return;
    }
    metric_add(&strategies->shared->metrics->conflicts, 1);
    if (shared_now_ms(strategies->shared) > purchase->deadline_ms)
        optimistic_leave(purchase, INVENTORY_OVERLOADED);
    else
        optimistic_attempt(optimistic_connection_of(purchase));
}

static void optimistic_on_read(struct inventory_purchase *purchase, enum inventory_status status) {
    struct client_read *read = purchase->read;
    if (read->slot_moved && shared_now_ms(purchase->purchases->shared) <= purchase->deadline_ms) {
        optimistic_attempt(optimistic_connection_of(purchase));
        return;
    }
    if (status != INVENTORY_OK) {
        redis_callf(read->redis, NULL, NULL, "UNWATCH");
        optimistic_leave(purchase, status);
        return;
    }
    redis_callf(read->redis, NULL, NULL, "MULTI");
    client_write(purchase, optimistic_on_queued, read->item.available - purchase->quantity);
    redis_callf(read->redis, optimistic_on_executed, purchase, "EXEC");
}

static void optimistic_attempt(struct connection *connection) {
    struct inventory_purchase *purchase = connection->purchase;
    struct redis *redis = router_connection(connection->store, purchase->in->keys.item);
    if (!redis || !redis_is_up(redis)) { /* it waits for the server that has the item now */
        connection->purchase = NULL;
        STAILQ_INSERT_HEAD(&connection->of->waiting, purchase, next);
        return;
    }
    redis_callf(redis, NULL, NULL, "WATCH %s", purchase->in->keys.item);
    client_read_begin(purchase, connection->store, redis, INVENTORY_OPTIMISTIC, optimistic_on_read);
}

static void optimistic_on_state(void *ctx, bool up) {
    struct connection *connection = ctx;
    if (up)
        optimistic_serve(connection->of);
}

/* Leaves strategies->optimistic NULL when out of memory. */
static void optimistic_open(struct strategies *strategies) {
    struct optimistic *optimistic = strategies->optimistic = calloc(1, sizeof *optimistic);
    if (!optimistic)
        return;
    optimistic->strategies = strategies;
    STAILQ_INIT(&optimistic->waiting);
    for (int i = 0; i < CONNECTIONS; i++) {
        struct connection *connection = &optimistic->connections[i];
        connection->of = optimistic;
        connection->store = router_open_another(strategies->shared->store, optimistic_on_state, connection);
        if (!connection->store) {
            optimistic_close(strategies);
            return;
        }
    }
}

void optimistic_start(struct inventory_purchase *purchase) {
    struct strategies *strategies = purchase->strategies;
    if (!strategies->optimistic)
        optimistic_open(strategies);
    if (!purchase->read)
        purchase->read = calloc(1, sizeof *purchase->read);
    struct optimistic *optimistic = strategies->optimistic;
    if (!optimistic || !purchase->read) {
        purchase_finish(purchase, INVENTORY_OVERLOADED);
        return;
    }
    purchase->deadline_ms = shared_now_ms(strategies->shared) + strategies->shared->config.call_timeout_ms;
    STAILQ_INSERT_TAIL(&optimistic->waiting, purchase, next);
    optimistic_serve(optimistic);
}

void optimistic_tick(struct strategies *strategies) {
    struct optimistic *optimistic = strategies->optimistic;
    int64_t now_ms = shared_now_ms(strategies->shared);
    const struct inventory_purchase *first;
    while (optimistic && (first = STAILQ_FIRST(&optimistic->waiting))) {
        bool late = now_ms > first->deadline_ms;
        if (!late && router_is_up(strategies->shared->store, first->in->keys.item))
            break;
        purchase_finish(purchase_queue_take(&optimistic->waiting),
                        late ? INVENTORY_OVERLOADED : INVENTORY_UNAVAILABLE);
    }
    if (optimistic)
        optimistic_serve(optimistic);
}

void optimistic_close(struct strategies *strategies) {
    struct optimistic *optimistic = strategies->optimistic;
    if (!optimistic)
        return;
    for (struct inventory_purchase *purchase; (purchase = purchase_queue_take(&optimistic->waiting));)
        purchase_finish(purchase, INVENTORY_UNAVAILABLE);
    for (int i = 0; i < CONNECTIONS; i++)
        router_close(optimistic->connections[i].store);
    free(optimistic);
    strategies->optimistic = NULL;
}
