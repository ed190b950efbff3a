/* What the threads count, and the text of /metrics. */
#ifndef SERVICE_METRICS_H
#define SERVICE_METRICS_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "base/metric.h"
#include "inventory/inventory.h"
#include "lock/lock.h"

struct service;
struct pool_metrics;
struct lock_switch_state;

enum { METRICS_BUCKETS = 16 };

/* The outcome of a purchase, basket or transfer: an inventory_status, or that its lock could not be acquired.
 */
enum { METRICS_LOCK_UNAVAILABLE = INVENTORY_UNKNOWN + 1, METRICS_OUTCOMES };

struct metrics_histogram {
    _Atomic uint64_t buckets[METRICS_BUCKETS];
    _Atomic uint64_t sum_ns;
};

/* What a loop thread counts. That thread alone writes it; the thread that answers /metrics reads it. */
struct metrics {
    _Atomic uint64_t purchases[METRICS_OUTCOMES];
    _Atomic uint64_t baskets[METRICS_OUTCOMES], transfers[METRICS_OUTCOMES];
    _Atomic uint64_t recovered[2];           /* attempts to recover a transaction: failed, finished */
    _Atomic uint64_t responses[6];           /* by the first digit of the status */
    struct metrics_histogram sold, rejected; /* time until the answer of a purchase */
    struct metrics_histogram transactions_made, transactions_rejected; /* the same of baskets and transfers */
    struct metrics_histogram transactions_aborted; /* how long they held units that they gave back */
};

/* Adds a duration to the histogram. */
void metrics_time(struct metrics_histogram *histogram, int64_t ns);

/* Counts the outcome of a call that arrived at this time, and how long it took. `locked` is the outcome of
 * acquiring the locks; LOCK_OK also if none was needed. */
void metrics_count(_Atomic uint64_t counters[METRICS_OUTCOMES], struct metrics_histogram *good,
                   struct metrics_histogram *bad, enum inventory_status status, enum lock_status locked,
                   int64_t arrived_ns);

/* Prints the text of /metrics, summed over all loop threads; the caller frees it. NULL when out of memory. */
char *metrics_print(struct service *service, const struct pool_metrics *pool,
                    const struct lock_switch_state *lock_switch, size_t *length);

#endif
