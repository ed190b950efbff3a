/* JSON that is not on the hot path: audits, orders, the report. */
#ifndef LOADTEST_REPORT_REPORT_JSON_H
#define LOADTEST_REPORT_REPORT_JSON_H

#include <stdbool.h>
#include <stddef.h>

#include "loadtest/judge/request_log.h"
#include "loadtest/judge/verdict.h"
#include "loadtest/report/report.h"

bool codec_read_books(const char *json, size_t length, struct books *books);

struct codec_order {
    const char *id;
    const char *item;
    const char *user;
    unsigned quantity;
    bool confirmed; /* was acknowledged so: nothing can have come of it but that */
};

/* Compares the books' order with what was bought; LEDGER_UNCHECKED when it cannot be read. */
enum ledger_check codec_check_order(const char *json, size_t length, const struct codec_order *bought);

/* The report as a text to be freed by free(), or NULL when there is no memory. */
char *codec_write_report(const struct report *report);

#endif
