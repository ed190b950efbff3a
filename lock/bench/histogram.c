#include "lock/bench/histogram.h"

enum { SUB_BITS = 6, SUB = 1 << SUB_BITS };

/* Values below 2 * SUB have a bucket each; above, the top seven bits choose it. */
static unsigned bucket_of(uint64_t value) {
    if (value < UINT64_C(2) * SUB)
        return (unsigned)value;
    unsigned shift = 63u - (unsigned)__builtin_clzll(value) - SUB_BITS;
    return shift * SUB + (unsigned)(value >> shift);
}

static uint64_t bucket_top(unsigned bucket) {
    if (bucket < 2 * SUB)
        return bucket;
    unsigned shift = bucket / SUB - 1;
    return ((uint64_t)(bucket - shift * SUB) << shift) + ((UINT64_C(1) << shift) - 1);
}

void bench_histogram_record(struct bench_histogram *h, uint64_t value) {
    h->counts[bucket_of(value)]++;
    h->total++;
    if (value > h->max)
        h->max = value;
}

void bench_histogram_add(struct bench_histogram *h, const struct bench_histogram *other) {
    for (unsigned i = 0; i < BENCH_BUCKETS; i++)
        h->counts[i] += other->counts[i];
    h->total += other->total;
    if (other->max > h->max)
        h->max = other->max;
}

uint64_t bench_histogram_quantile(const struct bench_histogram *h, double fraction) {
    double rank = fraction * (double)h->total;
    uint64_t seen = 0;
    for (unsigned bucket = 0; bucket < BENCH_BUCKETS; bucket++) {
        seen += h->counts[bucket];
        if (seen > 0 && (double)seen >= rank) {
            uint64_t top = bucket_top(bucket);
            return top < h->max ? top : h->max;
        }
    }
    return h->max;
}
