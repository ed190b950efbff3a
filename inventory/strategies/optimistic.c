/* Strategy `optimistic`: WATCH the item, read it, MULTI ... EXEC; again if the item changed meanwhile.
 *
 * It is right, and slow when it matters: the more buyers there are, the more of them find the item changed. A
 * watch belongs to a connection, so each purchase in flight needs a connection of its own. There are a few;
 * the other purchases wait. In a cluster each is one to every server that it needs; while the item's slot
 * moves its buyers are told that the store is unavailable. */
#include <stdlib.h>
#include <string.h>

#include "inventory/store/shared.h"
#include "inventory/strategies/client_side.h"
#include "inventory/strategies/strategies.h"

enum { CONNECTIONS = 4 };

struct connection {
    struct router *store;
    struct inventory_purchase *purchase; /* that uses it */
    bool touched;                        /* the item's entry in the index of due times, for this attempt */
    struct optimistic *of;
};

struct optimistic {
    struct strategies *strategies;
    struct connection connections[CONNECTIONS];
    struct purchase_queue waiting;
};

static void attempt(struct connection *connection);

static void serve(struct optimistic *optimistic) {
    for (int i = 0; i < CONNECTIONS && !STAILQ_EMPTY(&optimistic->waiting); i++) {
        struct connection *connection = &optimistic->connections[i];
        if (connection->purchase ||
            !router_is_up(connection->store, STAILQ_FIRST(&optimistic->waiting)->item))
            continue;
        connection->purchase = purchase_queue_take(&optimistic->waiting);
        connection->touched = false;
        attempt(connection);
    }
}

static struct connection *connection_of(const struct inventory_purchase *purchase) {
    struct connection *connection = purchase->strategies->optimistic->connections;
    while (connection->purchase != purchase)
        connection++;
    return connection;
}

static void leave(struct inventory_purchase *purchase, enum inventory_status status) {
    struct optimistic *optimistic = purchase->strategies->optimistic;
    connection_of(purchase)->purchase = NULL;
    client_read_finish(purchase, status);
    serve(optimistic);
}

/* A write that is refused discards the transaction: EXEC only says that. */
static void on_queued(void *ctx, const struct redis_value *value) {
    struct inventory_purchase *purchase = ctx;
    if (value && redis_value_type(value) == REDIS_ERROR)
        router_note(purchase->read->store, purchase->read->redis, value);
}

/* `touched`: the entry in the index is, for a hold that follows at once. */
static void start_anew(struct inventory_purchase *purchase, enum inventory_status status, bool touched) {
    connection_of(purchase)->touched = touched;
    if (status == INVENTORY_OK)
        attempt(connection_of(purchase));
    else
        leave(purchase, status);
}

static void on_executed(void *ctx, const struct redis_value *value) {
    struct inventory_purchase *purchase = ctx;
    struct strategies *strategies = purchase->strategies;
    enum inventory_status status = store_status(strategies->shared, value);
    if (status != INVENTORY_OK || redis_value_type(value) == REDIS_ARRAY) {
        leave(purchase, status);
        return;
    }
    metric_add(&strategies->shared->metrics->conflicts, 1);
    if (clock_mono_ms(strategies->shared->config.clock) > purchase->deadline_ms)
        leave(purchase, INVENTORY_OVERLOADED);
    else
        start_anew(purchase, INVENTORY_OK, false);
}

/* The entry in the index is touched by another connection. A watch may have ended meanwhile, so all is read
 * again. */
static void on_touched(struct inventory_purchase *purchase, enum inventory_status status) {
    start_anew(purchase, status, true);
}

static void on_read(struct inventory_purchase *purchase, enum inventory_status status) {
    struct client_read *read = purchase->read;
    if (read->slot_moved &&
        clock_mono_ms(purchase->purchases->shared->config.clock) <= purchase->deadline_ms) {
        start_anew(purchase, INVENTORY_OK, false);
        return;
    }
    if (status != INVENTORY_OK) {
        redis_callf(read->redis, NULL, NULL, "UNWATCH");
        leave(purchase, status);
        return;
    }
    if (read->item.hold_ms && !connection_of(purchase)->touched) {
        redis_callf(read->redis, NULL, NULL, "UNWATCH");
        client_touch_index(purchase, on_touched);
        return;
    }
    redis_callf(read->redis, NULL, NULL, "MULTI");
    client_write(purchase, on_queued, read->item.available - purchase->quantity);
    redis_callf(read->redis, on_executed, purchase, "EXEC");
}

static void attempt(struct connection *connection) {
    struct inventory_purchase *purchase = connection->purchase;
    struct redis *redis = router_connection(connection->store, purchase->item);
    if (!redis || !redis_is_up(redis)) { /* it waits for the server that has the item by now */
        connection->purchase = NULL;
        STAILQ_INSERT_HEAD(&connection->of->waiting, purchase, next);
        return;
    }
    redis_callf(redis, NULL, NULL, "WATCH %s", purchase->in->keys.item);
    client_read_over(purchase, connection->store, redis, INVENTORY_OPTIMISTIC, on_read);
}

static void on_state(void *ctx, bool up) {
    struct connection *connection = ctx;
    if (up)
        serve(connection->of);
}

static struct optimistic *optimistic_open(struct strategies *strategies) {
    struct optimistic *optimistic = calloc(1, sizeof *optimistic);
    if (!optimistic)
        return NULL;
    optimistic->strategies = strategies;
    STAILQ_INIT(&optimistic->waiting);
    for (int i = 0; i < CONNECTIONS; i++) {
        struct connection *connection = &optimistic->connections[i];
        connection->of = optimistic;
        connection->store = router_open_another(strategies->shared->store, on_state, connection);
        if (connection->store)
            continue;
        while (i-- > 0)
            router_close(optimistic->connections[i].store);
        free(optimistic);
        return NULL;
    }
    return optimistic;
}

static void start(struct inventory_purchase *purchase) {
    struct strategies *strategies = purchase->strategies;
    if (!strategies->optimistic)
        strategies->optimistic = optimistic_open(strategies);
    if (!purchase->read)
        purchase->read = calloc(1, sizeof *purchase->read);
    struct optimistic *optimistic = strategies->optimistic;
    if (!optimistic || !purchase->read) {
        purchase_finish(purchase, INVENTORY_OVERLOADED);
        return;
    }
    purchase->deadline_ms =
        clock_mono_ms(strategies->shared->config.clock) + strategies->shared->config.call_timeout_ms;
    STAILQ_INSERT_TAIL(&optimistic->waiting, purchase, next);
    serve(optimistic);
}

void optimistic_tick(struct strategies *strategies) {
    struct optimistic *optimistic = strategies->optimistic;
    int64_t now_ms = clock_mono_ms(strategies->shared->config.clock);
    const struct inventory_purchase *first;
    while (optimistic && (first = STAILQ_FIRST(&optimistic->waiting))) {
        bool late = now_ms > first->deadline_ms;
        if (!late && router_is_up(strategies->shared->store, first->item))
            break;
        purchase_finish(purchase_queue_take(&optimistic->waiting),
                        late ? INVENTORY_OVERLOADED : INVENTORY_UNAVAILABLE);
    }
    if (optimistic)
        serve(optimistic);
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

const struct strategy strategy_optimistic = {.start = start};
