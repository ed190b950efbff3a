/* A request_log written by hand, one receipt after the other, and what the verdict makes of it. */
#ifndef LOADTEST_TEST_RECEIPT_H
#define LOADTEST_TEST_RECEIPT_H

#include "loadtest/judge/request_log.h"
#include "loadtest/judge/verdict.h"

extern struct request_log request_log;

/* An empty request_log. */
void receipt_begin(void);
/* A line of that key; each is sent and answered after the one before. */
struct log_line *receipt_line(uint32_t key);
void receipt_rejected(uint32_t key, const char *why);
void receipt_unknown(uint32_t key);
/* An acknowledged order that was found in the books; of receipt_won the order's own, order-KEY. */
void receipt_won(uint32_t key);
void receipt_won_content(uint32_t key, const char *order, uint64_t content);
/* Likewise so many of a basket: order-KEY-PART. A transfer is won as a purchase is. */
void receipt_won_basket(uint32_t key, unsigned lines);
/* What was acknowledged first for that line of that key. */
struct log_order *receipt_order(uint32_t key, unsigned part);

/* `after` may be NULL. */
struct verdict receipt_judge(const struct options *options, const struct books *before,
                             const struct books *after);
/* All counters in one text, so that a check sees also those that should be zero; torn and unbalanced where
 * one is not. */
const char *receipt_text(struct verdict v);

#endif
