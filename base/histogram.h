/* A log-linear histogram of durations: 128 buckets for each power of two, so a value read back is at most
 * 1/128 (0.8 %) above what was recorded. The largest one is kept exactly. */
#ifndef BASE_HISTOGRAM_H
#define BASE_HISTOGRAM_H

#include <stdint.h>

#define HISTOGRAM_BUCKETS (58 * 128)

/* All zero is an empty one. */
struct histogram {
    uint64_t counts[HISTOGRAM_BUCKETS];
    uint64_t total;
    uint64_t max;
};

void histogram_record(struct histogram *h, uint64_t value);

/* Adds all that `other` has recorded. */
void histogram_add(struct histogram *h, const struct histogram *other);

/* The value that `fraction` (0 to 1) of all that was recorded do not exceed; 0 when empty. */
uint64_t histogram_quantile(const struct histogram *h, double fraction);

#endif
