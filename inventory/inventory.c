/* Opens and closes the layers, gives each its turn, and starts purchases by their items' strategies. All
 * other calls are answered in the layers. */

#include <sodium.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include "inventory/purchases/putback.h"
#include "inventory/transactions/transactions_internal.h"

enum { TICK_MS = 50 };

/* The memory of an inventory. */
struct layers {
    struct inventory inventory; /* first: its address is that of the whole */
    struct purchases purchases;
    struct strategies strategies;
    struct transactions transactions;
};

_Static_assert(offsetof(struct layers, inventory) == 0, "free() of the inventory frees all layers");

/* ---- open, tick, close ---- */

static void inventory_on_state(void *ctx, bool up) {
    struct inventory *inventory = ctx;
    if (!up)
        return;
    metric_add(&inventory->shared.metrics->reconnects, 1);
    membership_tick(inventory->purchases);
    lost_resolve(inventory->purchases);
}

static void inventory_on_tick(uv_timer_t *timer) {
    struct inventory *inventory = timer->data;
    inventory->shared.tick_ms = shared_now_ms(&inventory->shared);
    lost_expire(inventory->purchases, false);
    lost_resolve(inventory->purchases);
    transaction_tick(inventory->transactions, false);
    optimistic_tick(inventory->strategies);
    audit_tick(inventory->purchases);
    failover_tick(inventory->purchases);
    membership_tick(inventory->purchases);
    reconcile_tick(inventory->transactions);
    audit_all_tick(inventory->transactions);
    disown_tick(inventory->transactions);
}

static struct router *inventory_open_store(struct inventory *inventory) {
    const struct shared *shared = &inventory->shared;
    struct servers_config config = {.loop = shared->loop,
                                    .url = &shared->url,
                                    .key_prefix = "seckill:",
                                    .clock = shared->config.clock,
                                    .timeout_ms = shared->config.call_timeout_ms,
                                    .replicas = shared->config.replicas,
                                    .prepare = failover_prepare,
                                    .lost = failover_lost,
                                    .prepare_ctx = inventory->purchases,
                                    .on_state = inventory_on_state,
                                    .ctx = inventory};
    return router_open(&config, &shared->metrics->scripts_loaded);
}

static bool inventory_open_layers(struct layers *layers) {
    struct inventory *inventory = &layers->inventory;
    struct shared *shared = &inventory->shared;
    struct purchases *purchases = inventory->purchases = &layers->purchases;
    inventory->strategies = &layers->strategies;
    inventory->transactions = &layers->transactions;
    inventory->transactions->inventory = inventory;
    inventory->strategies->shared = inventory->transactions->shared = shared;
    inventory->strategies->purchases = inventory->transactions->purchases = purchases;
    if (!purchases_open(purchases, shared))
        return false;
    shared->store = inventory_open_store(inventory);
    if (!shared->store) {
        purchases_close(purchases);
        return false;
    }
    audit_init(purchases);
    work_delay_init(&inventory->strategies->work_delay, shared->loop, shared->config.clock,
                    shared->config.work_delay_ms);
    shared->torn = shared->url.kind == REDIS_URL_CLUSTER;
    return true;
}

struct inventory *inventory_open(uv_loop_t *loop, const struct inventory_config *config, char *error,
                                 size_t error_size) {
    struct layers *layers = calloc(1, sizeof *layers);
    if (!layers || sodium_init() < 0) {
        snprintf(error, error_size, "out of memory");
        goto fail;
    }
    struct inventory *inventory = &layers->inventory;
    struct shared *shared = &inventory->shared;
    shared->config = *config;
    shared->loop = loop;
    shared->metrics = config->metrics ? config->metrics : &shared->own_metrics;
    if (!redis_url_parse(&shared->url, config->redis_url, error, error_size))
        goto fail;
    if (!inventory_open_layers(layers)) {
        snprintf(error, error_size, "out of memory");
        goto fail;
    }
    inventory->tick.data = inventory;
    uv_timer_init(loop, &inventory->tick);
    uv_timer_start(&inventory->tick, inventory_on_tick, TICK_MS, TICK_MS);
    return inventory;
fail:
    free(layers);
    return NULL;
}

static void inventory_on_timer_closed(uv_handle_t *timer) {
    struct inventory *inventory = timer->data;
    if (--inventory->closing == 0)
        free(inventory);
}

static void inventory_close_timer(struct inventory *inventory, uv_timer_t *timer) {
    inventory->closing++;
    timer->data = inventory; /* it does not fire any more */
    uv_close((uv_handle_t *)timer, inventory_on_timer_closed);
}

void inventory_close(struct inventory *inventory) {
    if (!inventory)
        return;
    router_close(inventory->shared.store);
    optimistic_close(inventory->strategies);
    work_delay_end(&inventory->strategies->work_delay);
    audit_abandon(inventory->purchases);
    reconcile_close(inventory->transactions);
    audit_all_close(inventory->transactions);
    purchases_end_waiting(inventory->purchases);
    lost_expire(inventory->purchases, true);
    transaction_tick(inventory->transactions, true);
    batch_free_spares(inventory->strategies);
    purchases_close(inventory->purchases);
    inventory_close_timer(inventory, &inventory->purchases->audits.pause);
    inventory_close_timer(inventory, &inventory->strategies->work_delay.timer);
    inventory_close_timer(inventory, &inventory->tick);
}

bool inventory_drain(struct inventory *inventory, int *open) {
    struct putback *putback = inventory->purchases->putback;
    putback->draining = true;
    *open = receipts_open(&putback->receipts);
    return *open == 0 && membership_leave(inventory->purchases);
}

bool inventory_is_mending(const struct inventory *inventory) {
    return inventory->purchases->putback->running > 0;
}

/* ---- purchases ---- */

static void (*const starts[INVENTORY_STRATEGIES])(struct inventory_purchase *purchase) = {
    [INVENTORY_BATCH] = batch_start, [INVENTORY_LUA] = batch_start_alone,
    [INVENTORY_DECR] = decr_start,   [INVENTORY_OPTIMISTIC] = optimistic_start,
    [INVENTORY_NAIVE] = naive_start, [INVENTORY_LOCKED] = naive_start_locked,
};

/* Starts the purchase by its item's strategy; ends it with REFUSED if that one needs teaching mode. */
static void inventory_start_purchase(struct inventory_purchase *purchase) {
    struct item *item = purchase->in;
    if (inventory_strategy_teaches(item->strategy) && !purchase->purchases->shared->config.teaching) {
        /* The item may be created anew: the next purchase asks the store. */
        item->strategy = INVENTORY_BATCH;
        purchase_finish(purchase, INVENTORY_REFUSED);
    } else {
        starts[item->strategy](purchase);
    }
}

void inventory_flush(struct inventory *inventory) {
    struct inventory_purchase *purchase;
    while ((purchase = purchase_queue_take(&inventory->purchases->again)))
        inventory_start_purchase(purchase);
    batch_flush(inventory->strategies);
    router_flush(inventory->shared.store);
}

void inventory_purchase_begin(struct inventory *inventory, struct inventory_purchase *purchase) {
    struct shared *shared = &inventory->shared;
    purchase->purchases = inventory->purchases;
    purchase->strategies = inventory->strategies;
    purchase->in = NULL;
    purchase->read = NULL;
    purchase->history = 0;
    uint64_t waiting = shared->metrics->waiting;
    metric_add(&shared->metrics->waiting, 1);
    if (waiting >= (uint64_t)shared->config.queue_max ||
        !(purchase->in = items_take(&inventory->purchases->items, purchase->item)))
        purchase_finish(purchase, INVENTORY_OVERLOADED);
    else if (!router_is_up(shared->store, purchase->in->keys.item))
        purchase_finish(purchase, INVENTORY_UNAVAILABLE);
    else
        inventory_start_purchase(purchase);
}
