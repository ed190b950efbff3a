/* The progress of a run: for people, a line on standard error that is rewritten once a second, if standard
 * error is a terminal; for programs, a file of JSON lines (--progress). */
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

/* Outcomes of the requests so far. */
struct progress_counts {
    uint64_t accepted, rejected, unknown;
};

/* `lines` may be NULL; the caller closes it. */
void progress_init(struct progress *progress, FILE *lines);

/* Rewrites the line on the terminal, at most once a second. */
__attribute__((format(printf, 3, 4))) void progress_show(struct progress *progress, uint64_t now_ns,
                                                         const char *format, ...);

/* Removes the line from the terminal. */
void progress_clear(const struct progress *progress);

/* Records a latency for the next line of the file. */
void progress_answered(struct progress *progress, uint64_t latency_ns);

/* Writes a line to the file, at most ten times a second, but always with `last`. `elapsed_ns`: since the load
 * began. */
void progress_write(struct progress *progress, uint64_t now_ns, uint64_t elapsed_ns,
                    const struct progress_counts *counts, bool last);

#endif
