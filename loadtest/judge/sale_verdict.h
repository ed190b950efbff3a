/* The verdict: what the seller acknowledged against what its books say. No I/O. */
#ifndef LOADTEST_JUDGE_SALE_VERDICT_H
#define LOADTEST_JUDGE_SALE_VERDICT_H

#include <stdbool.h>

#include "loadtest/judge/fetch_books.h"
#include "loadtest/judge/request_log.h"
#include "loadtest/request_plan.h"

enum verdict_kind {
    VERDICT_CLEAN,
    VERDICT_VIOLATED,
    VERDICT_INCONCLUSIVE, /* nothing wrong was found, but not everything could be checked */
};

struct verdict {
    enum verdict_kind kind;
    bool audited;         /* both audits were read */
    bool conserved;       /* as the second audit says */
    long long oversold;   /* units */
    long long lost;       /* orders, and transfers with another answer than was requested */
    long long duplicated; /* surplus answers and orders of a key */
    long long phantom;    /* orders */
    long long undersold;  /* units; judged only if the load is purchases alone */
    long long torn;       /* acknowledged baskets */
    long long unbalanced; /* units */
    long long unresolved; /* requests */
    long long unchecked;  /* acknowledged orders without an answer to their check */
    long long unsent;     /* requests that were never sent: the load was not the intended one */
    long long settled;    /* requests that have an outcome */
};

/* Judges a run. `before` and `after` are the books of each item before and after the load; `after` is NULL if
 * that audit failed. The caller has called request_log_match(), and has checked the orders after `after` was
 * read. Each item is judged by itself, so that a surplus of one cannot hide a lack of another; the verdict is
 * the sum. False when out of memory. */
bool verdict_reach(const struct request_log *log, const struct plan *plan, const struct books *before,
                   const struct books *after, struct verdict *verdict);

#endif
