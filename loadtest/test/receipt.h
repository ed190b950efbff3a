/* A request log that the test writes line by line, and the verdict on it. */
#ifndef LOADTEST_TEST_RECEIPT_H
#define LOADTEST_TEST_RECEIPT_H

#include "loadtest/judge/request_log.h"
#include "loadtest/judge/sale_verdict.h"

enum receipt_what {
    NOTHING,
    /* A new line of this key, sent and answered after the line before: */
    WON,           /* an acknowledged order that was found in the books: order-KEY */
    WON_B,         /* order-KEY-b */
    WON_C,         /* order-KEY-c */
    SOLD_OUT,      /* rejected */
    LATE_SOLD_OUT, /* rejected, but sent before the order with the number of the key was acknowledged */
    LIMIT,         /* rejected for another reason */
    UNKNOWN,
    UNSENT,
    /* The order with this number, counted from 0: */
    MISSING,
    DIFFERENT,
    RETURNED,
    UNCHECKED,
    OTHER_CONTENT,
    SAME_ID,   /* as the order two before it */
    ABSENT,    /* in the answer */
    MISSTATED, /* in the answer */
    SURPLUS,   /* the answer has one order too many */
};

struct receipt_step {
    enum receipt_what what;
    uint32_t of;
};

/* Empties the request log. From now on WON has so many orders, one for each line of a basket: order-KEY-PART;
 * 0: one, of a purchase or transfer. */
void receipt_begin(unsigned basket_lines);
/* Adds a line of key `of`, or amends order `of`. */
void receipt_do(enum receipt_what what, uint32_t of);

/* `after` may be NULL. The kind of the verdict and all counters that are not 0, as one text: so a check
 * covers also those that should be 0. */
const char *receipt_verdict(const struct options *options, const struct books *before,
                            const struct books *after);

#endif
