/* The plan: the rows of the table. */
#ifndef LOCK_BENCH_PLAN_H
#define LOCK_BENCH_PLAN_H

#include "lock/bench/options.h"

/* The case that one row measures. */
struct bench_case {
    const char *url;
    bool shared; /* one key for all; otherwise each contender has its own */
    unsigned processes, contenders;
    double seconds;
    unsigned hold_us;
    bool teaching;
};

enum { BENCH_CASES = 2 * BENCH_LIST * BENCH_LIST };

/* Writes the cases of one lock: first each contender on its own key, then all on one key. Returns how many.
 * With `one_process` (the lock holds only within a process) it leaves out several processes on one key;
 * `*left_out`: there were such cases. */
unsigned bench_plan(const struct bench_options *options, const char *url, bool one_process,
                    struct bench_case cases[BENCH_CASES], bool *left_out);

enum { BENCH_NAME_SIZE = 256 };

/* The URL without user and password. */
void bench_name(const char *url, char name[BENCH_NAME_SIZE]);

#endif
