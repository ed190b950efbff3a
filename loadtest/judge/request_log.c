#include "loadtest/judge/request_log.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "loadtest/http/connection_pool.h"
#include "loadtest/judge/answer_body.h"
#include "loadtest/request_plan.h"

void request_log_init(struct request_log *log) {
    *log = (struct request_log){.reason_count = 1};
}

void request_log_free(struct request_log *log) {
    free(log->lines);
    free(log->orders);
    free(log->ids);
    free(log->key_order);
    memset(log, 0, sizeof *log);
}

/* Makes room for `needed` elements, by doubling. Returns the array; NULL when out of memory. */
static void *log_grow(void *array, size_t *capacity, size_t needed, size_t size) {
    if (needed <= *capacity)
        return array;
    size_t wanted = *capacity < 1024 ? 1024 : *capacity * 2;
    if (wanted < needed)
        wanted = needed;
    void *bigger = reallocarray(array, wanted, size);
    if (bigger)
        *capacity = wanted;
    return bigger;
}

struct log_line *request_log_add(struct request_log *log) {
    if (log->line_count == UINT32_MAX)
        return NULL;
    struct log_line *lines =
        log_grow(log->lines, &log->line_capacity, log->line_count + 1, sizeof *log->lines);
    if (!lines)
        return NULL;
    log->lines = lines;
    lines[log->line_count] = (struct log_line){.key = 0};
    return &lines[log->line_count++];
}

static bool log_reserve_order(struct request_log *log, size_t id_size) {
    if (log->order_count >= UINT32_MAX - 1)
        return false;
    struct log_order *orders =
        log_grow(log->orders, &log->order_capacity, log->order_count + 1, sizeof *log->orders);
    log->orders = orders ? orders : log->orders;
    char *ids = log_grow(log->ids, &log->ids_capacity, log->ids_length + id_size, 1);
    log->ids = ids ? ids : log->ids;
    return orders && ids;
}

struct log_order *request_log_acknowledge(struct request_log *log, struct log_line *line, uint8_t part,
                                          const char *id, size_t id_length) {
    if (!log_reserve_order(log, id_length + 1)) {
        log->order_count -= part;
        return NULL;
    }
    struct log_order *order = &log->orders[log->order_count];
    *order = (struct log_order){
        .id = log->ids_length,
        .answered_ns = line->answered_ns,
        .line = (uint32_t)(line - log->lines),
        .part = part,
    };
    memcpy(log->ids + order->id, id, id_length);
    log->ids[order->id + id_length] = '\0';
    log->ids_length += id_length + 1;
    if (part == 0)
        line->order = (uint32_t)log->order_count;
    log->order_count++;
    return order;
}

/* A reason comes from the seller and is shown on terminals: every byte but letters, digits and -_. becomes a
 * ?. */
static void log_clean_reason(const char *name, size_t length, char clean[REQUEST_LOG_REASON]) {
    size_t kept = length < REQUEST_LOG_REASON ? length : REQUEST_LOG_REASON - 1;
    for (size_t i = 0; i < kept; i++) {
        char byte = name[i];
        clean[i] = isalnum((unsigned char)byte) || byte == '-' || byte == '_' || byte == '.' ? byte : '?';
    }
    clean[kept] = '\0';
}

uint8_t request_log_reason(struct request_log *log, const char *name, size_t length) {
    char clean[REQUEST_LOG_REASON];
    log_clean_reason(name, length, clean);
    for (unsigned i = 1; i < log->reason_count; i++) {
        if (strcmp(log->reasons[i], clean) == 0)
            return (uint8_t)i;
    }
    if (log->reason_count == REQUEST_LOG_REASONS)
        return REQUEST_LOG_REASONS - 1;
    unsigned number = log->reason_count++;
    snprintf(log->reasons[number], REQUEST_LOG_REASON, "%s",
             number == REQUEST_LOG_REASONS - 1 ? "other" : clean);
    return (uint8_t)number;
}

const char *request_log_order_id(const struct request_log *log, const struct log_order *order) {
    return log->ids + order->id;
}

/* ---- the outcome of an attempt ---- */

static void log_set(struct request_log *log, struct log_line *line, enum outcome outcome, const char *reason,
                    size_t length) {
    line->outcome = (uint8_t)outcome;
    line->reason = request_log_reason(log, reason, length);
    if (outcome == OUTCOME_UNKNOWN)
        line->cause = line->reason;
}

static void log_set_unknown(struct request_log *log, struct log_line *line, const char *reason) {
    log_set(log, line, OUTCOME_UNKNOWN, reason, strlen(reason));
}

/* The reason is the problem's type, or else the HTTP status. */
static void log_set_by_problem(struct request_log *log, struct log_line *line, enum outcome outcome,
                               const struct body *body) {
    char name[16];
    if (body->type.length > 0 && memchr(body->type.bytes, ':', body->type.length) == NULL)
        log_set(log, line, outcome, body->type.bytes, body->type.length);
    else
        log_set(log, line, outcome, name, (size_t)snprintf(name, sizeof name, "http-%u", line->status));
}

/* Adds an order as `body` describes it. NULL when out of memory. */
static struct log_order *log_acknowledge(struct request_log *log, struct log_line *line, unsigned part,
                                         struct body_text id, const struct body *body) {
    struct log_order *order = request_log_acknowledge(log, line, (uint8_t)part, id.bytes, id.length);
    if (order) {
        order->content = body->content;
        order->confirmed = body_text_is(body->state, "confirmed");
    }
    return order;
}

/* This and log_record_basket() record an acknowledgement. They return NULL, or the reason why the answer does
 * not settle the request: it is then as good as no answer. */
static const char *log_record_one(const struct options *options, struct request_log *log,
                                  struct log_line *line, const struct planned_request *planned,
                                  const struct body *body) {
    bool transfer = planned->kind == REQUEST_TRANSFER;
    struct body_text id = transfer ? body->transfer : body->order;
    if (!body_id_usable(id))
        return transfer ? "no-transfer-in-answer" : "no-order-in-answer";
    struct log_order *order = log_acknowledge(log, line, 0, id, body);
    if (!order)
        return "out-of-memory";
    order->content += line->status;
    order->misstated =
        transfer && (!item_is(options, planned->items[0], body->from.bytes, body->from.length) ||
                     !item_is(options, planned->items[1], body->to.bytes, body->to.length) ||
                     body->quantity != options->quantity);
    return NULL;
}

/* The answer has one order for each line of the basket, in the order of the lines. The record of the first
 * one also holds what concerns the basket as a whole. */
static const char *log_record_basket(const struct options *options, struct request_log *log,
                                     struct log_line *line, const struct planned_request *planned,
                                     const struct body *body) {
    struct body_text orders = body->orders;
    struct body bought = {.quantity = 0};
    char user[USER_NAME_SIZE];
    if (!body_id_usable(body->basket))
        return "no-basket-in-answer";
    bool more = body_next_order(&orders, &bought);
    if (!more)
        return "no-order-in-answer";
    user_name(line->user, user);
    for (unsigned i = 0; i < planned->count; i++) {
        bool absent = !more || !body_id_usable(bought.order);
        if (absent)
            bought = (struct body){.order = {"", 0}};
        struct log_order *order = log_acknowledge(log, line, i, bought.order, &bought);
        if (!order)
            return "out-of-memory";
        order->absent = absent;
        order->misstated =
            !absent && (!item_is(options, planned->items[i], bought.item.bytes, bought.item.length) ||
                        !body_text_is(bought.user, user) || bought.quantity != options->quantity ||
                        !body_text_equals(bought.state, body->state));
        more = more && body_next_order(&orders, &bought);
    }
    struct log_order *first = &log->orders[line->order];
    first->content += body->content + line->status;
    first->misstated |= !body_text_is(body->user, user);
    first->surplus = more;
    return NULL;
}

static void log_record_response(const struct plan *plan, struct request_log *log, struct log_line *line,
                                const struct response *response) {
    struct body body = {.quantity = 0}; /* stays empty if the body is unreadable */
    body_read(response->body, response->body_length, &body);
    line->status = (uint16_t)response->status;
    line->replayed = response->replayed;
    if (response->status >= 300) {
        log_set_by_problem(log, line, response->status >= 500 ? OUTCOME_UNKNOWN : OUTCOME_REJECTED, &body);
        return;
    }
    struct planned_request planned;
    plan_of_key(plan, line->key, &planned);
    const char *wrong = planned.kind == REQUEST_BASKET
                            ? log_record_basket(plan->options, log, line, &planned, &body)
                            : log_record_one(plan->options, log, line, &planned, &body);
    if (wrong) {
        log_set_unknown(log, line, wrong);
        return;
    }
    line->outcome = OUTCOME_ACCEPTED;
    line->reason = 0;
}

bool request_log_record(struct request_log *log, struct log_line *line, const struct plan *plan,
                        const struct pool_answer *answer) {
    line->tries = line->tries < UINT8_MAX ? (uint8_t)(line->tries + 1) : line->tries;
    line->answered_ns = answer->answered_ns;
    if (answer->result != CONNECTION_NOT_SENT)
        line->sent_ns = answer->sent_ns;
    switch (answer->result) {
    case CONNECTION_NOT_SENT:
        if (line->outcome != OUTCOME_UNKNOWN) /* otherwise an earlier attempt may have been carried out */
            log_set(log, line, OUTCOME_NOT_SENT, "not-sent", strlen("not-sent"));
        break;
    case CONNECTION_BROKEN: log_set_unknown(log, line, "connection-broken"); break;
    case CONNECTION_TIMED_OUT: log_set_unknown(log, line, "timed-out"); break;
    case CONNECTION_UNREADABLE: log_set_unknown(log, line, "unreadable-answer"); break;
    case CONNECTION_ANSWERED: log_record_response(plan, log, line, answer->response); break;
    }
    return line->outcome == OUTCOME_ACCEPTED || line->outcome == OUTCOME_REJECTED;
}

/* ---- the orders of a key ---- */

/* Compares an order with the earlier ones of the same key and line: it is the first one, another order, or
 * one of them acknowledged again. */
static void log_match_order(struct request_log *log, uint32_t index) {
    struct log_order *order = &log->orders[index];
    uint32_t *first = &log->key_order[log->lines[order->line].key]; /* index + 1 */
    order->extra = order->differs = false;
    order->next = 0;
    if (*first == 0)
        *first = index + 1;
    if (*first - 1 + order->part == index)
        return;
    struct log_order *known = &log->orders[*first - 1 + order->part];
    while (strcmp(request_log_order_id(log, known), request_log_order_id(log, order)) != 0) {
        if (order->absent) {
            order->extra = order->differs = true;
            return;
        }
        if (known->next == 0) {
            known->next = index;
            return;
        }
        known = &log->orders[known->next];
    }
    order->extra = true;
    order->differs = known->content != order->content;
}

bool request_log_match(struct request_log *log) {
    free(log->key_order);
    log->key_order = calloc((size_t)log->key_count + 1, sizeof *log->key_order);
    for (size_t i = 0; log->key_order && i < log->order_count; i++)
        log_match_order(log, (uint32_t)i);
    return log->key_order;
}
