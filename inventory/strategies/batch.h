/* Strategies `batch` and `lua`: one script call for all purchases of an item that wait, or one for each. */
#ifndef INVENTORY_STRATEGIES_BATCH_H
#define INVENTORY_STRATEGIES_BATCH_H

#include "inventory/purchases/purchase.h"

/* Sends the calls that the item's queue allows. */
void batch_flush(struct inventory *inventory, struct item *item);
void batch_free_spares(struct inventory *inventory);

#endif
