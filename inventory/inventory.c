/* The library's calls: opens and closes the layers, gives each its turn, and hands calls down to the layer
 * that answers them. */
#include "inventory/inventory.h"

#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>

#include "inventory/layers.h"
#include "inventory/lock_epoch.h"
#include "inventory/purchases/purchase.h"
#include "inventory/purchases/putback.h"
#include "inventory/store/shared.h"
#include "inventory/transactions/transactions_internal.h"

enum { TICK_MS = 50 };

/* ---- open, tick, close ---- */

static void inventory_on_state(void *ctx, bool up) {
    struct inventory *inventory = ctx;
    if (!up)
        return;
    metric_add(&inventory->shared.metrics->reconnects, 1);
    rest_tick(&inventory->purchases);
    lost_resolve(&inventory->purchases);
}

/* A server that may have lost something sells again: items may lack what the journal says. */
static void inventory_on_mended(void *ctx) {
    struct inventory *inventory = ctx;
    reconcile_suspect(&inventory->transactions);
}

static void inventory_on_tick(uv_timer_t *timer) {
    struct inventory *inventory = timer->data;
    inventory->shared.tick_ms = shared_now_ms(&inventory->shared);
    lost_expire(&inventory->purchases, false);
    lost_resolve(&inventory->purchases);
    transaction_tick(&inventory->transactions, false);
    optimistic_tick(&inventory->strategies);
    audit_tick(&inventory->purchases);
    histories_tick(&inventory->purchases);
    rest_tick(&inventory->purchases);
    reconcile_tick(&inventory->transactions);
    audit_all_tick(&inventory->transactions);
    disown_tick(&inventory->transactions);
}

static struct router *inventory_open_store(struct inventory *inventory) {
    const struct shared *shared = &inventory->shared;
    struct servers_config config = {.loop = shared->loop,
                                    .url = &shared->url,
                                    .key_prefix = "seckill:",
                                    .clock = shared->config.clock,
                                    .timeout_ms = shared->config.call_timeout_ms,
                                    .replicas = shared->config.replicas,
                                    .prepare = histories_prepare,
                                    .lost = histories_lost,
                                    .prepare_ctx = &inventory->purchases,
                                    .on_state = inventory_on_state,
                                    .ctx = inventory};
    return router_open(&config, &shared->metrics->scripts_loaded);
}

static bool inventory_open_layers(struct inventory *inventory) {
    struct shared *shared = &inventory->shared;
    struct purchases *purchases = &inventory->purchases;
    unsigned char random[16];
    char id[INVENTORY_DIGEST_SIZE];
    randombytes_buf(random, sizeof random);
    sodium_bin2base64(id, sizeof id, random, sizeof random, sodium_base64_VARIANT_URLSAFE_NO_PADDING);
    if (!purchases_open(purchases, shared, id, inventory_on_mended, inventory))
        return false;
    shared->store = inventory_open_store(inventory);
    if (!shared->store) {
        purchases_close(purchases);
        return false;
    }
    audit_init(purchases);
    work_delay_init(&inventory->work_delay, shared->loop, shared->config.clock, shared->config.work_delay_ms);
    inventory->strategies.shared = inventory->transactions.shared = shared;
    inventory->strategies.purchases = inventory->transactions.purchases = purchases;
    inventory->strategies.work_delay = inventory->transactions.work_delay = &inventory->work_delay;
    inventory->transactions.torn = shared->url.kind == REDIS_URL_CLUSTER;
    return true;
}

struct inventory *inventory_open(uv_loop_t *loop, const struct inventory_config *config, char *error,
                                 size_t error_size) {
    struct inventory *inventory = calloc(1, sizeof *inventory);
    if (!inventory || sodium_init() < 0) {
        snprintf(error, error_size, "out of memory");
        goto fail;
    }
    struct shared *shared = &inventory->shared;
    shared->config = *config;
    shared->loop = loop;
    shared->metrics = config->metrics ? config->metrics : &shared->own_metrics;
    if (!redis_url_parse(&shared->url, config->redis_url, error, error_size))
        goto fail;
    if (!inventory_open_layers(inventory)) {
        snprintf(error, error_size, "out of memory");
        goto fail;
    }
    inventory->tick.data = inventory;
    uv_timer_init(loop, &inventory->tick);
    uv_timer_start(&inventory->tick, inventory_on_tick, TICK_MS, TICK_MS);
    return inventory;
fail:
    free(inventory);
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
    optimistic_close(&inventory->strategies);
    work_delay_end(&inventory->work_delay);
    audit_close(&inventory->purchases);
    reconcile_close(&inventory->transactions);
    audit_all_close(&inventory->transactions);
    purchases_end_waiting(&inventory->purchases);
    lost_expire(&inventory->purchases, true);
    transaction_tick(&inventory->transactions, true);
    batch_free_spares(&inventory->strategies);
    purchases_close(&inventory->purchases);
    inventory_close_timer(inventory, &inventory->purchases.audits.pause);
    inventory_close_timer(inventory, &inventory->work_delay.timer);
    inventory_close_timer(inventory, &inventory->tick);
}

bool inventory_drain(struct inventory *inventory, int *open) {
    *open = putback_hurry(inventory->purchases.putback);
    return *open == 0 && rest_leave(&inventory->purchases);
}

bool inventory_is_mending(const struct inventory *inventory) {
    return putback_is_running(inventory->purchases.putback);
}

const struct inventory_metrics *inventory_metrics_read(const struct inventory *inventory) {
    return inventory->shared.metrics;
}

/* ---- the store ---- */

bool inventory_is_up(const struct inventory *inventory) {
    return router_is_up(inventory->shared.store, NULL);
}

const char *inventory_last_error(const struct inventory *inventory) {
    return store_last_error(&inventory->shared);
}

void inventory_health_read(struct inventory *inventory, inventory_health_fn *fn, void *ctx) {
    health_read(&inventory->shared, fn, ctx);
}

void inventory_time_read(struct inventory *inventory, inventory_time_fn *fn, void *ctx) {
    store_time_read(&inventory->shared, fn, ctx);
}

/* ---- purchases ---- */

static const struct strategy *const strategies[INVENTORY_STRATEGIES] = {
    [INVENTORY_BATCH] = &strategy_batch, [INVENTORY_LUA] = &strategy_lua,
    [INVENTORY_DECR] = &strategy_decr,   [INVENTORY_OPTIMISTIC] = &strategy_optimistic,
    [INVENTORY_NAIVE] = &strategy_naive, [INVENTORY_LOCKED] = &strategy_locked,
};

/* Starts the purchase by its item's strategy; ends it with REFUSED if that one needs teaching mode. */
static void inventory_start_purchase(struct inventory_purchase *purchase) {
    struct item *item = purchase->in;
    if (inventory_strategy_teaches(item->strategy) && !purchase->purchases->shared->config.teaching) {
        /* The item may be created anew: the next purchase asks the store. */
        item->strategy = INVENTORY_BATCH;
        purchase_finish(purchase, INVENTORY_REFUSED);
    } else {
        strategies[item->strategy]->start(purchase);
    }
}

void inventory_flush(struct inventory *inventory) {
    struct inventory_purchase *purchase;
    while ((purchase = purchase_queue_take(&inventory->purchases.again)))
        inventory_start_purchase(purchase);
    batch_flush(&inventory->strategies);
    router_flush(inventory->shared.store);
}

void inventory_purchase_begin(struct inventory *inventory, struct inventory_purchase *purchase) {
    struct shared *shared = &inventory->shared;
    purchase->purchases = &inventory->purchases;
    purchase->strategies = &inventory->strategies;
    purchase->in = NULL;
    purchase->read = NULL;
    purchase->history = 0;
    uint64_t waiting = shared->metrics->waiting;
    metric_add(&shared->metrics->waiting, 1);
    if (waiting >= (uint64_t)shared->config.queue_max) {
        purchase_finish(purchase, INVENTORY_OVERLOADED);
    } else if (!(purchase->in = items_take(&inventory->purchases.items, purchase->item))) {
        purchase_finish(purchase, INVENTORY_OVERLOADED);
    } else if (!router_is_up(shared->store, purchase->in->keys.item)) {
        purchase_finish(purchase, INVENTORY_UNAVAILABLE);
    } else {
        inventory_start_purchase(purchase);
    }
}

void inventory_order_step(struct inventory *inventory, const char *id, enum inventory_step step,
                          int64_t arrived_ns, inventory_order_fn *fn, void *ctx) {
    purchases_step_order(&inventory->purchases, id, step, arrived_ns, fn, ctx);
}

void inventory_sweep(struct inventory *inventory) {
    purchases_sweep(&inventory->purchases);
}

bool inventory_is_sweeping(const struct inventory *inventory) {
    return inventory->purchases.sweeping;
}

void inventory_item_create(struct inventory *inventory, const struct inventory_item *item,
                           inventory_item_fn *fn, void *ctx) {
    purchases_create_item(&inventory->purchases, item, fn, ctx);
}

void inventory_item_get(struct inventory *inventory, const char *name, inventory_item_fn *fn, void *ctx) {
    purchases_get_item(&inventory->purchases, name, fn, ctx);
}

void inventory_item_restock(struct inventory *inventory, const char *name, const char *digest,
                            int64_t quantity, inventory_restock_fn *fn, void *ctx) {
    purchases_restock_item(&inventory->purchases, name, digest, quantity, fn, ctx);
}

void inventory_item_audit(struct inventory *inventory, const char *name, inventory_audit_fn *fn, void *ctx) {
    purchases_audit_item(&inventory->purchases, name, fn, ctx);
}

/* ---- transactions ---- */

void inventory_transaction_find(struct inventory *inventory, struct inventory_transaction *transaction) {
    journal_find(&inventory->transactions, transaction);
}

void inventory_transaction_check(struct inventory *inventory, struct inventory_transaction *transaction) {
    transaction_check(&inventory->transactions, transaction);
}

void inventory_transaction_make(struct inventory *inventory, struct inventory_transaction *transaction) {
    transaction_make(&inventory->transactions, transaction);
}

void inventory_transaction_make_at_once(struct inventory *inventory,
                                        struct inventory_transaction *transaction) {
    transaction_make_at_once(&inventory->transactions, transaction);
}

void inventory_transaction_make_naive(struct inventory *inventory,
                                      struct inventory_transaction *transaction) {
    transaction_make_naive(&inventory->transactions, transaction);
}

void inventory_transaction_settle(struct inventory *inventory, struct inventory_transaction *transaction,
                                  enum inventory_step step) {
    transaction_settle(&inventory->transactions, transaction, step);
}

void inventory_transaction_claim(struct inventory *inventory, int most, int64_t claim_ms,
                                 inventory_claim_fn *fn, void *ctx) {
    journal_claim(&inventory->transactions, most, claim_ms, fn, ctx);
}

bool inventory_transactions_are_suspect(const struct inventory *inventory) {
    return reconcile_is_due(&inventory->transactions);
}

void inventory_transactions_suspect(struct inventory *inventory) {
    reconcile_suspect(&inventory->transactions);
}

void inventory_transactions_reconcile(struct inventory *inventory, bool mend, inventory_reconciled_fn *fn,
                                      void *ctx) {
    reconcile_begin(&inventory->transactions, mend, fn, ctx);
}

void inventory_audit_all(struct inventory *inventory, inventory_audit_all_fn *fn, void *ctx) {
    audit_all_begin(&inventory->transactions, fn, ctx);
}

/* ---- the lock epoch ---- */

void inventory_lock_epoch_heartbeat(struct inventory *inventory, const struct inventory_heartbeat *heartbeat,
                                    inventory_lock_epoch_fn *fn, void *ctx) {
    epoch_heartbeat(&inventory->transactions, heartbeat, fn, ctx);
}

void inventory_lock_epoch_switch(struct inventory *inventory, const char *lock, inventory_lock_epoch_fn *fn,
                                 void *ctx) {
    epoch_switch(&inventory->transactions, lock, fn, ctx);
}

void inventory_lock_epoch_leave(struct inventory *inventory, const char *instance,
                                inventory_lock_epoch_fn *fn, void *ctx) {
    epoch_leave(&inventory->transactions, instance, fn, ctx);
}
