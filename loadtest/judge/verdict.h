/* The judgement: what the seller acknowledged against what its books say. Pure: no clock, no network. */
#ifndef LOADTEST_JUDGE_VERDICT_H
#define LOADTEST_JUDGE_VERDICT_H

#include <stdbool.h>
#include <stdint.h>

#include "loadtest/judge/request_log.h"
#include "loadtest/plan/demand.h"

/* An item's audit. */
struct books {
    bool conserved;
    int64_t stock;
    int64_t available;
    int64_t held;
    int64_t sold;
    int64_t orders; /* with or without those that were returned */
    int64_t oversold;
    bool exact; /* all of one moment */
    /* What the item counts while it sells, beside its orders, which the audit adds up; not all sellers tell.
     */
    bool counts;
    int64_t counted; /* units held or sold */
};

enum verdict_kind {
    VERDICT_CLEAN,
    VERDICT_VIOLATED,
    VERDICT_UNTOLD, /* nothing wrong was found, but not all could be looked at */
};

struct verdict {
    enum verdict_kind kind;
    bool audited;       /* both audits were had */
    bool conserved;     /* as the second audit says */
    int64_t oversold;   /* units */
    int64_t lost;       /* orders, and transfers that were told as others */
    int64_t duplicated; /* answers and orders too many for their key */
    int64_t phantom;    /* orders */
    int64_t undersold;  /* units */
    int64_t torn;       /* acknowledged baskets */
    int64_t unbalanced; /* units */
    int64_t unresolved; /* requests */
    int64_t unchecked;  /* acknowledged orders that the seller could not be asked for */
    int64_t unsent;     /* requests that never left: it was not the load that was meant */
    int64_t settled;    /* requests that have an outcome */
};

/* The ledger was matched, and its orders checked after `after` was taken. `before` and `after` are the books
 * of each item of the options; an audit that could not be had is NULL. Each item is judged by itself, so that
 * too much of one does not conceal too little of another; the verdict is the sum. False when there is no
 * memory. */
bool verdict_reach(const struct ledger *ledger, const struct demand *demand, const struct books *before,
                   const struct books *after, struct verdict *verdict);

/* All of them as one: conserved only if each is. */
struct books verdict_sum(const struct books *books, uint32_t count);

#endif
