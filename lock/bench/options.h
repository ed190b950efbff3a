/* The command line of lock-bench. */
#ifndef LOCK_BENCH_OPTIONS_H
#define LOCK_BENCH_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/flags.h"

enum { BENCH_LIST = 16, BENCH_CONTENDERS_MAX = 1024, BENCH_PROCESSES_MAX = 64 };

/* Numbers, in the order given. */
struct bench_list {
    unsigned numbers[BENCH_LIST];
    unsigned count;
};

/* Texts point into argv. */
struct bench_options {
    struct flag_texts urls;
    double seconds; /* of each row */
    struct bench_list contenders, processes;
    bool own, shared; /* at least one of them */
    unsigned hold_us;
    const char *json; /* file, "-" for standard output, NULL: none */
    bool teaching;
};

enum flags_status bench_options_read(char *const *argv, struct bench_options *options, char *error,
                                     size_t error_size);

extern const char bench_help[];

#endif
