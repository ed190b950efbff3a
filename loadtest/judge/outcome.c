#include <stdio.h>
#include <string.h>

#include "loadtest/http/request.h"
#include "loadtest/judge/body.h"
#include "loadtest/judge/outcome.h"
#include "loadtest/plan/item.h"

static void set(struct request_log *log, struct log_line *line, enum outcome outcome, const char *reason,
                size_t length) {
    line->outcome = (uint8_t)outcome;
    line->reason = request_log_reason(log, reason, length);
    if (outcome == OUTCOME_UNKNOWN)
        line->cause = line->reason;
}

static void set_unknown(struct request_log *log, struct log_line *line, const char *reason) {
    set(log, line, OUTCOME_UNKNOWN, reason, strlen(reason));
}

/* The reason is the problem's type, or else the HTTP status. */
static void set_by_problem(struct request_log *log, struct log_line *line, enum outcome outcome,
                           const struct body *body) {
    char name[16];
    if (body->type.length > 0 && memchr(body->type.bytes, ':', body->type.length) == NULL)
        set(log, line, outcome, body->type.bytes, body->type.length);
    else
        set(log, line, outcome, name, (size_t)snprintf(name, sizeof name, "http-%u", line->status));
}

/* NULL when out of memory. */
static struct log_order *acknowledge(struct request_log *log, struct log_line *line, unsigned part,
                                     struct body_text id, const struct body *body) {
    struct log_order *order = request_log_acknowledge(log, line, (uint8_t)part, id.bytes, id.length);
    if (order != NULL) {
        order->content = body->content;
        order->confirmed = body_text_is(body->state, "confirmed");
    }
    return order;
}

/* These two record an acknowledgement. They return NULL, or why the answer is worth no more than none. */
static const char *record_one(const struct options *options, struct request_log *log, struct log_line *line,
                              const struct wish *wish, const struct body *body) {
    bool transfer = wish->kind == DEMAND_TRANSFER;
    struct body_text id = transfer ? body->transfer : body->order;
    if (!body_id_usable(id))
        return transfer ? "no-transfer-in-answer" : "no-order-in-answer";
    struct log_order *order = acknowledge(log, line, 0, id, body);
    if (order == NULL)
        return "out-of-memory";
    order->content += line->status;
    order->misstated = transfer && (!item_is(options, wish->items[0], body->from.bytes, body->from.length) ||
                                    !item_is(options, wish->items[1], body->to.bytes, body->to.length) ||
                                    body->quantity != options->quantity);
    return NULL;
}

/* One order for each line, in the order of the lines. The first also stands for the basket as a whole. */
static const char *record_basket(const struct options *options, struct request_log *log,
                                 struct log_line *line, const struct wish *wish, const struct body *body) {
    struct body_text orders = body->orders;
    struct body bought = {.quantity = 0};
    char user[REQUEST_USER_DIGITS + 2];
    if (!body_id_usable(body->basket))
        return "no-basket-in-answer";
    bool more = body_next_order(&orders, &bought);
    if (!more)
        return "no-order-in-answer";
    request_user(line->user, user);
    for (unsigned i = 0; i < wish->count; i++) {
        bool absent = !more || !body_id_usable(bought.order);
        if (absent)
            bought = (struct body){.order = {"", 0}};
        struct log_order *order = acknowledge(log, line, i, bought.order, &bought);
        if (order == NULL)
            return "out-of-memory";
        order->absent = absent;
        order->misstated =
            !absent && (!item_is(options, wish->items[i], bought.item.bytes, bought.item.length) ||
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

static void record_response(const struct demand *demand, struct request_log *log, struct log_line *line,
                            const struct response *response) {
    struct body body = {.quantity = 0}; /* it stays so if the body is unreadable */
    body_read(response->body, response->body_length, &body);
    line->status = (uint16_t)response->status;
    line->replayed = response->replayed;
    if (response->status >= 300) {
        set_by_problem(log, line, response->status >= 500 ? OUTCOME_UNKNOWN : OUTCOME_REJECTED, &body);
        return;
    }
    struct wish wish;
    demand_of_key(demand, line->key, &wish);
    const char *wrong = wish.kind == DEMAND_BASKET ? record_basket(demand->options, log, line, &wish, &body)
                                                   : record_one(demand->options, log, line, &wish, &body);
    if (wrong != NULL) {
        set_unknown(log, line, wrong);
        return;
    }
    line->outcome = OUTCOME_ACCEPTED;
    line->reason = 0;
}

bool outcome_record(const struct demand *demand, struct request_log *log, struct log_line *line,
                    const struct pool_answer *answer) {
    line->tries = line->tries < UINT8_MAX ? (uint8_t)(line->tries + 1) : line->tries;
    line->answered_ns = answer->answered_ns;
    if (answer->result != CONNECTION_NOT_SENT)
        line->sent_ns = answer->sent_ns;
    switch (answer->result) {
    case CONNECTION_NOT_SENT:
        if (line->outcome != OUTCOME_UNKNOWN) /* otherwise an earlier attempt may have been carried out */
            set(log, line, OUTCOME_NOT_SENT, "not-sent", strlen("not-sent"));
        break;
    case CONNECTION_BROKEN: set_unknown(log, line, "connection-broken"); break;
    case CONNECTION_TIMED_OUT: set_unknown(log, line, "timed-out"); break;
    case CONNECTION_UNREADABLE: set_unknown(log, line, "unreadable-answer"); break;
    case CONNECTION_ANSWERED: record_response(demand, log, line, answer->response); break;
    }
    return line->outcome == OUTCOME_ACCEPTED || line->outcome == OUTCOME_REJECTED;
}
