/* The ledger in figures. */
#ifndef LOADTEST_REPORT_SUMMARY_H
#define LOADTEST_REPORT_SUMMARY_H

#include <stdint.h>

#include "base/histogram.h"
#include "loadtest/judge/request_log.h"
#include "loadtest/plan/demand.h"

/* Of the purchases, of the baskets, or of the transfers; as below. */
struct summary_kind {
    struct histogram latency_all;
    struct histogram latency_accepted;
    uint64_t attempts;
    uint64_t accepted;
    uint64_t rejected;
    uint64_t unknown;
    uint64_t rejections[LEDGER_REASONS];
};

struct summary {
    /* Of the load alone. A latency is from when the request was meant to be sent to its last answer. */
    double seconds;
    uint64_t accepted_in_load;
    uint64_t rejected_in_load;
    struct histogram latency_all; /* unknown ones too: until they were given up */
    struct histogram latency_accepted;
    struct histogram latency_rejected;

    /* In the end. */
    uint64_t attempts;
    uint64_t accepted;
    uint64_t rejected;
    uint64_t not_sent;
    uint64_t unresolved;
    uint64_t unknown; /* at any time, also those that a retry settled */
    uint64_t settled_accepted;
    uint64_t settled_rejected; /* of `unknown` */
    uint64_t orders;           /* each line of a basket is one, a transfer is none */
    uint64_t replayed;
    uint64_t duplicates;
    uint64_t retries;
    uint64_t rejections[LEDGER_REASONS];
    uint64_t causes[LEDGER_REASONS]; /* of `unknown` */
    struct summary_kind kinds[DEMAND_KINDS];
};

/* To be called when the load has ended and nothing was resolved yet. */
void summary_time(struct summary *summary, const struct ledger *ledger, const struct demand *demand,
                  uint64_t started_ns, uint64_t ended_ns);

/* To be called when all is settled and the ledger matched. */
void summary_count(struct summary *summary, const struct ledger *ledger, const struct demand *demand);

/* What those of a kind are called. */
const char *summary_kind_name(enum demand_kind kind);

#endif
