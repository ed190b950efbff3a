/* Holds: what settles them, and what expires those that are due. */
#ifndef INVENTORY_PURCHASES_HOLDS_H
#define INVENTORY_PURCHASES_HOLDS_H

#include "inventory/purchases/purchases.h"

/* Confirms, cancels or expires (settle.lua). */
extern const struct redis_script settle_script;

/* To be called with the reply to a call that expiring begins with. If the reply took long, the store stood
 * still, and confirms that came in time may reach it only now: nothing expires by itself for
 * INVENTORY_HOLD_GRACE_MS. */
void expiry_note_call(struct purchases *purchases, int64_t sent_ms);
bool expiry_rests(const struct purchases *purchases);

#endif
