/* Purchases whose reply was lost. The store may have carried them out: it is asked for the order once it is
 * back.
 *
 * Found: the buyer has it. Not found: it was not sold so far, but the call may still lie in a buffer on the
 * way, or in that of a store that was only stopped, and be carried out later. So the purchase stays UNKNOWN,
 * and the buyer's retry with the same key tells. */
#ifndef INVENTORY_PURCHASES_LOST_H
#define INVENTORY_PURCHASES_LOST_H

#include "inventory/purchases/purchase.h"

/* Asks for the order when the store is back, then ends the purchase. */
void purchase_lost(struct inventory_purchase *purchase);

/* Asks for all of them, if the store is there. */
void lost_resolve(struct purchases *purchases);
/* Ends those that have waited for config.resolve_ms, or all, with UNKNOWN. */
void lost_expire(struct purchases *purchases, bool all);

#endif
