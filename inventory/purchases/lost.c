#include "inventory/purchases/lost.h"

#include "inventory/store/status.h"

static void keep(struct inventory_purchase *purchase) {
    STAILQ_INSERT_TAIL(&purchase->inventory->lost, purchase, next);
}

void purchase_lost(struct inventory_purchase *purchase) {
    struct inventory *inventory = purchase->inventory;
    metric_add(&inventory->metrics->unknown, 1);
    purchase->history = 0; /* the store is asked */
    purchase->deadline_ms = inventory_now_ms(inventory) + inventory->config.resolve_ms;
    keep(purchase);
}

static void on_asked(void *ctx, const struct redis_value *value) {
    struct inventory_purchase *purchase = ctx;
    struct inventory *inventory = purchase->inventory;
    if (store_status(inventory, value) != INVENTORY_OK) {
        keep(purchase); /* lost again, or the store is loading */
    } else if (redis_value_type(value) == REDIS_NIL) {
        purchase_finish(purchase, INVENTORY_UNKNOWN);
    } else {
        metric_add(&inventory->metrics->unknown_resolved, 1);
        purchase_found(purchase, redis_value_text(value), purchase->sent_ms);
    }
}

void lost_resolve(struct inventory *inventory) {
    struct purchases lost = STAILQ_HEAD_INITIALIZER(lost);
    STAILQ_CONCAT(&lost, &inventory->lost);
    for (struct inventory_purchase *purchase; (purchase = purchases_take(&lost));) {
        const char *orders = purchase->in->keys.orders;
        if (router_is_up(inventory->store, orders))
            router_call(inventory->store, on_asked, purchase, 3,
                        (const char *[]){"HGET", orders, purchase->digest});
        else
            keep(purchase);
    }
}

void lost_expire(struct inventory *inventory, bool all) {
    int64_t now_ms = inventory_now_ms(inventory);
    struct purchases lost = STAILQ_HEAD_INITIALIZER(lost);
    STAILQ_CONCAT(&lost, &inventory->lost);
    for (struct inventory_purchase *purchase; (purchase = purchases_take(&lost));) {
        if (all || now_ms >= purchase->deadline_ms)
            purchase_finish(purchase, INVENTORY_UNKNOWN);
        else
            keep(purchase);
    }
}
