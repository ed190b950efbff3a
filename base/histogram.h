/* A log-linear histogram: it has 128 buckets for each power of two, so that a quantile is at most 1/128 (0.8
 * %) above the value that was recorded. The maximum is exact. Not safe from several threads. */
#ifndef BASE_HISTOGRAM_H
#define BASE_HISTOGRAM_H

#include <stdint.h>

#define HISTOGRAM_BUCKETS (58 * 128)

/* Zeroed: an empty histogram. */
struct histogram {
    uint64_t counts[HISTOGRAM_BUCKETS];
    uint64_t total;
    uint64_t max;
};

void histogram_record(struct histogram *h, uint64_t value);

/* Adds everything that `other` has recorded. */
void histogram_add(struct histogram *h, const struct histogram *other);

/* The smallest bucket bound that at least `fraction` (0 to 1) of the recorded values do not exceed, and never
 * more than the maximum. 0 if the histogram is empty. */
uint64_t histogram_quantile(const struct histogram *h, double fraction);

#endif
