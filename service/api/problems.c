/* Problems: the types of errors, and the answers with them. */
#include <stdio.h>
#include <string.h>

#include "service/api/http_api.h"
#include "service/rfc3339.h"

enum { FIELD_SIZE = 100 };

const struct problem_type problem_types[PROBLEMS] = {
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
    [PROBLEM_IN_PAYMENT] = {409, "in-payment", "Order is being paid"},
    [PROBLEM_PAYMENT_DIFFERS] = {409, "payment-differs", "Another payment"},
    [PROBLEM_OVER_RETURN] = {409, "over-return", "Too much returned"},
    [PROBLEM_UNAUTHORIZED] = {401, "unauthorized", "Unauthorized"},
    [PROBLEM_FORBIDDEN] = {403, "forbidden", "Forbidden"},
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

/* `extra` has further members, each with its comma before it. */
static size_t problem_print(char *out, size_t size, enum problem problem, const char *detail,
                            const char *extra) {
    int length = snprintf(
        out, size, "{\"type\":\"/problems/%s\",\"title\":\"%s\",\"status\":%d,\"detail\":\"%.300s\"%.160s}",
        problem_types[problem].name, problem_types[problem].title, problem_types[problem].status, detail,
        extra);
    return (size_t)length < size ? (size_t)length : size - 1;
}

/* Answers with further members, each with its comma before it, 160 characters at most. `header`: the value of
 * Allow or WWW-Authenticate, for the problems that need it; otherwise NULL. */
static void problem_send(struct http_request *request, enum problem problem, const char *detail,
                         const char *members, const char *header) {
    static const char *const retry[] = {"Retry-After", "1", NULL};
    static const char *const identity[] = {"Accept-Encoding", "identity", NULL};
    const char *const own[] = {problem == PROBLEM_UNAUTHORIZED ? "WWW-Authenticate" : "Allow", header, NULL},
                      *const *headers = header ? own : NULL;
    if (problem_types[problem].status == 503)
        headers = retry;
    else if (problem == PROBLEM_UNSUPPORTED_ENCODING)
        headers = identity;
    char body[640];
    size_t length = problem_print(body, sizeof body, problem, detail, members);
    request->problem = problem_types[problem].name;
    http_answer(request, problem_types[problem].status, "application/problem+json", body, length, headers);
}

void problem_answer(struct http_request *request, enum problem problem, const char *detail) {
    problem_send(request, problem, detail, "", NULL);
}

static const char *problem_print_field(char member[FIELD_SIZE], const char *field) {
    snprintf(member, FIELD_SIZE, ",\"field\":\"%.70s\"", field);
    return member;
}

void problem_answer_field(struct http_request *request, const char *field, const char *detail) {
    char member[FIELD_SIZE];
    problem_send(request, PROBLEM_INVALID_REQUEST, detail, problem_print_field(member, field), NULL);
}

void problem_answer_method(struct http_request *request, const char *allow) {
    problem_send(request, PROBLEM_METHOD_NOT_ALLOWED, "see the Allow header", "", allow);
}

/* The challenges are those of RFC 6750. */
void problem_answer_unauthorized(struct http_request *request, const char *detail) {
    if (detail)
        problem_send(request, PROBLEM_UNAUTHORIZED, detail, "",
                     "Bearer realm=\"seckill\", error=\"invalid_token\"");
    else
        problem_send(request, PROBLEM_UNAUTHORIZED,
                     "this call needs Authorization: Bearer and a token or a ticket", "",
                     "Bearer realm=\"seckill\"");
}

size_t problem_write_refusal(char *out, size_t size, int status, const char *field, const char *detail) {
    char member[FIELD_SIZE];
    /* Of the statuses that http_head.c refuses with, only 400 has several problems. */
    for (enum problem problem = 0; status != 400 && problem < PROBLEMS; problem++)
        if (problem_types[problem].status == status)
            return problem_print(out, size, problem, detail, "");
    return problem_print(out, size, PROBLEM_INVALID_REQUEST, detail, problem_print_field(member, field));
}

/* ---- what the inventory or a lock refused ---- */

/* The problem and the detail of each status that is a failure. */
static const struct refusal {
    enum problem problem;
    const char *detail;
} refusals[INVENTORY_UNKNOWN + 1] = {
    [INVENTORY_SOLD_OUT] = {PROBLEM_SOLD_OUT, "fewer units are left than wanted"},
    [INVENTORY_LIMIT] = {PROBLEM_PURCHASE_LIMIT, "the user would have more than the item allows"},
    [INVENTORY_NOT_STARTED] = {PROBLEM_NOT_STARTED, "see the item's starts_at"},
    [INVENTORY_ENDED] = {PROBLEM_ENDED, "see the item's ends_at"},
    [INVENTORY_UNKNOWN_ITEM] = {PROBLEM_UNKNOWN_ITEM, "there is no such item"},
    [INVENTORY_UNKNOWN_ORDER] = {PROBLEM_UNKNOWN_ORDER, "there is no such order"},
    [INVENTORY_UNKNOWN_BASKET] = {PROBLEM_UNKNOWN_BASKET, "there is no such basket"},
    [INVENTORY_OF_BASKET] = {PROBLEM_BASKET_ORDER, "the order is part of a basket: do this with the basket"},
    [INVENTORY_PENDING] = {PROBLEM_OVERLOADED, "it is in flight already; retry with the same key"},
    [INVENTORY_CROSS_SLOT] = {PROBLEM_CROSS_SLOT,
                              "no one script reaches items in several slots of a Redis Cluster; it takes a "
                              "service with --basket locked"},
    [INVENTORY_EXISTS] = {PROBLEM_ITEM_EXISTS, "the item exists on other terms, which do not change"},
    [INVENTORY_KEY_REUSED] = {PROBLEM_KEY_REUSED, "this key was used for another request"},
    [INVENTORY_CONFIRMED] = {PROBLEM_ORDER_CONFIRMED, "it was confirmed first"},
    [INVENTORY_CANCELLED] = {PROBLEM_ORDER_CANCELLED, "it was cancelled first"},
    [INVENTORY_EXPIRED] = {PROBLEM_ORDER_EXPIRED, "the hold ran out first, its units went back"},
    [INVENTORY_IN_PAYMENT] = {PROBLEM_IN_PAYMENT, "the order is being paid; the shop may cancel it"},
    [INVENTORY_PAYMENT_DIFFERS] = {PROBLEM_PAYMENT_DIFFERS,
                                   "the order has another payment, or was confirmed without one"},
    [INVENTORY_OVER_RETURN] = {PROBLEM_OVER_RETURN, "fewer units of the order are left to return"},
    [INVENTORY_REFUSED] = {PROBLEM_TEACHING_ONLY,
                           "this strategy oversells; it needs a service started with --teaching"},
    [INVENTORY_STALE] =
        {PROBLEM_OVERLOADED,
         "the lock was lost to another, or another attempt with this key came between; this one "
         "did nothing, retry with the same key"},
    [INVENTORY_OVERLOADED] = {PROBLEM_OVERLOADED, "too many requests wait; nothing was done"},
    [INVENTORY_UNKNOWN] =
        {PROBLEM_STORE_UNAVAILABLE,
         "the store did not reply, or too few replicas have it yet, or another attempt with this key is in "
         "flight: it may have been done, but is not safe yet; send the same request again to learn it"},
    [INVENTORY_UNAVAILABLE] = {PROBLEM_STORE_UNAVAILABLE,
                               "the store cannot be used now; retry with the same key"},
};

/* Without a row of its own, a status must not be answered as the first problem, which is "sold out". */
static const struct refusal *refusal_find(enum inventory_status status) {
    return &refusals[refusals[status].detail ? status : INVENTORY_UNAVAILABLE];
}

void problem_answer_status(struct http_request *request, enum inventory_status status) {
    const struct refusal *refusal = refusal_find(status);
    problem_answer(request, refusal->problem, refusal->detail);
}

void problem_answer_order(struct http_request *request, enum inventory_status status,
                          const struct inventory_order *order) {
    const struct refusal *refusal = refusal_find(status);
    char members[64] = "";
    if (status == INVENTORY_PAY_TOO_LONG)
        problem_answer_field(request, "seconds", "must not be more than the item's pay_seconds");
    else if (order && status == INVENTORY_OVER_RETURN)
        snprintf(members, sizeof members, ",\"left\":%lld",
                 order->state == INVENTORY_STATE_CONFIRMED || order->state == INVENTORY_STATE_RETURNED
                     ? (long long)(order->quantity - order->returned)
                     : 0);
    else if (order && order->refund_due && (status == INVENTORY_EXPIRED || status == INVENTORY_CANCELLED))
        snprintf(members, sizeof members, ",\"refund_due\":true");
    if (status != INVENTORY_PAY_TOO_LONG)
        problem_send(request, refusal->problem, refusal->detail, members, NULL);
}

bool problem_is_of_terms(enum inventory_status status) {
    return status == INVENTORY_LIMIT || status == INVENTORY_NOT_STARTED || status == INVENTORY_ENDED;
}

/* If the term is not known (there is no item, or it was created anew meanwhile), the detail is that of the
 * status. */
void problem_answer_refused(struct http_request *request, enum inventory_status status, int line,
                            const char *item, int64_t available, const struct inventory_item *terms) {
    const struct refusal *refusal = refusal_find(status);
    const char *detail = refusal->detail;
    char text[128], members[160] = "", time[RFC3339_SIZE];
    bool starts = status == INVENTORY_NOT_STARTED, by_time = starts || status == INVENTORY_ENDED;
    bool of_line =
        status == INVENTORY_SOLD_OUT || status == INVENTORY_UNKNOWN_ITEM || problem_is_of_terms(status);
    int64_t at_ms = !terms || !by_time ? 0 : starts ? terms->starts_ms : terms->ends_ms;
    int length = 0;
    if (status == INVENTORY_SOLD_OUT) {
        length = snprintf(members, sizeof members, ",\"available\":%lld", (long long)available);
    } else if (terms && status == INVENTORY_LIMIT && terms->limit) {
        snprintf(text, sizeof text, "the user would have more than the item allows, which is %lld",
                 (long long)terms->limit);
        detail = text;
        length = snprintf(members, sizeof members, ",\"limit\":%lld", (long long)terms->limit);
    } else if (at_ms) {
        rfc3339_print(at_ms, time);
        snprintf(text, sizeof text, "the sale %s at %s", starts ? "starts" : "ended", time);
        detail = text;
        length = snprintf(members, sizeof members, ",\"%s\":\"%s\"", starts ? "starts_at" : "ends_at", time);
    }
    if (of_line && line >= 0)
        length += snprintf(members + length, sizeof members - (size_t)length, ",\"line\":%d", line);
    if (of_line && item)
        snprintf(members + length, sizeof members - (size_t)length, ",\"item\":\"%s\"", item);
    problem_send(request, refusal->problem, detail, members, NULL);
}

/* Appends a term that differs to the detail and to the list. */
static void problem_append_term(char *detail, size_t size, char *list, size_t list_size, const char *name,
                                const char *value) {
    size_t length = strlen(detail), listed = strlen(list);
    snprintf(detail + length, size - length, "%s %s %s", listed ? "," : "", name, value);
    snprintf(list + listed, list_size - listed, "%s\"%s\"", listed ? "," : "", name);
}

void problem_answer_exists(struct http_request *request, const struct inventory_item *item,
                           const struct inventory_item *wanted) {
    const struct {
        const char *name;
        int64_t stands, wanted;
        bool time;
    } terms[] = {{"stock", item->initial, wanted->initial, false},
                 {"per_user_limit", item->limit, wanted->limit, false},
                 {"hold_seconds", item->hold_ms / 1000, wanted->hold_ms / 1000, false},
                 {"pay_seconds", item->pay_ms / 1000, wanted->pay_ms / 1000, false},
                 {"starts_at", item->starts_ms, wanted->starts_ms, true},
                 {"ends_at", item->ends_ms, wanted->ends_ms, true}};
    char detail[256] = "terms do not change; it is on sale with", list[128] = "", members[160],
         text[RFC3339_SIZE];
    for (size_t i = 0; i < sizeof terms / sizeof *terms; i++) {
        if (terms[i].stands == terms[i].wanted)
            continue;
        snprintf(text, sizeof text, "%lld", (long long)terms[i].stands);
        if (terms[i].time && terms[i].stands)
            rfc3339_print(terms[i].stands, text);
        problem_append_term(detail, sizeof detail, list, sizeof list, terms[i].name,
                            terms[i].time && !terms[i].stands ? "left out" : text);
    }
    if (item->strategy != wanted->strategy)
        problem_append_term(detail, sizeof detail, list, sizeof list, "strategy",
                            inventory_strategy_name(item->strategy));
    snprintf(members, sizeof members, ",\"differs\":[%s]", list);
    if (*list)
        problem_send(request, PROBLEM_ITEM_EXISTS, detail, members, NULL);
    else /* the item was created anew meanwhile */
        problem_answer_status(request, INVENTORY_EXISTS);
}

void problem_answer_lock(struct http_request *request, enum lock_status status) {
    if (status == LOCK_TIMEOUT)
        problem_answer(request, PROBLEM_OVERLOADED,
                       "the lock was not free in time; nothing was done, retry with the same key");
    else
        problem_answer(
            request, PROBLEM_LOCK_UNAVAILABLE,
            status == LOCK_CANCELLED
                ? "no lock is in force now; nothing was done, retry with the same key"
                : "the lock's store cannot be used now; nothing was done, retry with the same key");
}
