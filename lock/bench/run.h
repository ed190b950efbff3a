/* Measures one row. */
#ifndef LOCK_BENCH_RUN_H
#define LOCK_BENCH_RUN_H

#include <signal.h>
#include <stddef.h>

#include "lock/bench/row.h"
#include "lock/bench/store.h"

enum bench_run_status {
    BENCH_DONE,
    BENCH_INTERRUPTED,
    BENCH_FAILED, /* `error` says why */
};

/* `store` may be NULL. Gives up as soon as `*stop` is not 0. */
enum bench_run_status bench_run(const struct bench_case *what, struct bench_store *store,
                                const volatile sig_atomic_t *stop, struct bench_row *row, char *error,
                                size_t error_size);

#endif
