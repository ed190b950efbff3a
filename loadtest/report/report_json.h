/* The report as JSON. */
#ifndef LOADTEST_REPORT_REPORT_JSON_H
#define LOADTEST_REPORT_REPORT_JSON_H

#include "loadtest/report/report.h"

/* A text for free(); NULL when out of memory. */
char *report_json(const struct report *report);

#endif
