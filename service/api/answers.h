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

/* Answers with the problem of a status: a refusal of the store, a reused key, an unknown item and so on. */
void answer_status(struct http_request *request, enum inventory_status status);
/* Whether the limit, start or end of an item refused. */
bool answer_is_of_terms(enum inventory_status status);
/* Answers that a purchase (`item` NULL) or a line of a basket (-1: a transfer) was refused: with the line and
 * its item, with `available` if it is sold out, and with the term that refused if `terms` is not NULL. */
void answer_refused(struct http_request *request, enum inventory_status status, int line, const char *item,
                    int64_t available, const struct inventory_item *terms);
/* Answers that the item exists, and which of its terms differ from `wanted`. */
void answer_exists(struct http_request *request, const struct inventory_item *item,
                   const struct inventory_item *wanted);

/* Answers that the lock could not be acquired, and nothing was done. */
void answer_lock(struct http_request *request, enum lock_status status);

/* The text lies in the request. Its digest is by inventory_key_digest(), with the user once it is known. */
struct idempotency_key {
    const char *text;
    size_t length;
};

/* Reads the Idempotency-Key. If it is missing or wrong, answers and returns false. */
bool read_idempotency_key(struct http_request *request, struct idempotency_key *read);

#endif
