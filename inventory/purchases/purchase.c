/* How a purchase waits, starts again and ends, whatever its strategy. If its reply was lost: lost_replies.c.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "inventory/purchases/putback.h"

/* How far the clock of an instance may differ from the store's clock, which dates orders. */
enum { CLOCKS_APART_MS = 50 };

bool purchases_open(struct purchases *purchases, struct shared *shared) {
    purchases->shared = shared;
    digest_draw(purchases->id);
    items_init(&purchases->items);
    for (int i = 0; i < ITEM_PARTS; i++)
        STAILQ_INIT(&purchases->lanes[i].dirty);
    STAILQ_INIT(&purchases->again);
    STAILQ_INIT(&purchases->lost);
    purchases->putback = putback_open();
    return purchases->putback;
}

static void purchases_finish_all(struct purchase_queue *queue) {
    for (struct inventory_purchase *purchase; (purchase = purchase_queue_take(queue));)
        purchase_finish(purchase, INVENTORY_UNAVAILABLE);
}

void purchases_end_waiting(struct purchases *purchases) {
    for (int i = 0; i < ITEM_PARTS; i++) {
        for (struct item *item; (item = lane_take(&purchases->lanes[i]));) {
            item->refs++;
            purchases_finish_all(&item->waiting);
            items_drop(&purchases->items, item);
        }
    }
    purchases_finish_all(&purchases->again);
}

void purchases_close(struct purchases *purchases) {
    putback_free(purchases->putback);
    items_free(&purchases->items);
}

struct lane *lane_of(struct purchases *purchases, const struct item *item) {
    return &purchases->lanes[router_is_one(purchases->shared->store) ? 0 : item->keys.part];
}

void lane_add(struct lane *lane, struct item *item) {
    if (item->dirty)
        return;
    item->dirty = true;
    STAILQ_INSERT_TAIL(&lane->dirty, item, next_dirty);
}

struct item *lane_take(struct lane *lane) {
    struct item *item = STAILQ_FIRST(&lane->dirty);
    if (!item)
        return NULL;
    STAILQ_REMOVE_HEAD(&lane->dirty, next_dirty);
    item->dirty = false;
    return item;
}

void purchase_again(struct inventory_purchase *purchase) {
    purchase->history = 0;
    STAILQ_INSERT_TAIL(&purchase->purchases->again, purchase, next);
}

void purchase_finish(struct inventory_purchase *purchase, enum inventory_status status) {
    struct purchases *purchases = purchase->purchases;
    if (purchase->in) {
        purchase->in->unknown = status == INVENTORY_UNKNOWN_ITEM;
        items_drop(&purchases->items, purchase->in);
    }
    free(purchase->read);
    metric_add(&purchases->shared->metrics->waiting, (uint64_t)-1);
    purchase->done(purchase, status);
}

void purchase_set_connection(struct inventory_purchase *purchase, const struct redis *redis) {
    const struct history *history =
        redis ? putback_history(purchase->purchases->putback, redis_history(redis)->id) : NULL;
    purchase->history = history ? history->number : 0;
}

/* The number of the history that the order is in. */
static unsigned purchase_history(const struct inventory_purchase *purchase) {
    return purchase->history ? purchase->history
                             : router_history(purchase->purchases->shared->store, purchase->in->keys.item);
}

void purchase_found(struct inventory_purchase *purchase, const char *record, int64_t sent_ms) {
    struct inventory_order *order = &purchase->order;
    if (!record || !record_read(order, purchase->item, purchase->digest, record)) {
        snprintf(purchase->purchases->shared->error, sizeof purchase->purchases->shared->error,
                 "an order record cannot be read");
        purchase_finish(purchase, INVENTORY_UNAVAILABLE);
    } else if (order->quantity != purchase->quantity || strcmp(order->user, purchase->user) != 0) {
        purchase_finish(purchase, INVENTORY_KEY_REUSED);
    } else {
        putback_keep_order(purchase->purchases, purchase_history(purchase), order, purchase->digest);
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
    order->settled_ms = order->returned = 0;
    order->basket[0] = order->payment[0] = '\0';
    order->pending = order->late = order->refund_due = false;
    putback_keep_new(purchase->purchases, purchase_history(purchase), order, purchase->digest);
    purchase_finish(purchase, INVENTORY_OK);
}
