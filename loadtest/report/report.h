/* What is said at the end, as text for people; codec.h has the same as JSON. */
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
    const char *run; /* in all its keys */
    const struct ledger *ledger;
    const struct summary *summary;
    const struct verdict *verdict;
    const struct books *before; /* of all items together, and so `after` */
    const struct books *after;  /* NULL: could not be had, because of */
    const char *audit_error;    /* this */
    uint64_t connected;         /* connections that were established */
    bool interrupted;           /* the load ended early, by a signal or for want of memory */
};

/* Whether what came of that kind is told apart: unless there are purchases alone. */
bool report_tells(const struct report *report, enum demand_kind kind);

/* In colour where `out` is a terminal and NO_COLOR is not set. */
void report_print(FILE *out, const struct report *report);

/* Writes `text` and a line end to that file, all or nothing; "-" is standard output. False with errno. */
bool report_save(const char *file, const char *text);

#endif
