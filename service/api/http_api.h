/* The HTTP API: its handlers, and what they share. */
#ifndef SERVICE_API_HTTP_API_H
#define SERVICE_API_HTTP_API_H

#include "service/service.h"

/* ---- routes and handlers ---- */

/* Answers a request, now or later; `ctx` is the worker. */
void routes_handle(void *ctx, struct http_request *request);

/* `name` is the segment of the path at the * of the route; "" if the route has none. Valid until the handler
 * returns. */
typedef void routes_fn(struct worker *worker, struct http_request *request, const char *name);

/* Each resource has a file, handle_RESOURCE.c. */
routes_fn purchases_post;
routes_fn items_put, items_get, items_restock, items_audit, items_audit_all;
routes_fn orders_get, orders_confirm, orders_cancel;
routes_fn baskets_post, baskets_get, baskets_confirm, baskets_cancel, transfers_post;
routes_fn locks_put, locks_get;
routes_fn readyz_get;

/* ---- the idempotency key (idempotency_key.c) ---- */

/* The text lies in the request. Its digest is by inventory_key_digest(), with the user once it is known. */
struct idempotency_key {
    const char *text;
    size_t length;
};

/* Reads the Idempotency-Key. If it is missing or wrong, answers and returns false. */
bool idempotency_key_read(struct http_request *request, struct idempotency_key *key);

/* ---- problems (problems.c): errors as application/problem+json (RFC 9457) ----
 * A type, once given out, stays. */

enum problem {
    PROBLEM_SOLD_OUT,
    PROBLEM_PURCHASE_LIMIT,
    PROBLEM_NOT_STARTED,
    PROBLEM_ENDED,
    PROBLEM_UNKNOWN_ITEM,
    PROBLEM_UNKNOWN_ORDER,
    PROBLEM_UNKNOWN_BASKET,
    PROBLEM_BASKET_ORDER,
    PROBLEM_CROSS_SLOT,
    PROBLEM_ITEM_EXISTS,
    PROBLEM_KEY_MISSING,
    PROBLEM_KEY_REUSED,
    PROBLEM_INVALID_REQUEST,
    PROBLEM_TOO_LARGE,
    PROBLEM_ORDER_CONFIRMED,
    PROBLEM_ORDER_CANCELLED,
    PROBLEM_ORDER_EXPIRED,
    PROBLEM_UNAUTHORIZED,
    PROBLEM_TEACHING_ONLY,
    PROBLEM_OVERLOADED,
    PROBLEM_STORE_UNAVAILABLE,
    PROBLEM_LOCK_UNAVAILABLE,
    PROBLEM_NOT_FOUND,
    PROBLEM_METHOD_NOT_ALLOWED,
    PROBLEM_UNSUPPORTED_ENCODING,
    PROBLEM_TARGET_TOO_LONG,
    PROBLEM_HEAD_TOO_LARGE,
    PROBLEM_UNKNOWN_CODING,
    PROBLEM_UNSUPPORTED_VERSION,
    PROBLEMS
};

struct problem_type {
    int status;
    const char *name; /* the last segment of the type */
    const char *title;
};
extern const struct problem_type problem_types[PROBLEMS];

/* Answers with the problem. `detail` is for people and must need no escaping in JSON. */
void problem_answer(struct http_request *request, enum problem problem, const char *detail);
/* `invalid-request`, which names the field. */
void problem_answer_field(struct http_request *request, const char *field, const char *detail);
/* `method-not-allowed`, with the methods that are. */
void problem_answer_method(struct http_request *request, const char *allow);
/* For http_config. */
size_t problem_write_refusal(char *out, size_t size, int status, const char *field, const char *detail);

/* Answers with the problem of a status: a refusal of the store, a reused key, an unknown item and so on. */
void problem_answer_status(struct http_request *request, enum inventory_status status);
/* Whether the limit, start or end of an item refused. */
bool problem_is_of_terms(enum inventory_status status);
/* Answers that a purchase (`item` NULL) or a line of a basket (-1: a transfer) was refused: with the line and
 * its item, with `available` if it is sold out, and with the term that refused if `terms` is not NULL. */
void problem_answer_refused(struct http_request *request, enum inventory_status status, int line,
                            const char *item, int64_t available, const struct inventory_item *terms);
/* Answers that the item exists, and which of its terms differ from `wanted`. */
void problem_answer_exists(struct http_request *request, const struct inventory_item *item,
                           const struct inventory_item *wanted);
/* Answers that the lock could not be acquired, and nothing was done. */
void problem_answer_lock(struct http_request *request, enum lock_status status);

#endif
