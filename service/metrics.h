/* What a worker counts; written by its thread alone, read by whoever answers /metrics. */
#ifndef SERVICE_METRICS_H
#define SERVICE_METRICS_H

#include <stddef.h>
#include <stdint.h>

#include "inventory/inventory.h"
#include "service/background/blocking_pool.h"
#include "service/background/lock_switch.h"

enum { FIGURES_BUCKETS = 16 };

/* How a purchase, basket or transfer ended: an inventory_status, or that its lock could not be had. */
enum { FIGURES_LOCK_UNAVAILABLE = INVENTORY_UNKNOWN + 1, FIGURES_OUTCOMES };

/* `locked` says how its lock was had; LOCK_OK also where it needed none. */
int figures_outcome(enum inventory_status status, enum lock_status locked);

/* Upper bounds in seconds, the last is infinite. */
extern const double figures_bounds[FIGURES_BUCKETS - 1];

struct figures_histogram {
    _Atomic uint64_t buckets[FIGURES_BUCKETS];
    _Atomic uint64_t sum_ns;
};

struct figures {
    _Atomic uint64_t purchases[FIGURES_OUTCOMES];
    _Atomic uint64_t baskets[FIGURES_OUTCOMES], transfers[FIGURES_OUTCOMES];
    _Atomic uint64_t recovered[2];                       /* deals left unfinished: tried in vain, finished */
    _Atomic uint64_t responses[6];                       /* by hundreds */
    struct figures_histogram sold, rejected;             /* purchases: how long until the answer */
    struct figures_histogram deals_made, deals_rejected; /* baskets and transfers: likewise */
    struct figures_histogram deals_undone;               /* how long they had units that they gave back */
};

void figures_count(_Atomic uint64_t *figure);
void figures_time(struct figures_histogram *histogram, int64_t ns);

/* One worker's share of the text of /metrics. */
struct figures_source {
    const struct figures *figures;
    const struct inventory_figures *inventory;
    int connections;
};

/* The exposition of all workers' figures, summed; to be freed by the caller, NULL when out of memory. */
char *figures_print(const struct figures_source *sources, int count, const struct pool_figures *pool,
                    const struct domain_metrics *domain, size_t *length);

#endif
