/* The report: the table, row by row, and the same as JSON. */
#ifndef LOCK_BENCH_REPORT_H
#define LOCK_BENCH_REPORT_H

#include <stdio.h>

#include "lock/bench/run.h"

/* The machine that a result was measured on. */
struct bench_machine {
    int cores;
    char cpu[128]; /* "unknown": the kernel does not say */
    char kernel[160];
};

/* All results. */
struct bench_report {
    struct bench_machine machine;
    struct bench_row *rows;
    unsigned count;
    bool interrupted;
};

struct bench_machine bench_machine_read(void);
void bench_print_machine(FILE *out, const struct bench_machine *machine);
/* Above the rows of one lock. */
void bench_print_head(FILE *out, const char *url);
void bench_print_row(FILE *out, const struct bench_row *row);
/* One line for each row with a fault or an error. */
void bench_print_faults(FILE *out, const struct bench_report *report);

/* Writes one object. False: it could not be written. */
bool bench_write_json(FILE *out, const struct bench_report *report);

#endif
