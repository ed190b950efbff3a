/* The report as JSON. */
#ifndef LOADTEST_REPORT_REPORT_JSON_H
#define LOADTEST_REPORT_REPORT_JSON_H

#include "loadtest/report/report.h"

/* Writes one object. False: it could not be written. */
bool report_write_json(FILE *out, const struct report *report);

#endif
