#include <stdio.h>
#include <string.h>

#include "loadtest/http/request.h"
#include "loadtest/judge/answer.h"
#include "loadtest/judge/body.h"
#include "loadtest/plan/item.h"

static void set(struct ledger *ledger, struct ledger_line *line, enum ledger_outcome outcome,
                const char *reason, size_t length) {
    line->outcome = (uint8_t)outcome;
    line->reason = ledger_reason(ledger, reason, length);
    if (outcome == LEDGER_UNKNOWN) {
        line->cause = line->reason;
    }
}

static void set_unknown(struct ledger *ledger, struct ledger_line *line, const char *reason) {
    set(ledger, line, LEDGER_UNKNOWN, reason, strlen(reason));
}

/* By the problem's type, or by the status where it says none. */
static void set_by_problem(struct ledger *ledger, struct ledger_line *line, enum ledger_outcome outcome,
                           const struct body *body) {
    char name[16];
    if (body->type.length > 0 && memchr(body->type.bytes, ':', body->type.length) == NULL) {
        set(ledger, line, outcome, body->type.bytes, body->type.length);
    } else {
        set(ledger, line, outcome, name, (size_t)snprintf(name, sizeof name, "http-%u", line->status));
    }
}

static bool is(struct body_text text, const char *word) {
    return text.length == strlen(word) && memcmp(text.bytes, word, text.length) == 0;
}

static bool equal(struct body_text a, struct body_text b) {
    return a.length == b.length && (a.length == 0 || memcmp(a.bytes, b.bytes, a.length) == 0);
}

/* Which item a refusal is about. A purchase has but one; that of a transfer is about what it takes from,
 * unless it says otherwise. */
static uint8_t named_part(const struct options *options, const struct wish *wish, struct body_text item) {
    if (wish->kind == DEMAND_PURCHASE || (wish->kind == DEMAND_TRANSFER && item.length == 0)) {
        return 0;
    }
    for (unsigned i = 0; i < wish->count; i++) {
        if (item.length > 0 && item_is(options, wish->items[i], item.bytes, item.length)) {
            return (uint8_t)i;
        }
    }
    return LEDGER_NOWHERE;
}

/* NULL, or why it is as good as no answer; likewise the two below. */
static const char *note_purchase(struct ledger *ledger, struct ledger_line *line, const struct body *body) {
    if (!body_id_usable(body->order)) {
        return "no-order-in-answer";
    }
    struct ledger_order *order = ledger_acknowledge(ledger, line, 0, body->order.bytes, body->order.length);
    if (order == NULL) {
        return "out-of-memory";
    }
    order->content = body->content + line->status;
    order->confirmed = is(body->state, "confirmed");
    return NULL;
}

static const char *note_transfer(const struct options *options, struct ledger *ledger,
                                 struct ledger_line *line, const struct wish *wish, const struct body *body) {
    if (!body_id_usable(body->transfer)) {
        return "no-transfer-in-answer";
    }
    struct ledger_order *order =
        ledger_acknowledge(ledger, line, 0, body->transfer.bytes, body->transfer.length);
    if (order == NULL) {
        return "out-of-memory";
    }
    order->content = body->content + line->status;
    order->misstated = !item_is(options, wish->items[0], body->from.bytes, body->from.length) ||
                       !item_is(options, wish->items[1], body->to.bytes, body->to.length) ||
                       body->quantity != options->quantity;
    return NULL;
}

/* One order a line, in the sequence of the lines. The first also stands for what is said of the whole. */
static const char *note_basket(const struct options *options, struct ledger *ledger, struct ledger_line *line,
                               const struct wish *wish, const struct body *body) {
    struct body_text orders = body->orders;
    struct body bought = {.quantity = 0};
    char user[REQUEST_USER_DIGITS + 2];
    if (!body_id_usable(body->basket)) {
        return "no-basket-in-answer";
    }
    request_user(line->user, user);
    bool more = body_next_order(&orders, &bought);
    if (!more) {
        return "no-order-in-answer";
    }
    for (unsigned i = 0; i < wish->count; i++) {
        bool usable = more && body_id_usable(bought.order);
        struct ledger_order *order = ledger_acknowledge(
            ledger, line, (uint8_t)i, usable ? bought.order.bytes : "", usable ? bought.order.length : 0);
        if (order == NULL) {
            return "out-of-memory";
        }
        order->absent = !usable;
        if (usable) {
            order->content = bought.content;
            order->confirmed = is(bought.state, "confirmed");
            order->misstated = !item_is(options, wish->items[i], bought.item.bytes, bought.item.length) ||
                               !is(bought.user, user) || bought.quantity != options->quantity ||
                               !equal(bought.state, body->state);
        }
        more = more && body_next_order(&orders, &bought);
    }
    struct ledger_order *first = &ledger->orders[line->order];
    first->content += body->content + line->status;
    first->misstated |= !is(body->user, user);
    first->surplus = more;
    return NULL;
}

static const char *note(const struct options *options, struct ledger *ledger, struct ledger_line *line,
                        const struct wish *wish, const struct body *body) {
    switch (wish->kind) {
    case DEMAND_BASKET: return note_basket(options, ledger, line, wish, body);
    case DEMAND_TRANSFER: return note_transfer(options, ledger, line, wish, body);
    default: return note_purchase(ledger, line, body);
    }
}

static void judge_response(const struct demand *demand, struct ledger *ledger, struct ledger_line *line,
                           const struct response *response) {
    struct body body = {.quantity = 0}; /* what is unreadable names nothing */
    struct wish wish;
    body_read(response->body, response->body_length, &body);
    demand_of_key(demand, line->key, &wish);
    line->status = (uint16_t)response->status;
    line->replayed = response->replayed;
    if (response->status >= 500) {
        set_by_problem(ledger, line, LEDGER_UNKNOWN, &body);
        return;
    }
    if (response->status >= 300) {
        set_by_problem(ledger, line, LEDGER_REJECTED, &body);
        line->part = named_part(demand->options, &wish, body.item);
        return;
    }
    const char *wrong = note(demand->options, ledger, line, &wish, &body);
    if (wrong != NULL) {
        set_unknown(ledger, line, wrong);
        return;
    }
    line->outcome = LEDGER_OK;
    line->reason = 0;
}

void answer_judge(const struct demand *demand, struct ledger *ledger, struct ledger_line *line,
                  const struct pool_answer *answer) {
    line->tries = line->tries < UINT8_MAX ? (uint8_t)(line->tries + 1) : line->tries;
    line->target = (uint8_t)answer->target;
    line->answered_ns = answer->answered_ns;
    if (answer->result != CLIENT_NOT_SENT) {
        line->sent_ns = answer->sent_ns;
    }
    switch (answer->result) {
    case CLIENT_NOT_SENT:
        if (line->outcome != LEDGER_UNKNOWN) { /* an earlier try may have been carried out */
            set(ledger, line, LEDGER_NOT_SENT, "not-sent", strlen("not-sent"));
        }
        break;
    case CLIENT_BROKEN: set_unknown(ledger, line, "connection-broken"); break;
    case CLIENT_TIMED_OUT: set_unknown(ledger, line, "timed-out"); break;
    case CLIENT_UNREADABLE: set_unknown(ledger, line, "unreadable-answer"); break;
    case CLIENT_ANSWERED: judge_response(demand, ledger, line, answer->response); break;
    }
}
