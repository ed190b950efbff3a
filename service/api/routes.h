/* Which call is answered by whom. */
#ifndef SERVICE_API_ROUTES_H
#define SERVICE_API_ROUTES_H

#include <stdbool.h>

#include "inventory/inventory.h"
#include "lock/lock.h"
#include "service/http/http.h"

struct worker;

/* Answers a request, now or later; `ctx` is the worker. */
void routes_handle(void *ctx, struct http_request *request);

/* `name` is what stands for the * of the route, "" where there is none; good until the handler returns. */
typedef void routes_fn(struct worker *worker, struct http_request *request, const char *name);

/* purchases.c */
routes_fn purchases_post;
/* items.c */
routes_fn items_put, items_get, items_restock, items_audit;
/* orders.c */
routes_fn orders_get, orders_confirm, orders_cancel;
/* transactions.c */
routes_fn baskets_post, baskets_get, baskets_confirm, baskets_cancel, transfers_post;
/* operations.c */
routes_fn operations_live, operations_ready, operations_metrics, operations_openapi;

/* locks.c */
routes_fn locks_put, locks_get;

/* The name of an item's lock. */
enum { ROUTES_LOCK_KEY_SIZE = INVENTORY_NAME_MAX + 16 };
void routes_lock_key(char key[ROUTES_LOCK_KEY_SIZE], const char *item);

/* Answers for what went wrong with any call: the store's refusals, reused keys, unknown items and the like.
 */
void routes_answer_status(struct http_request *request, enum inventory_status status);
/* An item's limit, start or end refused it. */
bool routes_is_of_terms(enum inventory_status status);
/* As routes_answer_status() for a purchase that was refused so, with that term. `item` is NULL where it is
 * not known. */
void routes_answer_terms(struct http_request *request, enum inventory_status status,
                         const struct inventory_item *item);
/* As routes_answer_status() for a line of a basket (-1: of a transfer), with its number and item, the units
 * left where it was sold out, and the term that refused it, where `terms` (which may be NULL) are known. */
void routes_answer_line(struct http_request *request, enum inventory_status status, int line,
                        const char *item, int64_t available, const struct inventory_item *terms);
/* That the item exists, and which of its terms are not those of `wanted`. */
void routes_answer_exists(struct http_request *request, const struct inventory_item *item,
                          const struct inventory_item *wanted);

/* As routes_answer_status() where lock_switch_acquire() said so; nothing was done. */
void routes_answer_lock(struct http_request *request, enum lock_status status);

/* Reads the Idempotency-Key into its digest; answers and returns false where it is missing or wrong. */
bool routes_read_key(struct http_request *request, char *digest);

#endif
