#include "service/api/answers.h"

#include <stdio.h>
#include <string.h>

#include "service/api/problem.h"
#include "service/rfc3339.h"

void item_lock_key(char key[LOCK_KEY_SIZE], const char *item) {
    snprintf(key, LOCK_KEY_SIZE, "seckill:%s", item);
}

bool read_idempotency_key(struct http_request *request, struct idempotency_key *read) {
    const char *key;
    size_t length, visible = 0;
    int count = http_request_header(request, "Idempotency-Key", &key, &length);
    while (visible < length && key[visible] > 0x20 && key[visible] < 0x7f)
        visible++;
    if (count == 1 && length > 0 && length <= INVENTORY_KEY_MAX && visible == length) {
        *read = (struct idempotency_key){key, length};
        return true;
    }
    char detail[128];
    if (count == 0)
        snprintf(detail, sizeof detail, "send an Idempotency-Key header, the same one for each retry");
    else if (count > 1)
        snprintf(detail, sizeof detail, "is there %d times; which one is meant?", count);
    else if (length == 0)
        snprintf(detail, sizeof detail, "the Idempotency-Key header is empty");
    else if (visible < length)
        snprintf(detail, sizeof detail, "has a character at %zu, counted from 0, that is not visible ASCII",
                 visible);
    else
        snprintf(detail, sizeof detail, "has %zu characters, at most %d may be", length, INVENTORY_KEY_MAX);
    if (count > 1 || length > 0)
        problem_answer_field(request, "Idempotency-Key", detail);
    else
        problem_answer(request, PROBLEM_KEY_MISSING, detail);
    return false;
}

void answer_lock(struct http_request *request, enum lock_status status) {
    if (status == LOCK_TIMEOUT)
        problem_answer(request, PROBLEM_OVERLOADED,
                       "the lock was not free in time; nothing was done, retry with the same key");
    else if (status == LOCK_CANCELLED)
        problem_answer(request, PROBLEM_LOCK_UNAVAILABLE,
                       "no lock is in force now; nothing was done, retry with the same key");
    else
        problem_answer(request, PROBLEM_LOCK_UNAVAILABLE,
                       "the lock's store cannot be used now; nothing was done, retry with the same key");
}

/* The problem and the text of each status that is a failure. */
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
    [INVENTORY_OF_BASKET] = {PROBLEM_BASKET_ORDER,
                             "the order is part of a held basket: confirm or cancel that"},
    [INVENTORY_PENDING] = {PROBLEM_OVERLOADED, "it is in flight already; retry with the same key"},
    [INVENTORY_CROSS_SLOT] = {PROBLEM_CROSS_SLOT,
                              "no one script reaches items in several slots of a Redis Cluster; it takes a "
                              "service with --basket locked"},
    [INVENTORY_EXISTS] = {PROBLEM_ITEM_EXISTS, "the item exists on other terms, which do not change"},
    [INVENTORY_KEY_REUSED] = {PROBLEM_KEY_REUSED, "this key was used for another request"},
    [INVENTORY_CONFIRMED] = {PROBLEM_ORDER_CONFIRMED, "it was confirmed first"},
    [INVENTORY_CANCELLED] = {PROBLEM_ORDER_CANCELLED, "it was cancelled first"},
    [INVENTORY_EXPIRED] = {PROBLEM_ORDER_EXPIRED, "the hold ran out first, its units went back"},
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

/* A status without a row must not be answered as the first problem, which is "sold out". */
static const struct refusal *refusal_of(enum inventory_status status) {
    return &refusals[refusals[status].detail ? status : INVENTORY_UNAVAILABLE];
}

void answer_status(struct http_request *request, enum inventory_status status) {
    const struct refusal *refusal = refusal_of(status);
    problem_answer(request, refusal->problem, refusal->detail);
}

enum { DETAIL_SIZE = 128, MEMBERS_SIZE = 160 };

bool answer_is_of_terms(enum inventory_status status) {
    return status == INVENTORY_LIMIT || status == INVENTORY_NOT_STARTED || status == INVENTORY_ENDED;
}

/* If the term is not known (no item, or it was created anew meanwhile), the sentence is that of the status.
 */
void answer_refused(struct http_request *request, enum inventory_status status, int line, const char *item,
                    int64_t available, const struct inventory_item *terms) {
    const struct refusal *refusal = refusal_of(status);
    char detail[DETAIL_SIZE], members[MEMBERS_SIZE], time[RFC3339_SIZE];
    bool starts = status == INVENTORY_NOT_STARTED, by_time = starts || status == INVENTORY_ENDED;
    int64_t at_ms = !terms || !by_time ? 0 : starts ? terms->starts_ms : terms->ends_ms;
    int length = 0;
    snprintf(detail, sizeof detail, "%s", refusal->detail);
    members[0] = '\0';
    if (status == INVENTORY_SOLD_OUT) {
        length = snprintf(members, sizeof members, ",\"available\":%lld", (long long)available);
    } else if (terms && status == INVENTORY_LIMIT && terms->limit) {
        snprintf(detail, sizeof detail, "the user would have more than the item allows, which is %lld",
                 (long long)terms->limit);
        length = snprintf(members, sizeof members, ",\"limit\":%lld", (long long)terms->limit);
    } else if (at_ms) {
        rfc3339_print(at_ms, time);
        snprintf(detail, sizeof detail, "the sale %s at %s", starts ? "starts" : "ended", time);
        length = snprintf(members, sizeof members, ",\"%s\":\"%s\"", starts ? "starts_at" : "ends_at", time);
    }
    if (line >= 0)
        length += snprintf(members + length, sizeof members - (size_t)length, ",\"line\":%d", line);
    if (item)
        snprintf(members + length, sizeof members - (size_t)length, ",\"item\":\"%s\"", item);
    problem_answer_members(request, refusal->problem, detail, members);
}

/* Appends a term that differs to the sentence and to the list. */
static void tell_term(char *detail, size_t size, char *list, size_t list_size, const char *name,
                      const char *value) {
    size_t length = strlen(detail), listed = strlen(list);
    snprintf(detail + length, size - length, "%s %s %s", listed ? "," : "", name, value);
    snprintf(list + listed, list_size - listed, "%s\"%s\"", listed ? "," : "", name);
}

void answer_exists(struct http_request *request, const struct inventory_item *item,
                   const struct inventory_item *wanted) {
    const struct {
        const char *name;
        int64_t stands, wanted;
        bool time;
    } terms[] = {{"stock", item->initial, wanted->initial, false},
                 {"per_user_limit", item->limit, wanted->limit, false},
                 {"hold_seconds", item->hold_ms / 1000, wanted->hold_ms / 1000, false},
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
        tell_term(detail, sizeof detail, list, sizeof list, terms[i].name,
                  terms[i].time && !terms[i].stands ? "left out" : text);
    }
    if (item->strategy != wanted->strategy)
        tell_term(detail, sizeof detail, list, sizeof list, "strategy",
                  inventory_strategy_name(item->strategy));
    snprintf(members, sizeof members, ",\"differs\":[%s]", list);
    if (*list)
        problem_answer_members(request, PROBLEM_ITEM_EXISTS, detail, members);
    else /* it was created anew meanwhile */
        answer_status(request, INVENTORY_EXISTS);
}
