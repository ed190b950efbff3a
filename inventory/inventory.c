#include "inventory/inventory.h"

#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "basket.lua.h"
#include "create.lua.h"
#include "due.lua.h"
#include "epoch.lua.h"
#include "fenced.lua.h"
#include "inventory/internal.h"
#include "journal.lua.h"
#include "line.lua.h"
#include "purchase.lua.h"
#include "restock.lua.h"
#include "settle.lua.h"

enum { TICK_MS = 50 };

const char *inventory_status_text(enum inventory_status status) {
    static const char *const texts[] = {
        [INVENTORY_OK] = "done",
        [INVENTORY_REPLAYED] = "done before by the same key",
        [INVENTORY_SOLD_OUT] = "sold out",
        [INVENTORY_LIMIT] = "over the user's limit",
        [INVENTORY_NOT_STARTED] = "the sale has not started",
        [INVENTORY_ENDED] = "the sale has ended",
        [INVENTORY_UNKNOWN_ITEM] = "no such item",
        [INVENTORY_UNKNOWN_ORDER] = "no such order",
        [INVENTORY_UNKNOWN_BASKET] = "no such basket",
        [INVENTORY_OF_BASKET] = "the order is its basket's to settle",
        [INVENTORY_PENDING] = "under way, or left unfinished",
        [INVENTORY_CROSS_SLOT] = "the items lie in several slots",
        [INVENTORY_EXISTS] = "the item exists otherwise",
        [INVENTORY_KEY_REUSED] = "the key belongs to another request",
        [INVENTORY_TOO_MANY] = "the stock would be too large",
        [INVENTORY_CONFIRMED] = "the order was confirmed",
        [INVENTORY_CANCELLED] = "the order was cancelled",
        [INVENTORY_EXPIRED] = "the order has expired",
        [INVENTORY_WANTS_LOCK] = "the item is sold under a lock",
        [INVENTORY_REFUSED] = "the item's strategy needs teaching mode",
        [INVENTORY_STALE] = "a newer holder of the lock was seen",
        [INVENTORY_OVERLOADED] = "too many wait already",
        [INVENTORY_UNAVAILABLE] = "the store cannot be used",
        [INVENTORY_UNKNOWN] = "sent, but no reply came",
    };
    return texts[status];
}

/* ---- strategies ---- */

static const struct strategy *const strategies[INVENTORY_STRATEGIES] = {
    [INVENTORY_BATCH] = &strategy_batch, [INVENTORY_LUA] = &strategy_lua,
    [INVENTORY_DECR] = &strategy_decr,   [INVENTORY_OPTIMISTIC] = &strategy_optimistic,
    [INVENTORY_NAIVE] = &strategy_naive, [INVENTORY_LOCKED] = &strategy_locked,
};

const struct strategy *strategy_of(enum inventory_strategy strategy) {
    return strategies[strategy];
}

const char *inventory_strategy_name(enum inventory_strategy strategy) {
    return strategies[strategy]->name;
}

bool inventory_strategy_teaches(enum inventory_strategy strategy) {
    return strategies[strategy]->teaches;
}

bool inventory_strategy_find(const char *name, enum inventory_strategy *strategy) {
    for (int i = 0; i < INVENTORY_STRATEGIES; i++) {
        if (strcmp(strategies[i]->name, name) == 0) {
            *strategy = (enum inventory_strategy)i;
            return true;
        }
    }
    return false;
}

bool inventory_name_valid(const char *name, size_t length) {
    if (length < 1 || length > INVENTORY_NAME_MAX)
        return false;
    for (size_t i = 0; i < length; i++) {
        char c = name[i];
        if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
              c == '_' || c == '-'))
            return false;
    }
    return true;
}

/* ---- the store ---- */

enum inventory_status store_status(struct inventory *inventory, const struct redis_value *value) {
    if (!value)
        return INVENTORY_UNKNOWN;
    if (redis_value_type(value) != REDIS_ERROR)
        return INVENTORY_OK;
    const char *text = redis_value_text(value);
    metric_add(&inventory->metrics->store_errors, 1);
    snprintf(inventory->error, sizeof inventory->error, "%s", text);
    if (strstr(text, "READONLY"))
        redis_break(inventory->redis, text);
    return INVENTORY_UNAVAILABLE;
}

int64_t store_time_ms(const struct redis_value *value) {
    if (redis_value_count(value) != 2)
        return 0;
    return redis_value_integer(redis_value_at(value, 0), 0) * 1000 +
           redis_value_integer(redis_value_at(value, 1), 0) / 1000;
}

static void on_state(void *ctx, bool up) {
    struct inventory *inventory = ctx;
    if (!up)
        return;
    metric_add(&inventory->metrics->reconnects, 1);
    resolve_all(inventory);
}

static void on_tick(uv_timer_t *timer) {
    struct inventory *inventory = timer->data;
    resolve_expire(inventory, false);
    resolve_all(inventory);
    transaction_tick(inventory, false);
    optimistic_tick(inventory, false);
    audit_tick(inventory);
}

static const struct script scripts[SCRIPTS] = {
    [SCRIPT_PURCHASE] = {purchase_lua, purchase_lua_sha1}, [SCRIPT_SETTLE] = {settle_lua, settle_lua_sha1},
    [SCRIPT_CREATE] = {create_lua, create_lua_sha1},       [SCRIPT_RESTOCK] = {restock_lua, restock_lua_sha1},
    [SCRIPT_FENCED] = {fenced_lua, fenced_lua_sha1},       [SCRIPT_LINE] = {line_lua, line_lua_sha1},
    [SCRIPT_JOURNAL] = {journal_lua, journal_lua_sha1},    [SCRIPT_BASKET] = {basket_lua, basket_lua_sha1},
    [SCRIPT_EPOCH] = {epoch_lua, epoch_lua_sha1},          [SCRIPT_DUE] = {due_lua, due_lua_sha1},
};

static void on_handle_closed(uv_handle_t *handle) {
    struct inventory *inventory = handle->data;
    if (--inventory->closing == 0)
        free(inventory);
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
    items_init(&inventory->items);
    inventory->scripts = scripts;
    inventory->metrics = config->metrics ? config->metrics : &inventory->own_metrics;
    if (!redis_target_parse(&inventory->target, config->redis_url, error, error_size))
        goto fail;
    inventory->redis =
        redis_open(loop, &inventory->target, config->clock, config->call_timeout_ms, on_state, inventory);
    if (!inventory->redis) {
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

void inventory_close(struct inventory *inventory) {
    if (!inventory)
        return;
    redis_close(inventory->redis);
    optimistic_close(inventory);
    naive_close(inventory);
    audit_close(inventory);
    while (inventory->dirty) {
        struct item *item = inventory->dirty;
        inventory->dirty = item->next_dirty;
        item->dirty = false;
        item->users++;
        while (item->head) {
            struct inventory_purchase *purchase = item->head;
            item->head = purchase->next;
            purchase_finish(purchase, INVENTORY_UNAVAILABLE);
        }
        items_drop(&inventory->items, item);
    }
    resolve_expire(inventory, true);
    transaction_tick(inventory, true);
    batch_free_spares(inventory);
    items_free(&inventory->items);
    inventory->closing = 3;
    uv_close((uv_handle_t *)&inventory->audits.pause, on_handle_closed);
    uv_close((uv_handle_t *)&inventory->delay, on_handle_closed);
    uv_close((uv_handle_t *)&inventory->tick, on_handle_closed);
}

bool inventory_is_up(const struct inventory *inventory) {
    return redis_is_up(inventory->redis);
}

const char *inventory_last_error(const struct inventory *inventory) {
    const char *error = redis_error(inventory->redis);
    return *error ? error : inventory->error;
}

const struct inventory_metrics *inventory_metrics(const struct inventory *inventory) {
    return inventory->metrics;
}

/* ---- the way of a purchase ---- */

void item_mark_dirty(struct inventory *inventory, struct item *item) {
    if (item->dirty)
        return;
    item->dirty = true;
    item->next_dirty = inventory->dirty;
    inventory->dirty = item;
}

void inventory_flush(struct inventory *inventory) {
    while (inventory->dirty) {
        struct item *item = inventory->dirty;
        inventory->dirty = item->next_dirty;
        item->dirty = false;
        item->users++;
        batch_flush(inventory, item);
        items_drop(&inventory->items, item);
    }
    redis_flush(inventory->redis);
}

void inventory_purchase(struct inventory *inventory, struct inventory_purchase *purchase) {
    purchase->inventory = inventory;
    purchase->next = NULL;
    purchase->in = NULL;
    purchase->read = NULL;
    uint64_t waiting = inventory->metrics->waiting;
    metric_add(&inventory->metrics->waiting, 1);
    if (waiting >= (uint64_t)inventory->config.queue_max) {
        purchase_finish(purchase, INVENTORY_OVERLOADED);
    } else if (!redis_is_up(inventory->redis)) {
        purchase_finish(purchase, INVENTORY_UNAVAILABLE);
    } else if (!(purchase->in = items_take(&inventory->items, purchase->item))) {
        purchase_finish(purchase, INVENTORY_OVERLOADED);
    } else {
        purchase_start(purchase);
    }
}

void purchase_start(struct inventory_purchase *purchase) {
    const struct strategy *strategy = strategies[purchase->in->strategy];
    if (strategy->teaches && !purchase->inventory->config.teaching) {
        /* The next one asks again: it may be another item by then. */
        purchase->in->strategy = INVENTORY_BATCH;
        purchase_finish(purchase, INVENTORY_REFUSED);
    } else {
        strategy->start(purchase);
    }
}

void purchase_finish(struct inventory_purchase *purchase, enum inventory_status status) {
    struct inventory *inventory = purchase->inventory;
    if (purchase->in) {
        purchase->in->unknown = status == INVENTORY_UNKNOWN_ITEM;
        items_drop(&inventory->items, purchase->in);
    }
    free(purchase->read);
    metric_add(&inventory->metrics->waiting, (uint64_t)-1);
    purchase->done(purchase, status);
}

void purchase_found(struct inventory_purchase *purchase, const char *record, int64_t sent_ms) {
    struct inventory_order *order = &purchase->order;
    if (!record || !record_read(order, purchase->item, purchase->digest, record)) {
        snprintf(purchase->inventory->error, sizeof purchase->inventory->error,
                 "an order record cannot be read");
        purchase_finish(purchase, INVENTORY_UNAVAILABLE);
    } else if (order->quantity != purchase->quantity || strcmp(order->user, purchase->user) != 0) {
        purchase_finish(purchase, INVENTORY_KEY_REUSED);
    } else {
        /* The first answer, whatever has become of the order since. */
        purchase->now = order->state;
        order->state = order->expires_ms ? INVENTORY_STATE_HELD : INVENTORY_STATE_CONFIRMED;
        bool ours = sent_ms && order->created_ms >= sent_ms - CLOCKS_APART_MS;
        purchase_finish(purchase, ours ? INVENTORY_OK : INVENTORY_REPLAYED);
    }
}

void purchase_sold(struct inventory_purchase *purchase, int64_t now_ms, int64_t expires_ms) {
    struct inventory_order *order = &purchase->order;
    stpcpy(stpcpy(stpcpy(order->id, purchase->item), ":"), purchase->digest);
    memcpy(order->item, purchase->item, sizeof order->item);
    memcpy(order->user, purchase->user, sizeof order->user);
    order->quantity = purchase->quantity;
    order->state = expires_ms ? INVENTORY_STATE_HELD : INVENTORY_STATE_CONFIRMED;
    order->created_ms = now_ms;
    order->expires_ms = expires_ms;
    purchase_finish(purchase, INVENTORY_OK);
}
