/* Measures one case. */
#ifndef LOCK_BENCH_RUN_H
#define LOCK_BENCH_RUN_H

#include <signal.h>
#include <stddef.h>

#include "lock/bench/row.h"

enum bench_run_status {
    BENCH_DONE,
    BENCH_INTERRUPTED,
    BENCH_FAILED, /* `error` says why */
};

/* Stops as soon as `*stop` is not 0. */
enum bench_run_status bench_run(const struct bench_case *what, const volatile sig_atomic_t *stop,
                                struct bench_row *row, char *error, size_t error_size);

#endif
