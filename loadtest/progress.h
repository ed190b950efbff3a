/* Progress of a run: for people a line on standard error, rewritten once a second, if that is a terminal; for
 * programs a file of JSON lines (--progress). */
#ifndef LOADTEST_PROGRESS_H
#define LOADTEST_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "base/histogram.h"

struct progress {
    bool on; /* standard error is a terminal */
    uint64_t next_ns;
    FILE *lines; /* NULL: none are wanted */
    uint64_t next_line_ns;
    struct histogram latencies; /* since the last line */
};

/* What has come of the requests so far. */
struct progress_counts {
    uint64_t accepted, rejected, unknown;
};

/* `lines` is not closed; it may be NULL. */
void progress_init(struct progress *progress, FILE *lines);

/* Does something once a second. */
__attribute__((format(printf, 3, 4))) void progress_show(struct progress *progress, uint64_t now_ns,
                                                         const char *format, ...);

/* Removes the line. */
void progress_clear(const struct progress *progress);

/* For the file: a request has been answered after so long. */
void progress_answered(struct progress *progress, uint64_t latency_ns);
/* Writes a line to the file ten times a second, and with `last` at once. `elapsed_ns`: of the load. */
void progress_write(struct progress *progress, uint64_t now_ns, uint64_t elapsed_ns,
                    const struct progress_counts *counts, bool last);

#endif
