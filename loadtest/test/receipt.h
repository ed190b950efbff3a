/* A request log that the test writes line by line, and the verdict on it. */
#ifndef LOADTEST_TEST_RECEIPT_H
#define LOADTEST_TEST_RECEIPT_H

#include "loadtest/judge/request_log.h"
#include "loadtest/judge/sale_verdict.h"

extern struct request_log request_log;

/* Empties the request log. */
void receipt_begin(void);
/* Adds a line of this key, sent and answered after the line before. */
struct log_line *receipt_line(uint32_t key);
void receipt_rejected(uint32_t key, const char *why);
void receipt_unknown(uint32_t key);
/* Adds an acknowledged order that was found in the books; receipt_won() names it order-KEY. */
void receipt_won(uint32_t key);
void receipt_won_content(uint32_t key, const char *order, uint64_t content);
/* The same for the lines of a basket: order-KEY-PART. For a transfer use receipt_won(). */
void receipt_won_basket(uint32_t key, unsigned lines);
/* The first acknowledgement of this line of this key. */
struct log_order *receipt_order(uint32_t key, unsigned part);

/* `after` may be NULL. */
struct verdict receipt_judge(const struct options *options, const struct books *before,
                             const struct books *after);
/* The kind of the verdict and all counters that are not 0, as one text: so a check covers also those that
 * should be 0. */
const char *receipt_text(struct verdict v);

#endif
