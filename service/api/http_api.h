/* The HTTP API: its handlers, and what they share: the idempotency key, bodies in JSON, and problems. */
#ifndef SERVICE_API_HTTP_API_H
#define SERVICE_API_HTTP_API_H

#include "inventory/inventory.h"
#include "inventory/transactions.h"
#include "service/service.h"

/* ---- routes and handlers ---- */

/* Answers a request, now or later; `ctx` is the worker. */
void routes_handle(void *ctx, struct http_request *request);
/* The same where only buyers' calls are served. All else is 404, whatever its method and credentials. */
void routes_handle_buyers(void *ctx, struct http_request *request);

/* `name` is the segment of the path at the * of the route; "" if the route has none. `caller` may make the
 * call; where all may, it has no roles. Both are valid until the handler returns. */
typedef void routes_fn(struct http_request *request, const char *name, const struct caller *caller);

/* Returns the thread of the worker that got the request. */
static inline struct loop_thread *request_thread(const struct http_request *request) {
    return &((struct worker *)request->ctx)->thread;
}

/* Each resource has a file, handle_RESOURCE.c. */
routes_fn purchases_post;
routes_fn items_put, items_get, items_restock, items_audit, items_audit_all;
routes_fn orders_get, orders_pay, orders_confirm, orders_cancel, orders_return;
routes_fn baskets_post, baskets_get, baskets_confirm, baskets_cancel, transfers_post;
routes_fn locks_put, locks_get;
routes_fn readyz_get;

/* ---- callers who have a ticket are one buyer (buyers.c) ---- */

/* The user whose orders the caller may see; NULL: anybody's. */
static inline const char *caller_owner(const struct caller *caller) {
    return caller->user[0] ? caller->user : NULL;
}

/* Completes the `user` of a body, "" if it has none, by the ticket. If the caller may not buy for that user,
 * or there is none, answers and returns false. */
bool buyer_complete_user(struct http_request *request, const struct caller *caller,
                         char user[INVENTORY_USER_MAX + 1]);
/* If the ticket does not admit to the item, answers and returns false. */
bool buyer_check_item(struct http_request *request, const struct caller *caller, const char *item);

/* ---- the idempotency key (idempotency_key.c) ---- */

/* The text lies in the request. Its digest is by inventory_key_digest(), with the user once it is known. */
struct idempotency_key {
    const char *text;
    size_t length;
};

/* Reads the Idempotency-Key. If it is missing or wrong, answers and returns false. */
bool idempotency_key_read(struct http_request *request, struct idempotency_key *key);

/* Answers what was done, with the header Location if that is not NULL, and says whether it was done before.
 */
void idempotency_key_answer(struct http_request *request, int status, const char *body, size_t length,
                            const char *location, bool replayed);

/* ---- bodies in JSON (codec_requests.c, codec_answers.c) ----
 * Only these two files include jansson. The reader is strict: it refuses unknown or doubled fields, fractions
 * and trailing text, and its error names the field. */

struct codec_error {
    char field[32]; /* "body" if no field is wrong, but the whole; the name of an unknown field, with ? for
                       odd characters */
    char detail[160];
};

enum {
    CODEC_BODY_SIZE = 1024,
    CODEC_HEALTH_SIZE = 8192, /* with all servers of the store */
    CODEC_BASKET_SIZE =
        512 + INVENTORY_LINES_MAX * (INVENTORY_ORDER_SIZE + INVENTORY_NAME_MAX + INVENTORY_USER_MAX + 160)
};

struct codec_purchase {
    char item[INVENTORY_NAME_MAX + 1], user[INVENTORY_USER_MAX + 1]; /* user "": the body has none */
    int64_t quantity;
};

struct codec_payment {
    char payment[INVENTORY_PAYMENT_MAX + 1]; /* "": none */
    int64_t seconds;                         /* -1: none were given */
};

struct codec_return {
    int64_t quantity;
    bool restock;
};

enum { CODEC_URL_SIZE = 512 };

/* Reads a body into what stands beside its name. False: the body is wrong; `error` names the field. */
typedef bool codec_reader(const char *body, size_t length, void *into, struct codec_error *error);

codec_reader codec_read_purchase; /* struct codec_purchase */
codec_reader codec_read_item;     /* struct inventory_item, without its name. Defaults: no limit, no hold, no
                                   * window, and the strategy that stands there */
codec_reader codec_read_restock;  /* int64_t: the quantity */
codec_reader codec_read_basket;   /* struct inventory_transaction: the lines, and the user if it has one */
codec_reader codec_read_transfer; /* struct inventory_transaction: the two lines */
codec_reader codec_read_lock;     /* char[CODEC_URL_SIZE]: the URL in {"lock":URL}, as text */
codec_reader codec_read_nothing;  /* NULL: cancel takes no body; {} is allowed */
codec_reader codec_read_payment;  /* struct codec_payment; the reference is required */
codec_reader codec_read_confirm;  /* struct codec_payment, without seconds; the body may be left out */
codec_reader codec_read_return;   /* struct codec_return */

/* Reads the plain form of a purchase, which nearly all clients send: an object of the fields, in any order,
 * without escapes and fractions. That takes 60 ns; codec_read_purchase() takes 970. It reads a plain
 * body to the same result, and all others, above all wrong ones. False: the body is not plain, and `purchase`
 * is untouched. */
bool codec_read_plain_purchase(const char *body, size_t length, struct codec_purchase *purchase);

/* Reads the body of the request. If it is wrong, answers and returns false. */
bool codec_read_request(struct http_request *request, codec_reader *read, void *into);

/* Each returns the length of what it wrote. */
size_t codec_write_order(char out[CODEC_BODY_SIZE], const struct inventory_order *order);
/* Writes the basket in the state transaction->state, and its orders in the same state. */
size_t codec_write_basket(char out[CODEC_BASKET_SIZE], const struct inventory_transaction *basket);
size_t codec_write_transfer(char out[CODEC_BODY_SIZE], const struct inventory_transaction *transfer);
size_t codec_write_item(char out[CODEC_BODY_SIZE], const struct inventory_item *item);
size_t codec_write_restock(char out[CODEC_BODY_SIZE], const char *item,
                           const struct inventory_restock *restock);
size_t codec_write_audit(char out[CODEC_BODY_SIZE], const struct inventory_audit *audit);
size_t codec_write_audit_sum(char out[CODEC_BODY_SIZE], const struct inventory_audit_sum *sum);
/* `baskets` and `transfers` say whether they can be made. */
size_t codec_write_health(char out[CODEC_HEALTH_SIZE], const struct inventory_health *health, bool draining,
                          const char *baskets, const char *transfers);

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
    PROBLEM_IN_PAYMENT,
    PROBLEM_PAYMENT_DIFFERS,
    PROBLEM_OVER_RETURN,
    PROBLEM_UNAUTHORIZED,
    PROBLEM_FORBIDDEN,
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
/* `unauthorized`. `detail`: why the credentials are not good; NULL: there are none, and the call needs some.
 */
void problem_answer_unauthorized(struct http_request *request, const char *detail);
/* `method-not-allowed`, with the methods that are. */
void problem_answer_method(struct http_request *request, const char *allow);
/* For http_config. */
size_t problem_write_refusal(char *out, size_t size, int status, const char *field, const char *detail);

/* Answers with the problem of a status: a refusal of the store, a reused key, an unknown item and so on. */
void problem_answer_status(struct http_request *request, enum inventory_status status);
/* Answers why a step of an order was refused. `order`: as it is now; NULL: it is not known. The answer tells
 * whether a refund is due, and how many units are left to return. */
void problem_answer_order(struct http_request *request, enum inventory_status status,
                          const struct inventory_order *order);
/* Whether the limit, start or end of an item refused. */
bool problem_is_of_terms(enum inventory_status status);
/* Answers why a purchase or a transaction was refused. `item`: the item of the line that was refused; NULL
 * for a purchase. `line`: its number in a basket, otherwise -1. The answer has `available` if the item is
 * sold out. It names the term that refused if `terms` is not NULL. */
void problem_answer_refused(struct http_request *request, enum inventory_status status, int line,
                            const char *item, int64_t available, const struct inventory_item *terms);
/* Answers that the item exists, and which of its terms differ from `wanted`. */
void problem_answer_exists(struct http_request *request, const struct inventory_item *item,
                           const struct inventory_item *wanted);
/* Answers that the lock could not be acquired, and nothing was done. */
void problem_answer_lock(struct http_request *request, enum lock_status status);

#endif
