/* The request log added up for each item, in units: each line of a request has --quantity of them. */
#ifndef LOADTEST_JUDGE_TALLY_H
#define LOADTEST_JUDGE_TALLY_H

#include <stdint.h>

#include "loadtest/judge/request_log.h"
#include "loadtest/plan/demand.h"

struct tally {
    int64_t orders;     /* acknowledged, each once */
    int64_t returned;   /* … of which were cancelled or expired when they were checked */
    int64_t wrong;      /* … of which are missing, or differ in the books or in the answer */
    int64_t unresolved; /* orders that unresolved requests may have made */

    /* Units that were transferred in and out; `open`: by unresolved transfers, so perhaps not. */
    int64_t in;
    int64_t out;
    int64_t in_open;
    int64_t out_open;

    int64_t told_sold_out; /* units of purchases that were rejected as sold out */
};

/* The part of the verdict that needs no audit. */
struct tally_verdict {
    int64_t wrong; /* acknowledgements */
    int64_t duplicated;
    int64_t torn;
    int64_t unresolved; /* requests */
    int64_t unchecked;  /* orders */
    int64_t unsent;     /* requests */
    int64_t settled;    /* requests */
};

/* The request log was matched and its orders were checked. `tallies`: one for each item, zeroed. */
struct tally_verdict tally_log(const struct request_log *log, const struct demand *demand,
                               struct tally *tallies);

#endif
