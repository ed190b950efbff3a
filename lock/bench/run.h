/* Measures one case: a row of the table. */
#ifndef LOCK_BENCH_RUN_H
#define LOCK_BENCH_RUN_H

#include <signal.h>

#include "lock/bench/contenders.h"

/* The smallest and the largest share of the pairs; 1 is a fair share. */
struct bench_share {
    double least, most;
};

struct bench_row {
    struct bench_case what;
    double seconds;
    uint64_t pairs, handovers;
    double wait_p50_us, wait_p99_us, wait_max_us;
    uint64_t requests; /* sent to the store; 0: the lock has none */
    struct bench_share of_contender, of_process;
    uint64_t two_holders, lost_updates, old_fences, lost_grants; /* 0 for every right lock */
    uint64_t errors;
    enum lock_status error;   /* the first … */
    char why[BENCH_WHY_SIZE]; /* … and its reason; "": not known */
};

static inline uint64_t bench_wrong(const struct bench_row *row) {
    return row->two_holders + row->lost_updates + row->old_fences + row->lost_grants;
}

enum bench_run_status {
    BENCH_DONE,
    BENCH_INTERRUPTED,
    BENCH_FAILED, /* `error` says why */
};

/* Stops as soon as `*stop` is not 0. */
enum bench_run_status bench_run(const struct bench_case *what, const volatile sig_atomic_t *stop,
                                struct bench_row *row, char *error, size_t error_size);

#endif
