/* The verdict: what the seller acknowledged against what its books say. No I/O. */
#ifndef LOADTEST_JUDGE_VERDICT_H
#define LOADTEST_JUDGE_VERDICT_H

#include <stdbool.h>
#include <stdint.h>

#include "loadtest/judge/books.h"
#include "loadtest/judge/request_log.h"
#include "loadtest/plan/demand.h"

enum verdict_kind {
    VERDICT_CLEAN,
    VERDICT_VIOLATED,
    VERDICT_INCONCLUSIVE, /* nothing wrong was found, but not everything could be checked */
};

struct verdict {
    enum verdict_kind kind;
    bool audited;       /* both audits were read */
    bool conserved;     /* as the second audit says */
    int64_t oversold;   /* units */
    int64_t lost;       /* orders, and transfers with another answer than was requested */
    int64_t duplicated; /* surplus answers and orders of a key */
    int64_t phantom;    /* orders */
    int64_t undersold;  /* units; judged only if the load is purchases alone */
    int64_t torn;       /* acknowledged baskets */
    int64_t unbalanced; /* units */
    int64_t unresolved; /* requests */
    int64_t unchecked;  /* acknowledged orders without an answer to their check */
    int64_t unsent;     /* requests that were never sent: the load was not the intended one */
    int64_t settled;    /* requests that have an outcome */
};

/* The log was matched, and its orders were checked after `after` was read. `before` and `after`: the books of
 * each item; `after` is NULL if that audit failed. Each item is judged by itself, so that a surplus of one
 * cannot hide a lack of another; the verdict is the sum. False when out of memory. */
bool verdict_reach(const struct request_log *log, const struct demand *demand, const struct books *before,
                   const struct books *after, struct verdict *verdict);

#endif
