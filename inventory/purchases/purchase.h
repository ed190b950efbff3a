/* How a purchase waits, starts again and ends, whatever its strategy. */
#ifndef INVENTORY_PURCHASES_PURCHASE_H
#define INVENTORY_PURCHASES_PURCHASE_H

#include "inventory/purchases/purchases.h"

/* The lane of the item. */
struct lane *lane_of(struct purchases *purchases, const struct item *item);
/* Puts the item in line: inventory_flush() sends what waits for it. */
void lane_add(struct lane *lane, struct item *item);
/* Takes the first item in line; NULL: no item waits. */
struct item *lane_take(struct lane *lane);

/* Has inventory_flush() start the purchase by its item's strategy, which may have changed. */
void purchase_again(struct inventory_purchase *purchase);

/* Says which connection carries the purchase out; NULL: purchases->shared->store. */
void purchase_set_connection(struct inventory_purchase *purchase, const struct redis *redis);

/* Ends the purchase: calls its `done` with `status`. */
void purchase_finish(struct inventory_purchase *purchase, enum inventory_status status);

/* Ends it with OK and the order as just written. */
void purchase_sold(struct inventory_purchase *purchase, int64_t now_ms, int64_t expires_ms);

/* Ends it with the order that its key has: REPLAYED, or KEY_REUSED. OK if the order was written since
 * `sent_ms` by this instance's clock (0: no such time): then it is the order whose reply was lost. An order
 * of an earlier attempt with the same key is taken for it if it is older by CLOCKS_APART_MS at most; it is
 * the buyer's order all the same. */
void purchase_found(struct inventory_purchase *purchase, const char *record, int64_t sent_ms);

/* ---- purchases whose reply was lost ----
 *
 * The store may have carried them out, so it is asked for the order once it is back.
 *
 * If the order is there, the buyer has it. If not, it was not sold so far; but the call may still lie in a
 * buffer on the way, or in a store that was only stopped, and be carried out later. So the purchase stays
 * UNKNOWN, and the buyer's retry with the same key tells. */

/* Asks for the order when the store is back, then ends the purchase. */
void purchase_lost(struct inventory_purchase *purchase);

/* Asks for the orders of all lost purchases whose server is up. */
void lost_resolve(struct purchases *purchases);
/* Ends lost purchases that have waited for config.resolve_ms, or all of them, with UNKNOWN. */
void lost_expire(struct purchases *purchases, bool all);

#endif
