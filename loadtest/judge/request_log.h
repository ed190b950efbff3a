/* The request log: one line for each planned request, with its outcome, and one record for each order that
 * the seller acknowledged. In memory: 48 bytes a line, and about 60 bytes an order. */
#ifndef LOADTEST_JUDGE_REQUEST_LOG_H
#define LOADTEST_JUDGE_REQUEST_LOG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct plan;
struct pool_answer;

#define REQUEST_LOG_REASONS 64
#define REQUEST_LOG_REASON  32

enum outcome {
    OUTCOME_OPEN,     /* in flight */
    OUTCOME_NOT_SENT, /* nothing was sent, so nothing was done */
    OUTCOME_UNKNOWN,  /* the seller may have carried out the request */
    OUTCOME_ACCEPTED,
    OUTCOME_REJECTED,
};

struct log_line {
    uint64_t intended_ns;
    uint64_t sent_ns;     /* the last attempt that was sent; 0: none */
    uint64_t answered_ns; /* the answer to the last attempt, or the time when it was given up */
    uint32_t key;
    uint32_t user;
    uint32_t order; /* of an accepted line: index of its first order */
    uint16_t status;
    uint8_t outcome;
    uint8_t reason; /* why it is rejected, unknown or not sent: index in reasons */
    uint8_t cause;  /* why it was unknown at last, even if it is settled by now; 0: it never was unknown */
    uint8_t tries;  /* stays at 255 */
    bool replayed : 1;
    bool duplicate : 1; /* repeats the key of an earlier line */
};

/* What the seller says of an acknowledged order at the end. */
enum order_check {
    ORDER_UNCHECKED,
    ORDER_FOUND,    /* its units are held or sold */
    ORDER_RETURNED, /* cancelled or expired: its units are available again */
    ORDER_MISSING,
    ORDER_DIFFERENT, /* another item, user or quantity than was bought, or no longer confirmed */
};

/* One acknowledgement: of a purchase, of a transfer, or of one line of a basket. The orders of a basket are
 * consecutive, one for each line. */
struct log_order {
    size_t id;        /* offset in ids */
    uint64_t content; /* a hash of what does not change: a repeated key must get the same */
    uint64_t answered_ns;
    uint32_t line; /* index of its line */
    uint8_t part;  /* which line of the basket, from 0 */
    uint8_t check;
    bool confirmed : 1; /* acknowledged as confirmed, so it must stay confirmed */
    bool misstated : 1; /* the answer names another item, user or quantity than was requested */
    bool absent : 1;    /* the answer has no order for this line of the basket; the id is "" */
    bool surplus : 1;   /* of the first order: the answer has more orders than the basket has lines */
    /* Set by request_log_match: */
    bool extra : 1;   /* the same order as an earlier acknowledgement of its key */
    bool differs : 1; /* … but with other content */
    uint32_t next;    /* another order for the same key and part; 0: none */
};

struct request_log {
    struct log_line *lines;
    size_t line_count, line_capacity;
    struct log_order *orders;
    size_t order_count, order_capacity;
    char *ids; /* each ends with a NUL */
    size_t ids_length, ids_capacity;
    uint32_t key_count;
    uint32_t *key_order; /* by key: its first acknowledgement + 1; 0: none; set by request_log_match() */
    char reasons[REQUEST_LOG_REASONS][REQUEST_LOG_REASON];
    unsigned reason_count; /* reasons[0] is "" */
};

void request_log_init(struct request_log *log);
void request_log_free(struct request_log *log);

/* A new line, valid until the next one is added; NULL when out of memory. */
struct log_line *request_log_add(struct request_log *log);

/* Records what an attempt of this line has come to: the outcome and its reason, and the orders that the
 * answer acknowledges. True: the request is settled, that is accepted or rejected. */
bool request_log_record(struct request_log *log, struct log_line *line, const struct plan *plan,
                        const struct pool_answer *answer);

/* Adds the next order of a line, for the caller to fill in; valid until another one is added. NULL when out
 * of memory: then the line has no orders. */
struct log_order *request_log_acknowledge(struct request_log *log, struct log_line *line, uint8_t part,
                                          const char *id, size_t id_length);

/* The number of a reason, which is added if it is new. There are REQUEST_LOG_REASONS numbers; the last one
 * stands for all other reasons. */
uint8_t request_log_reason(struct request_log *log, const char *name, size_t length);

const char *request_log_order_id(const struct request_log *log, const struct log_order *order);

/* Groups the orders by key, once all requests are settled or given up: sets `key_order`, and `extra`,
 * `differs` and `next` of each order. False when out of memory. */
bool request_log_match(struct request_log *log);

#endif
