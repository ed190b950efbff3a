/* The index of due times: when an item's next hold may be due, so that an item without holds costs nothing.
 * It is spread over a few slots, which are not those of the items, and no call writes to both. The invariant:
 * an item that has holds is in the index, with a score that is not later than its earliest hold.
 *
 * - The first hold of an item: the script refuses it, and tells when a hold that begins now would end. The
 * item is entered with that score. Then the call is sent again and says until when the entry stands; the
 * script refuses it once that time is over. Entering never makes a score earlier, so no entry goes before its
 * time.
 * - A sweep reads the entries that are due and expires the holds of their items. Then it moves each entry to
 * its item's next hold, or removes it, unless another score stands there by then.
 * - A strategy without a script touches the entry right before the hold, and waits for the reply: the score
 * becomes a little earlier, or the item is entered. So a sweep that has seen no hold leaves the entry alone.
 * Such a hold is missed only if a whole sweep of a due entry (three calls) comes between touch and hold.
 *
 * A process that dies in between leaves an entry too many, or one that is too early; the next sweep of any
 * process mends it. Many processes may sweep at once: a hold expires once. What a failover loses of the index
 * is entered again by those who acknowledged the holds (receipts.h); by a purchase, once a hold is over for a
 * minute; and by an audit. The entry is due at once then, and one that stands is left alone. */
#ifndef INVENTORY_PURCHASES_DUE_H
#define INVENTORY_PURCHASES_DUE_H

#include "base/redis/async/router.h"
#include "inventory/model/keys.h"

/* Enters the item in the index for `due_ms` or later, as router_call() does. Before an item's first hold: the
 * reply must be there before the hold is written. */
void due_enter_first(struct router *store, const char *item, int64_t due_ms, redis_reply_fn *fn, void *ctx);
/* The same right before a hold that ends at `due_ms`. */
void due_touch(struct router *store, const char *item, int64_t due_ms, redis_reply_fn *fn, void *ctx);

/* Whether the server that has this part of the index can be sent calls. */
bool due_is_up(struct router *store, unsigned part);

/* Enters an item that has holds, unless it is there. Not waited for. */
void due_mend(struct router *store, const char *item);

#endif
