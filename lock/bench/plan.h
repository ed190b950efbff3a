/* Which rows the table has. */
#ifndef LOCK_BENCH_PLAN_H
#define LOCK_BENCH_PLAN_H

#include "lock/bench/options.h"

/* What one row measures. */
struct bench_case {
    const char *url;
    bool shared; /* one key for all; otherwise each contender has its own */
    unsigned processes, contenders;
    double seconds;
    unsigned hold_us;
    bool teaching;
};

enum { BENCH_CASES = 2 * BENCH_LIST * BENCH_LIST };

/* The rows of one lock: each contender alone first, then all on one key. With `one_process` (the lock holds
 * only within one, and nobody wants to see that) there are none of several processes on one key.
 * `*left_out` says whether there would have been. Returns how many. */
unsigned bench_plan(const struct bench_options *options, const char *url, bool one_process,
                    struct bench_case cases[BENCH_CASES], bool *left_out);

enum { BENCH_NAME_SIZE = 256 };

/* The URL without user and password. */
void bench_name(const char *url, char name[BENCH_NAME_SIZE]);

#endif
