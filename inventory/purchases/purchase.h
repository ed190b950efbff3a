/* How a purchase goes on and ends, whatever its strategy. */
#ifndef INVENTORY_PURCHASES_PURCHASE_H
#define INVENTORY_PURCHASES_PURCHASE_H

#include "inventory/purchases/purchases.h"

struct lane *lane_of(struct purchases *purchases, const struct item *item);
/* Puts the item in line: inventory_flush() sends what waits for it. */
void lane_add(struct lane *lane, struct item *item);
/* Takes the first item in line; NULL: there is none. */
struct item *lane_take(struct lane *lane);

/* Has inventory_flush() start the purchase by its item's strategy, which may have changed. */
void purchase_again(struct inventory_purchase *purchase);

/* The purchase is carried out over this connection, beside purchases->shared->store; NULL: by that store. */
void purchase_set_connection(struct inventory_purchase *purchase, const struct redis *redis);

/* Ends a purchase. */
void purchase_finish(struct inventory_purchase *purchase, enum inventory_status status);

/* Ends it with OK and the order as just written. */
void purchase_sold(struct inventory_purchase *purchase, int64_t now_ms, int64_t expires_ms);

/* Ends it with the order that its key has: REPLAYED, or KEY_REUSED. OK if the order was written since
 * `sent_ms` by this instance's clock (0: no such time): then it is the order whose reply was lost. An earlier
 * attempt with the same key is taken for it if it was written within CLOCKS_APART_MS before; it is the
 * buyer's order all the same. */
void purchase_found(struct inventory_purchase *purchase, const char *record, int64_t sent_ms);

/* ---- purchases whose reply was lost ----
 *
 * The store may have carried them out: it is asked for the order once it is
 * back.
 *
 * Found: the buyer has it. Not found: it was not sold so far, but the call may still lie in a buffer on the
 * way, or in that of a store that was only stopped, and be carried out later. So the purchase stays UNKNOWN,
 * and the buyer's retry with the same key tells. */

/* Asks for the order when the store is back, then ends the purchase. */
void purchase_lost(struct inventory_purchase *purchase);

/* Asks for all of them, if the store is there. */
void lost_resolve(struct purchases *purchases);
/* Ends those that have waited for config.resolve_ms, or all, with UNKNOWN. */
void lost_expire(struct purchases *purchases, bool all);

#endif
