#include <stdio.h>
#include <string.h>

#include "loadtest/body.h"
#include "loadtest/item.h"
#include "loadtest/purchase.h"

static unsigned count_digits(uint32_t value) {
    unsigned count = 1;
    for (; value >= 10; value /= 10) {
        count++;
    }
    return count;
}

void purchase_form_init(struct purchase_form *form, const char *host, const struct options *options,
                        const char *run) {
    char body[256];
    char item[ITEM_NAME];
    item_name(options, item_count(options) - 1, item);
    int body_length = snprintf(body, sizeof body, "{\"item\":\"%s\",\"user\":\"u%0*u\",\"quantity\":%u}",
                               item, PURCHASE_USER_DIGITS, 0u, options->quantity);
    int length = snprintf(form->text, sizeof form->text,
                          "POST /v1/purchases HTTP/1.1\r\n"
                          "Host: %s\r\n"
                          "Content-Type: application/json\r\n"
                          "Content-Length: %d\r\n"
                          "Idempotency-Key: sl-%s-%0*u\r\n"
                          "\r\n"
                          "%s",
                          host, body_length, run, PURCHASE_KEY_DIGITS, 0u, body);
    form->length = (size_t)length;
    size_t head = form->length - (size_t)body_length;
    form->key_at = head - 4 - PURCHASE_KEY_DIGITS;
    size_t item_end = head + strlen("{\"item\":\"") + strlen(item);
    form->item_digits = options->items > 0 ? count_digits(options->items - 1) : 0;
    form->item_at = item_end - form->item_digits;
    form->user_at = item_end + strlen("\",\"user\":\"u");
    form->options = options;
}

static void write_digits(char *at, unsigned count, uint32_t value) {
    while (count > 0) {
        at[--count] = (char)('0' + value % 10);
        value /= 10;
    }
}

static void write_item(const struct purchase_form *form, uint32_t item, char *request) {
    char *at = request + form->item_at;
    unsigned digits = count_digits(item);
    write_digits(at, digits, item);
    at[digits] = '"';
    memset(at + digits + 1, ' ', form->item_digits - digits);
}

size_t purchase_render(const struct purchase_form *form, uint32_t key, uint32_t user, char *request) {
    memcpy(request, form->text, form->length);
    write_digits(request + form->key_at, PURCHASE_KEY_DIGITS, key);
    if (form->item_digits > 0) {
        write_item(form, item_of_key(form->options, key), request);
    }
    write_digits(request + form->user_at, PURCHASE_USER_DIGITS, user);
    return form->length;
}

void purchase_user(uint32_t user, char name[PURCHASE_USER_DIGITS + 2]) {
    name[0] = 'u';
    write_digits(name + 1, PURCHASE_USER_DIGITS, user);
    name[PURCHASE_USER_DIGITS + 1] = '\0';
}

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
    if (body->type_length > 0 && memchr(body->type, ':', body->type_length) == NULL) {
        set(ledger, line, outcome, body->type, body->type_length);
    } else {
        set(ledger, line, outcome, name, (size_t)snprintf(name, sizeof name, "http-%u", line->status));
    }
}

static void judge_response(struct ledger *ledger, struct ledger_line *line, const struct response *response) {
    struct body body = {.order = NULL};
    bool readable = body_read(response->body, response->body_length, &body);
    line->status = (uint16_t)response->status;
    line->replayed = response->replayed;
    if (response->status >= 500) {
        set_by_problem(ledger, line, LEDGER_UNKNOWN, &body);
    } else if (response->status >= 300) {
        set_by_problem(ledger, line, LEDGER_REJECTED, &body);
    } else if (!readable || !body_order_usable(&body)) {
        set_unknown(ledger, line, "no-order-in-answer");
    } else if (!ledger_acknowledge(ledger, line, body.order, body.order_length,
                                   body.content + response->status)) {
        set_unknown(ledger, line, "out-of-memory");
    } else {
        line->outcome = LEDGER_OK;
        line->reason = 0;
    }
}

void purchase_judge(struct ledger *ledger, struct ledger_line *line, const struct pool_answer *answer) {
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
    case CLIENT_ANSWERED: judge_response(ledger, line, answer->response); break;
    }
}
