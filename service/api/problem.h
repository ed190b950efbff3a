/* Errors as application/problem+json (RFC 9457). A type, once given out, stays. */
#ifndef SERVICE_API_PROBLEM_H
#define SERVICE_API_PROBLEM_H

#include "service/http/http.h"

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

int problem_status(enum problem problem);
/* The last segment of its type. */
const char *problem_name(enum problem problem);

/* Answers with the problem. `detail` is for people and must need no escaping in JSON. */
void problem_answer(struct http_request *request, enum problem problem, const char *detail);

/* The same with further members, each with its comma before it, 160 characters at most. */
void problem_answer_members(struct http_request *request, enum problem problem, const char *detail,
                            const char *members);

/* `invalid-request`, which names the field. */
void problem_answer_field(struct http_request *request, const char *field, const char *detail);

/* `method-not-allowed`, with the methods that are. */
void problem_answer_method(struct http_request *request, const char *allow);

/* For http_config. */
size_t problem_write_refusal(char *out, size_t size, int status, const char *field, const char *detail);

#endif
