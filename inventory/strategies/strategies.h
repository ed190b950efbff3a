/* The strategies: one file each, with its table at the end. */
#ifndef INVENTORY_STRATEGIES_STRATEGIES_H
#define INVENTORY_STRATEGIES_STRATEGIES_H

#include "inventory/purchases/purchase.h"

struct strategy {
    void (*start)(struct inventory_purchase *purchase);
};

extern const struct strategy strategy_batch, strategy_lua, strategy_decr, strategy_optimistic, strategy_naive,
    strategy_locked;

/* Starts the purchase by its item's strategy; ends it with REFUSED if that one needs teaching mode. */
void strategy_start(struct inventory_purchase *purchase);

/* `batch`: sends what waits, as far as it may leave. */
void batch_flush(struct inventory *inventory);
void batch_free_spares(struct inventory *inventory);

/* `optimistic`: ends purchases that have waited too long for a connection. */
void optimistic_tick(struct inventory *inventory);
/* Ends all, and closes the connections. */
void optimistic_close(struct inventory *inventory);

#endif
