#include "inventory/strategies/strategies.h"

static const struct strategy *const strategies[INVENTORY_STRATEGIES] = {
    [INVENTORY_BATCH] = &strategy_batch, [INVENTORY_LUA] = &strategy_lua,
    [INVENTORY_DECR] = &strategy_decr,   [INVENTORY_OPTIMISTIC] = &strategy_optimistic,
    [INVENTORY_NAIVE] = &strategy_naive, [INVENTORY_LOCKED] = &strategy_locked,
};

void strategy_start(struct inventory_purchase *purchase) {
    struct item *item = purchase->in;
    if (inventory_strategy_teaches(item->strategy) && !purchase->purchases->shared->config.teaching) {
        item->strategy =
            INVENTORY_BATCH; /* the next purchase asks the store, in case the item was created anew */
        purchase_finish(purchase, INVENTORY_REFUSED);
    } else {
        strategies[item->strategy]->start(purchase);
    }
}
