#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "inventory/context.h"
#include "inventory/purchases/histories.h"
#include "inventory/purchases/lost.h"
#include "inventory/purchases/rest.h"
#include "inventory/strategies/strategies.h"
#include "inventory/strategies/work_delay.h"
#include "inventory/transactions/audit_all.h"
#include "inventory/transactions/disown.h"
#include "inventory/transactions/reconcile.h"
#include "inventory/transactions/transaction.h"

enum { TICK_MS = 50 };

static void on_state(void *ctx, bool up) {
    struct inventory *inventory = ctx;
    if (!up)
        return;
    metric_add(&inventory->metrics->reconnects, 1);
    rest_tick(inventory);
    lost_resolve(inventory);
}

static struct router *open_store(struct inventory *inventory) {
    struct servers_config config = {.loop = inventory->loop,
                                    .url = &inventory->url,
                                    .clock = inventory->config.clock,
                                    .timeout_ms = inventory->config.call_timeout_ms,
                                    .replicas = inventory->config.replicas,
                                    .key_prefix = "seckill:",
                                    .prepare = histories_prepare,
                                    .lost = histories_lost,
                                    .prepare_ctx = inventory,
                                    .on_state = on_state,
                                    .ctx = inventory};
    return router_open(&config, &inventory->metrics->scripts_loaded);
}

static void on_tick(uv_timer_t *timer) {
    struct inventory *inventory = timer->data;
    inventory->tick_ms = clock_mono_ms(inventory->config.clock);
    lost_expire(inventory, false);
    lost_resolve(inventory);
    transaction_tick(inventory, false);
    optimistic_tick(inventory);
    audit_tick(inventory);
    histories_tick(inventory);
    rest_tick(inventory);
    reconcile_tick(inventory);
    audit_all_tick(inventory);
    disown_tick(inventory);
}

static void on_handle_closed(uv_handle_t *handle) {
    struct inventory *inventory = handle->data;
    if (--inventory->closing == 0)
        free(inventory);
}

static void make_id(char id[INVENTORY_DIGEST_SIZE]) {
    unsigned char random[16];
    randombytes_buf(random, sizeof random);
    sodium_bin2base64(id, INVENTORY_DIGEST_SIZE, random, sizeof random,
                      sodium_base64_VARIANT_URLSAFE_NO_PADDING);
}

struct inventory *inventory_open(uv_loop_t *loop, const struct inventory_config *config, char *error,
                                 size_t error_size) {
    struct inventory *inventory = calloc(1, sizeof *inventory);
    if (!inventory || sodium_init() < 0) {
        snprintf(error, error_size, "out of memory");
        goto fail;
    }
    inventory->config = *config;
    inventory->loop = loop;
    make_id(inventory->id);
    items_init(&inventory->items);
    STAILQ_INIT(&inventory->dirty);
    STAILQ_INIT(&inventory->again);
    STAILQ_INIT(&inventory->lost);
    STAILQ_INIT(&inventory->audits.runs);
    inventory->metrics = config->metrics ? config->metrics : &inventory->own_metrics;
    if (!redis_url_parse(&inventory->url, config->redis_url, error, error_size))
        goto fail;
    putback_init(inventory);
    inventory->torn = inventory->url.kind == REDIS_URL_CLUSTER;
    inventory->store = open_store(inventory);
    if (!inventory->store) {
        snprintf(error, error_size, "out of memory");
        goto fail;
    }
    inventory->tick.data = inventory;
    uv_timer_init(loop, &inventory->tick);
    uv_timer_start(&inventory->tick, on_tick, TICK_MS, TICK_MS);
    inventory->delay.data = inventory;
    uv_timer_init(loop, &inventory->delay);
    inventory->audits.pause.data = inventory;
    uv_timer_init(loop, &inventory->audits.pause);
    return inventory;
fail:
    free(inventory);
    return NULL;
}

static void finish_all(struct purchases *purchases) {
    for (struct inventory_purchase *purchase; (purchase = purchases_take(purchases));)
        purchase_finish(purchase, INVENTORY_UNAVAILABLE);
}

void inventory_close(struct inventory *inventory) {
    if (!inventory)
        return;
    router_close(inventory->store);
    optimistic_close(inventory);
    work_delay_close(inventory);
    audit_close(inventory);
    reconcile_close(inventory);
    audit_all_close(inventory);
    for (struct item *item; (item = STAILQ_FIRST(&inventory->dirty));) {
        STAILQ_REMOVE_HEAD(&inventory->dirty, next_dirty);
        item->dirty = false;
        item->users++;
        finish_all(&item->waiting);
        items_drop(&inventory->items, item);
    }
    finish_all(&inventory->again);
    lost_expire(inventory, true);
    transaction_tick(inventory, true);
    batch_free_spares(inventory);
    putback_free(inventory);
    items_free(&inventory->items);
    inventory->closing = 3;
    uv_close((uv_handle_t *)&inventory->audits.pause, on_handle_closed);
    uv_close((uv_handle_t *)&inventory->delay, on_handle_closed);
    uv_close((uv_handle_t *)&inventory->tick, on_handle_closed);
}

bool inventory_is_up(const struct inventory *inventory) {
    return router_is_up(inventory->store, NULL);
}

bool inventory_is_mending(const struct inventory *inventory) {
    return inventory->putback.running > 0;
}

bool inventory_drain(struct inventory *inventory, int *open) {
    *open = receipts_open(&inventory->putback.receipts);
    inventory->putback.hasty = true;
    return *open == 0 && rest_leave(inventory);
}

const struct inventory_metrics *inventory_metrics_read(const struct inventory *inventory) {
    return inventory->metrics;
}

/* ---- the way of a purchase ---- */

void inventory_flush(struct inventory *inventory) {
    struct inventory_purchase *purchase;
    while ((purchase = purchases_take(&inventory->again)))
        strategy_start(purchase);
    batch_flush(inventory);
    router_flush(inventory->store);
}

void inventory_purchase_begin(struct inventory *inventory, struct inventory_purchase *purchase) {
    purchase->inventory = inventory;
    purchase->in = NULL;
    purchase->read = NULL;
    purchase->history = 0;
    uint64_t waiting = inventory->metrics->waiting;
    metric_add(&inventory->metrics->waiting, 1);
    if (waiting >= (uint64_t)inventory->config.queue_max) {
        purchase_finish(purchase, INVENTORY_OVERLOADED);
    } else if (!router_is_up(inventory->store, purchase->item)) { /* it is the tag of its keys */
        purchase_finish(purchase, INVENTORY_UNAVAILABLE);
    } else if (!(purchase->in = items_take(&inventory->items, purchase->item))) {
        purchase_finish(purchase, INVENTORY_OVERLOADED);
    } else {
        strategy_start(purchase);
    }
}
