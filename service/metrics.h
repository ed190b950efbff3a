/* What a worker counts; written by its thread alone, read by whoever answers /metrics. */
#ifndef SERVICE_METRICS_H
#define SERVICE_METRICS_H

#include <stddef.h>
#include <stdint.h>

#include "inventory/inventory.h"
#include "service/background/blocking_pool.h"
#include "service/background/lock_switch.h"

enum { METRICS_BUCKETS = 16 };

/* How a purchase, basket or transfer ended: an inventory_status, or that its lock could not be had. */
enum { METRICS_LOCK_UNAVAILABLE = INVENTORY_UNKNOWN + 1, METRICS_OUTCOMES };

/* `locked` says how its lock was had; LOCK_OK also where it needed none. */
int metrics_outcome(enum inventory_status status, enum lock_status locked);

/* Upper bounds in seconds, the last is infinite. */
extern const double metrics_bounds[METRICS_BUCKETS - 1];

struct metrics_histogram {
    _Atomic uint64_t buckets[METRICS_BUCKETS];
    _Atomic uint64_t sum_ns;
};

struct metrics {
    _Atomic uint64_t purchases[METRICS_OUTCOMES];
    _Atomic uint64_t baskets[METRICS_OUTCOMES], transfers[METRICS_OUTCOMES];
    _Atomic uint64_t recovered[2];           /* transactions left unfinished: tried in vain, finished */
    _Atomic uint64_t responses[6];           /* by hundreds */
    struct metrics_histogram sold, rejected; /* purchases: how long until the answer */
    struct metrics_histogram transactions_made, transactions_rejected; /* baskets and transfers: likewise */
    struct metrics_histogram transactions_aborted; /* how long they had units that they gave back */
};

void metrics_count(_Atomic uint64_t *metric);
void metrics_time(struct metrics_histogram *histogram, int64_t ns);

/* One worker's share of the text of /metrics. */
struct metrics_source {
    const struct metrics *metrics;
    const struct inventory_metrics *inventory;
    int connections;
};

/* The exposition of all workers' metrics, summed; to be freed by the caller, NULL when out of memory. */
char *metrics_print(const struct metrics_source *sources, int count, const struct pool_metrics *pool,
                    const struct lock_switch_metrics *lock_switch, size_t *length);

#endif
