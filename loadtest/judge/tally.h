/* What the ledger comes to for each item. Units are counted; of each line of a request --quantity of them. */
#ifndef LOADTEST_JUDGE_TALLY_H
#define LOADTEST_JUDGE_TALLY_H

#include <stdint.h>

#include "loadtest/judge/request_log.h"
#include "loadtest/plan/demand.h"

struct tally {
    int64_t orders;     /* acknowledged, each once */
    int64_t returned;   /* of these: cancelled or expired by the time they were checked */
    int64_t wrong;      /* of these: not in the books, or there or in the answer as something else */
    int64_t unresolved; /* orders that unresolved requests may have come to */

    /* Units that were transferred in and out: for certain, and may have been. */
    int64_t in;
    int64_t out;
    int64_t in_open;
    int64_t out_open;

    /* Requests that were told that this item is sold out. */
    int64_t told;       /* units that they asked for in all */
    int64_t told_least; /* and the least that one of them did */

    /* Units that baskets and transfers which came to nothing may have held for a moment. */
    int64_t refused;      /* all those that were refused at once */
    int64_t refused_most; /* the most that one of them asked for */
    int64_t doubtful;     /* of those that were unknown at any time: they may have held them for longer */
};

/* What is wrong whatever the books say. */
struct tally_verdict {
    int64_t wrong; /* acknowledgements */
    int64_t duplicated;
    int64_t torn;
    int64_t unresolved; /* requests */
    int64_t unchecked;  /* orders */
    int64_t unsent;     /* requests */
    int64_t settled;    /* requests */
};

/* The ledger was matched and its orders checked. `tallies` has one of zeros for each item. */
struct tally_verdict tally_ledger(const struct ledger *ledger, const struct demand *demand,
                                  struct tally *tallies);

#endif
