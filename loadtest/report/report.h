/* The report of a run as text. */
#ifndef LOADTEST_REPORT_REPORT_H
#define LOADTEST_REPORT_REPORT_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "loadtest/judge/request_log.h"
#include "loadtest/judge/verdict.h"
#include "loadtest/plan/demand.h"
#include "loadtest/report/summary.h"

struct report {
    const struct demand *demand;
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

/* True: that kind of request is reported separately, since the load is not purchases alone. */
bool report_has_kind(const struct report *report, enum demand_kind kind);

/* In colour if `out` is a terminal and NO_COLOR is not set. */
void report_print(FILE *out, const struct report *report);

#endif
