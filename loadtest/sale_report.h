/* The report of a run: its counts and latencies, taken from the request log, as text and as JSON. */
#ifndef LOADTEST_SALE_REPORT_H
#define LOADTEST_SALE_REPORT_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "base/histogram.h"
#include "loadtest/judge/fetch_books.h"
#include "loadtest/judge/request_log.h"
#include "loadtest/judge/sale_verdict.h"
#include "loadtest/request_plan.h"

/* Counts of one kind of requests (purchases, baskets or transfers), or of all requests. */
struct summary_kind {
    /* Of the load alone. A latency counts from the planned time of a request to its last answer. */
    struct histogram latency_all; /* with the unknown requests: until they were given up */
    struct histogram latency_accepted, latency_rejected;

    /* After the load and its resolution. */
    unsigned long long attempts, accepted, rejected;
    unsigned long long unknown; /* at any time, also those that a retry resolved */
    unsigned long long rejections[REQUEST_LOG_REASONS];
};

struct summary {
    struct summary_kind all;
    struct summary_kind kinds[REQUEST_KINDS];
    double seconds; /* duration of the load */
    unsigned long long not_sent, unresolved;
    unsigned long long resolved_accepted, resolved_rejected; /* of all.unknown */
    unsigned long long causes[REQUEST_LOG_REASONS];          /* of all.unknown */
    unsigned long long orders; /* one for each line of a basket, none for a transfer */
    unsigned long long replayed, duplicates, retries;
};

/* Zeroed at first; the caller sets all but `summary`. */
struct report {
    const struct plan *plan;
    const char *run; /* part of all its keys */
    const struct request_log *log;
    struct summary summary;
    struct verdict verdict;
    struct books before;     /* of all items together, as `after` */
    struct books after;      /* if they were audited … */
    const char *audit_error; /* … or why they were not */
    uint64_t connected;      /* connections that were opened */
    bool interrupted;        /* the load ended early, by a signal or without memory */
};

/* Takes duration and latencies from the log: when the load has ended, before anything is resolved. */
void report_time(struct report *report, uint64_t started_ns, uint64_t ended_ns);

/* Takes the counts from the log: when everything is resolved, after request_log_match(). */
void report_count(struct report *report);

/* Prints the text, in colour if `out` is a terminal and NO_COLOR is not set. */
void report_print(FILE *out, const struct report *report);

/* Writes one JSON object. False: it could not be written. */
bool report_write_json(FILE *out, const struct report *report);

#endif
