#include "base/histogram.h"

#define SUB_BITS 7
#define SUB      (1u << SUB_BITS) /* buckets for each power of two */

/* Each value below 256 has a bucket of its own; of a larger value the top eight bits choose the bucket. */
static unsigned histogram_bucket(uint64_t value) {
    if (value < UINT64_C(2) * SUB)
        return (unsigned)value;
    unsigned shift = 63u - (unsigned)__builtin_clzll(value) - SUB_BITS;
    return shift * SUB + (unsigned)(value >> shift);
}

/* The largest value of a bucket. */
static uint64_t histogram_bucket_top(unsigned bucket) {
    if (bucket < 2 * SUB)
        return bucket;
    unsigned shift = bucket / SUB - 1;
    uint64_t lowest = (uint64_t)(bucket - shift * SUB) << shift;
    return lowest + ((UINT64_C(1) << shift) - 1);
}

void histogram_record(struct histogram *h, uint64_t value) {
    h->counts[histogram_bucket(value)]++;
    h->total++;
    if (value > h->max)
        h->max = value;
}

void histogram_add(struct histogram *h, const struct histogram *other) {
    for (unsigned bucket = 0; bucket < HISTOGRAM_BUCKETS; bucket++)
        h->counts[bucket] += other->counts[bucket];
    h->total += other->total;
    if (other->max > h->max)
        h->max = other->max;
}

uint64_t histogram_quantile(const struct histogram *h, double fraction) {
    if (h->total == 0)
        return 0;
    double share = fraction * (double)h->total;
    uint64_t rank = (uint64_t)share;
    rank += (double)rank < share;
    uint64_t seen = 0;
    for (unsigned bucket = 0; bucket < HISTOGRAM_BUCKETS; bucket++) {
        seen += h->counts[bucket];
        if (seen >= rank && seen > 0) {
            uint64_t top = histogram_bucket_top(bucket);
            return top < h->max ? top : h->max;
        }
    }
    return h->max;
}
