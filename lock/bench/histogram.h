/* A log-linear histogram of durations: 64 buckets for each power of two, so a value read back is at most 1/64
 * (1.6 %) above what was recorded. The largest one is kept exactly. */
#ifndef LOCK_BENCH_HISTOGRAM_H
#define LOCK_BENCH_HISTOGRAM_H

#include <stdint.h>

enum { BENCH_BUCKETS = 59 * 64 };

/* All zero is an empty one. */
struct bench_histogram {
    uint64_t counts[BENCH_BUCKETS];
    uint64_t total, max;
};

void bench_histogram_record(struct bench_histogram *h, uint64_t value);
void bench_histogram_add(struct bench_histogram *h, const struct bench_histogram *other);
/* The value that `fraction` (0 to 1) of all that was recorded do not exceed; 0 when empty. */
uint64_t bench_histogram_quantile(const struct bench_histogram *h, double fraction);

#endif
