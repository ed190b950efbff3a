/* The ledger: a line for each request that was meant to be made, and what became of it. In memory, 48 bytes a
 * line and about 60 for an order. */
#ifndef LOADTEST_JUDGE_REQUEST_LOG_H
#define LOADTEST_JUDGE_REQUEST_LOG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LEDGER_REASONS 64
#define LEDGER_REASON  32
#define LEDGER_NOWHERE UINT8_MAX

enum ledger_outcome {
    LEDGER_OPEN,     /* under way */
    LEDGER_NOT_SENT, /* never left: nothing can have come of it */
    LEDGER_UNKNOWN,  /* it may have been carried out */
    LEDGER_OK,
    LEDGER_REJECTED,
};

struct ledger_line {
    uint64_t intended_ns;
    uint64_t sent_ns;     /* of the last try that was sent; 0: none was */
    uint64_t answered_ns; /* of the last try, or when it was given up */
    uint32_t key;
    uint32_t user;
    uint32_t order; /* of an OK line: index in orders, of the first of them */
    uint16_t status;
    uint8_t outcome;
    uint8_t reason; /* of a rejection, or why it was unknown or not sent: index in reasons */
    uint8_t cause;  /* why it was unknown when the load ended or before; 0: it never was */
    uint8_t tries;  /* stays at 255 */
    uint8_t target;
    uint8_t part; /* of a rejection: which item of its wish it names, LEDGER_NOWHERE none of them */
    bool replayed : 1;
    bool duplicate : 1; /* repeats the key of an earlier line */
    bool resolved : 1;  /* settled only after the load */
};

/* What the books said when they were asked for an acknowledged order. */
enum ledger_check {
    LEDGER_UNCHECKED,
    LEDGER_HERE,     /* its units are held or sold */
    LEDGER_RETURNED, /* cancelled or expired: its units went back */
    LEDGER_MISSING,
    LEDGER_OTHER, /* another item, user or quantity than was bought */
};

/* One acknowledgement: of a purchase or a transfer, or of one line of a basket. Those of a basket stand one
 * behind the other, as many as it has lines. */
struct ledger_order {
    size_t id; /* offset in ids */
    uint64_t content;
    uint64_t answered_ns;
    uint32_t line;
    uint8_t part; /* which line of the basket, from 0 */
    uint8_t check;
    bool confirmed : 1; /* told so: it must stay that */
    bool misstated : 1; /* told as something else than was asked for */
    bool absent : 1;    /* the answer has no order for this line of the basket: the id is "" */
    bool surplus : 1;   /* the first of an answer with more orders than the basket has lines */
    /* Set by ledger_match: */
    bool extra : 1;   /* says the same as an earlier acknowledgement of its key */
    bool differs : 1; /* the same order as an earlier one of its key, but not the same content */
    uint32_t next;    /* another order for the same key and part, 0 none (the first order is nobody's next) */
};

struct ledger {
    struct ledger_line *lines;
    size_t line_count;
    size_t line_room;
    struct ledger_order *orders;
    size_t order_count;
    size_t order_room;
    char *ids; /* NUL after each */
    size_t ids_length;
    size_t ids_room;
    uint32_t key_count;
    uint32_t *key_order; /* of each key: its first acknowledgement + 1, 0 none; by ledger_match */
    char reasons[LEDGER_REASONS][LEDGER_REASON];
    unsigned reason_count; /* reasons[0] is "" */
};

void ledger_init(struct ledger *ledger);
void ledger_free(struct ledger *ledger);

/* Makes room for so many lines more. False when there is no memory. */
bool ledger_reserve(struct ledger *ledger, size_t lines);

/* A new line, or NULL when there is no memory. It is valid until the next one is added. */
struct ledger_line *ledger_add(struct ledger *ledger);

/* Notes an acknowledgement, the next one of that line, for the caller to fill in: it is valid until another
 * is added. NULL when there is no memory; then the line has none. */
struct ledger_order *ledger_acknowledge(struct ledger *ledger, struct ledger_line *line, uint8_t part,
                                        const char *id, size_t id_length);

/* The number of that reason, learnt when it is new; the last number stands for all that do not fit. */
uint8_t ledger_reason(struct ledger *ledger, const char *name, size_t length);

const char *ledger_order_id(const struct ledger *ledger, const struct ledger_order *order);

/* Once all is settled: finds each key's orders. False when there is no memory. */
bool ledger_match(struct ledger *ledger);

#endif
