/* What a row of the table says. */
#ifndef LOCK_BENCH_ROW_H
#define LOCK_BENCH_ROW_H

#include <stdint.h>

#include "lock/bench/plan.h"
#include "lock/lock.h"

enum { BENCH_WHY_SIZE = 200 };

/* Commands of a store, of each pair and each hand-over; below 0: not known. */
struct bench_cost {
    double per_pair, per_handover;
};

/* The smallest and the largest part of the pairs that somebody had; 1 is a fair one. */
struct bench_share {
    double least, most;
};

struct bench_row {
    struct bench_case what;
    double seconds;
    uint64_t pairs, handovers;
    double wait_p50_us, wait_p99_us, wait_max_us;
    struct bench_cost commands, calls;
    struct bench_share of_contender, of_process;
    uint64_t met, lost_updates, old_fences, lost_grants; /* no right lock has one */
    uint64_t errors;
    enum lock_status error;   /* the first, */
    char why[BENCH_WHY_SIZE]; /* and its reason; "": none is known */
};

static inline uint64_t bench_wrong(const struct bench_row *row) {
    return row->met + row->lost_updates + row->old_fences + row->lost_grants;
}

#endif
