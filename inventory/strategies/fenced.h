/* The calls of fenced.lua: read and write under a lock, each refused if a newer fencing token was seen
 * (strategy `locked`). */
#ifndef INVENTORY_STRATEGIES_FENCED_H
#define INVENTORY_STRATEGIES_FENCED_H

#include "inventory/purchases/purchase.h"

/* Sends the read. If fenced_decode() says OK, the reply is {word, what item_read() reads, the user's units,
 * the store's time}. */
void fenced_send_read(struct inventory_purchase *purchase, redis_reply_fn *fn);
/* Sends the write of purchase->read->record. */
void fenced_send_write(struct inventory_purchase *purchase, int64_t expires_ms, redis_reply_fn *fn);
/* The reply to either: OK; REPLAYED (fills in read->order); SOLD_OUT (fills in read->available); LIMIT,
 * STALE, UNKNOWN_ITEM; or as store_status(). */
enum inventory_status fenced_decode(struct inventory_purchase *purchase, const struct redis_value *value);

#endif
