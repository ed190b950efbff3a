/* Purchases whose reply was lost. The store may have carried them out, so it is asked for the order once it
 * is back.
 *
 * If the order is there, the buyer has it. If not, it was not sold so far; but the call may still lie in a
 * buffer on the way, or in a store that was only stopped, and be carried out later. So the purchase stays
 * UNKNOWN, and the buyer's retry with the same key tells. */
#include "inventory/purchases/purchases.h"

static void lost_keep(struct inventory_purchase *purchase) {
    STAILQ_INSERT_TAIL(&purchase->purchases->lost, purchase, next);
}

void purchase_lost(struct inventory_purchase *purchase) {
    struct purchases *purchases = purchase->purchases;
    metric_add(&purchases->shared->metrics->unknown, 1);
    purchase->history = 0; /* the store's own connection is asked */
    purchase->deadline_ms = shared_now_ms(purchases->shared) + purchases->shared->config.resolve_ms;
    lost_keep(purchase);
}

static void lost_on_asked(void *ctx, const struct redis_value *value) {
    struct inventory_purchase *purchase = ctx;
    struct purchases *purchases = purchase->purchases;
    if (store_status(purchases->shared, value) != INVENTORY_OK) {
        lost_keep(purchase); /* lost again, or the store is loading */
    } else if (redis_value_type(value) == REDIS_NIL) {
        purchase_finish(purchase, INVENTORY_UNKNOWN);
    } else {
        metric_add(&purchases->shared->metrics->unknown_resolved, 1);
        purchase_found(purchase, redis_value_text(value), purchase->sent_ms);
    }
}

void lost_resolve(struct purchases *purchases) {
    struct purchase_queue lost = STAILQ_HEAD_INITIALIZER(lost);
    STAILQ_CONCAT(&lost, &purchases->lost);
    for (struct inventory_purchase *purchase; (purchase = purchase_queue_take(&lost));) {
        const char *item = purchase->in->keys.item;
        if (router_is_up(purchases->shared->store, item))
            router_call(purchases->shared->store, lost_on_asked, purchase, 3,
                        (const char *[]){"HGET", item, purchase->digest});
        else
            lost_keep(purchase);
    }
}

void lost_expire(struct purchases *purchases, bool all) {
    int64_t now_ms = shared_now_ms(purchases->shared);
    struct purchase_queue lost = STAILQ_HEAD_INITIALIZER(lost);
    STAILQ_CONCAT(&lost, &purchases->lost);
    for (struct inventory_purchase *purchase; (purchase = purchase_queue_take(&lost));) {
        if (all || now_ms >= purchase->deadline_ms)
            purchase_finish(purchase, INVENTORY_UNKNOWN);
        else
            lost_keep(purchase);
    }
}
