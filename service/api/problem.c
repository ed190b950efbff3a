#include "service/api/problem.h"

#include <stdio.h>

enum { FIELD_SIZE = 100 };

static const struct {
    int status;
    const char *name, *title;
} problems[PROBLEMS] = {
    [PROBLEM_SOLD_OUT] = {409, "sold-out", "Sold out"},
    [PROBLEM_PURCHASE_LIMIT] = {409, "purchase-limit", "Purchase limit reached"},
    [PROBLEM_NOT_STARTED] = {409, "not-started", "Sale not started"},
    [PROBLEM_ENDED] = {409, "ended", "Sale ended"},
    [PROBLEM_UNKNOWN_ITEM] = {404, "unknown-item", "Unknown item"},
    [PROBLEM_UNKNOWN_ORDER] = {404, "unknown-order", "Unknown order"},
    [PROBLEM_UNKNOWN_BASKET] = {404, "unknown-basket", "Unknown basket"},
    [PROBLEM_BASKET_ORDER] = {409, "basket-order", "Order of a held basket"},
    [PROBLEM_CROSS_SLOT] = {409, "cross-slot", "Items in several slots"},
    [PROBLEM_ITEM_EXISTS] = {409, "item-exists", "Item exists"},
    [PROBLEM_KEY_MISSING] = {400, "key-missing", "Idempotency key missing"},
    [PROBLEM_KEY_REUSED] = {422, "key-reused", "Idempotency key reused"},
    [PROBLEM_INVALID_REQUEST] = {400, "invalid-request", "Invalid request"},
    [PROBLEM_TOO_LARGE] = {413, "too-large", "Request too large"},
    [PROBLEM_ORDER_CONFIRMED] = {409, "order-confirmed", "Order confirmed already"},
    [PROBLEM_ORDER_CANCELLED] = {409, "order-cancelled", "Order cancelled already"},
    [PROBLEM_ORDER_EXPIRED] = {410, "order-expired", "Order expired"},
    [PROBLEM_UNAUTHORIZED] = {401, "unauthorized", "Unauthorized"},
    [PROBLEM_TEACHING_ONLY] = {409, "teaching-only", "Unsafe strategy refused"},
    [PROBLEM_OVERLOADED] = {503, "overloaded", "Overloaded"},
    [PROBLEM_STORE_UNAVAILABLE] = {503, "store-unavailable", "Store unavailable"},
    [PROBLEM_LOCK_UNAVAILABLE] = {503, "lock-unavailable", "Lock unavailable"},
    [PROBLEM_NOT_FOUND] = {404, "not-found", "Not found"},
    [PROBLEM_METHOD_NOT_ALLOWED] = {405, "method-not-allowed", "Method not allowed"},
    [PROBLEM_UNSUPPORTED_ENCODING] = {415, "unsupported-encoding", "Unsupported content coding"},
    [PROBLEM_TARGET_TOO_LONG] = {414, "target-too-long", "Request target too long"},
    [PROBLEM_HEAD_TOO_LARGE] = {431, "head-too-large", "Request head too large"},
    [PROBLEM_UNKNOWN_CODING] = {501, "unknown-coding", "Unknown transfer coding"},
    [PROBLEM_UNSUPPORTED_VERSION] = {505, "unsupported-version", "Unsupported version of HTTP"},
};

int problem_status(enum problem problem) {
    return problems[problem].status;
}

const char *problem_name(enum problem problem) {
    return problems[problem].name;
}

/* `extra` is further members, each with its comma before it. */
static size_t print(char *out, size_t size, enum problem problem, const char *detail, const char *extra) {
    int length = snprintf(
        out, size, "{\"type\":\"/problems/%s\",\"title\":\"%s\",\"status\":%d,\"detail\":\"%.300s\"%.160s}",
        problems[problem].name, problems[problem].title, problems[problem].status, detail, extra);
    return (size_t)length < size ? (size_t)length : size - 1;
}

static void answer(struct http_request *request, enum problem problem, const char *detail, const char *extra,
                   const char *const *headers) {
    char body[640];
    size_t length = print(body, sizeof body, problem, detail, extra);
    http_answer(request, problems[problem].status, "application/problem+json", body, length, headers);
}

void problem_answer_members(struct http_request *request, enum problem problem, const char *detail,
                            const char *members) {
    static const char *const retry[] = {"Retry-After", "1", NULL};
    static const char *const challenge[] = {"WWW-Authenticate", "Bearer realm=\"seckill\"", NULL};
    static const char *const identity[] = {"Accept-Encoding", "identity", NULL};
    const char *const *headers = NULL;
    if (problems[problem].status == 503)
        headers = retry;
    else if (problem == PROBLEM_UNAUTHORIZED)
        headers = challenge;
    else if (problem == PROBLEM_UNSUPPORTED_ENCODING)
        headers = identity;
    answer(request, problem, detail, members, headers);
}

void problem_answer(struct http_request *request, enum problem problem, const char *detail) {
    problem_answer_members(request, problem, detail, "");
}

static void write_field(char extra[FIELD_SIZE], const char *field) {
    snprintf(extra, FIELD_SIZE, ",\"field\":\"%.70s\"", field);
}

void problem_answer_field(struct http_request *request, const char *field, const char *detail) {
    char extra[FIELD_SIZE];
    write_field(extra, field);
    answer(request, PROBLEM_INVALID_REQUEST, detail, extra, NULL);
}

void problem_answer_method(struct http_request *request, const char *allow) {
    answer(request, PROBLEM_METHOD_NOT_ALLOWED, "see the Allow header", "",
           (const char *const[]){"Allow", allow, NULL});
}

size_t problem_write_refusal(char *out, size_t size, int status, const char *field, const char *detail) {
    static const enum problem refusals[] = {PROBLEM_TOO_LARGE, PROBLEM_TARGET_TOO_LONG,
                                            PROBLEM_HEAD_TOO_LARGE, PROBLEM_UNKNOWN_CODING,
                                            PROBLEM_UNSUPPORTED_VERSION};
    char extra[FIELD_SIZE] = "";
    for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++)
        if (problems[refusals[i]].status == status)
            return print(out, size, refusals[i], detail, "");
    write_field(extra, field);
    return print(out, size, PROBLEM_INVALID_REQUEST, detail, extra);
}
