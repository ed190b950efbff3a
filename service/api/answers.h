/* What the handlers share: the idempotency key, and the answers to what went wrong. */
#ifndef SERVICE_API_ANSWERS_H
#define SERVICE_API_ANSWERS_H

#include <stdbool.h>

#include "inventory/inventory.h"
#include "lock/lock.h"
#include "service/http/http.h"

/* The name of an item's lock. */
enum { LOCK_KEY_SIZE = INVENTORY_NAME_MAX + 16 };
void item_lock_key(char key[LOCK_KEY_SIZE], const char *item);

/* Answers for what went wrong with any call: the store's refusals, reused keys, unknown items and the like.
 */
void answer_status(struct http_request *request, enum inventory_status status);
/* An item's limit, start or end refused it. */
bool answer_is_of_terms(enum inventory_status status);
/* As answer_status() for a purchase that was refused so, with that term. `item` is NULL where it is
 * not known. */
void answer_terms(struct http_request *request, enum inventory_status status,
                  const struct inventory_item *item);
/* As answer_status() for a line of a basket (-1: of a transfer), with its number and item, the units
 * left where it was sold out, and the term that refused it, where `terms` (which may be NULL) are known. */
void answer_line(struct http_request *request, enum inventory_status status, int line, const char *item,
                 int64_t available, const struct inventory_item *terms);
/* That the item exists, and which of its terms are not those of `wanted`. */
void answer_exists(struct http_request *request, const struct inventory_item *item,
                   const struct inventory_item *wanted);

/* As answer_status() where lock_switch_acquire() said so; nothing was done. */
void answer_lock(struct http_request *request, enum lock_status status);

/* Reads the Idempotency-Key into its digest; answers and returns false where it is missing or wrong. */
bool read_idempotency_key(struct http_request *request, char *digest);

#endif
