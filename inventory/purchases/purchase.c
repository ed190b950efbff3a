#include "inventory/purchases/purchase.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "inventory/model/record.h"

void item_mark_dirty(struct inventory *inventory, struct item *item) {
    if (item->dirty)
        return;
    item->dirty = true;
    STAILQ_INSERT_TAIL(&inventory->dirty, item, next_dirty);
}

void purchase_again(struct inventory_purchase *purchase) {
    purchase->history = 0;
    STAILQ_INSERT_TAIL(&purchase->inventory->again, purchase, next);
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

/* In which its order is. */
static unsigned history_of(const struct inventory_purchase *purchase) {
    return purchase->history ? purchase->history : router_history(purchase->inventory->store, purchase->item);
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
        putback_keep_order(purchase->inventory, history_of(purchase), purchase->item, purchase->digest,
                           record);
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
    order->version = 1;
    order->created_ms = now_ms;
    order->expires_ms = expires_ms;
    order->basket[0] = '\0';
    order->pending = false;
    putback_keep_new(purchase->inventory, history_of(purchase), order, purchase->digest);
    purchase_finish(purchase, INVENTORY_OK);
}
