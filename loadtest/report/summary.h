/* Counts and latencies of the request log. */
#ifndef LOADTEST_REPORT_SUMMARY_H
#define LOADTEST_REPORT_SUMMARY_H

#include <stdint.h>

#include "base/histogram.h"
#include "loadtest/judge/request_log.h"
#include "loadtest/plan/demand.h"

/* Of one kind (purchases, baskets or transfers), or of all requests. */
struct summary_kind {
    /* Of the load alone. A latency counts from the planned time of a request to its last answer. */
    struct histogram latency_all; /* with the unknown ones: until they were given up */
    struct histogram latency_accepted, latency_rejected;

    /* After the load and its resolution. */
    unsigned long long attempts, accepted, rejected;
    unsigned long long unknown; /* at any time, also those that a retry resolved */
    unsigned long long rejections[REQUEST_LOG_REASONS];
};

struct summary {
    struct summary_kind all;
    struct summary_kind kinds[DEMAND_KINDS];
    double seconds; /* of the load */
    unsigned long long not_sent, unresolved;
    unsigned long long resolved_accepted, resolved_rejected; /* of all.unknown */
    unsigned long long causes[REQUEST_LOG_REASONS];          /* of all.unknown */
    unsigned long long orders; /* one for each line of a basket, none for a transfer */
    unsigned long long replayed, duplicates, retries;
};

/* Call it when the load has ended, before anything is resolved. */
void summary_time(struct summary *summary, const struct request_log *log, const struct demand *demand,
                  uint64_t started_ns, uint64_t ended_ns);

/* Call it when all is resolved, and the log matched. */
void summary_count(struct summary *summary, const struct request_log *log, const struct demand *demand);

#endif
