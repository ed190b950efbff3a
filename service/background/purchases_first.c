/* Why, and when, a purchase goes before a basket.
 *
 * Each step of a basket or transfer costs the store a sync of its file, and its lock may cost more. So while
 * a crowd of purchases waits for the store, or did a moment ago, locked jobs run one at a time, and the
 * thread that ran one rests before the next (blocking_pool.c). Only purchases that are sold make a crowd: a
 * refusal costs no sync, and clients that ask for what is not there must not hold up baskets. */
#include "service/service.h"

/* A crowd: so many purchases wait, and so many were sold within CROWD_NS. */
enum { CROWD = 32, CROWD_NS = 100000000 };

void purchases_first_count(struct service *service) {
    struct purchases_first *first = &service->purchases_first;
    int64_t now_ns = clock_now_ns();
    uint64_t waiting = 0, sold = 0;
    for (int i = 0; i < service->config.workers; i++) {
        waiting += service->workers[i].thread.stock_metrics.waiting;
        sold += service->workers[i].thread.metrics.purchases[INVENTORY_OK];
    }
    bool many = sold - first->sold >= CROWD;
    if (waiting >= CROWD && (many || first->sold_many))
        atomic_store(&first->until_ns, now_ns + CROWD_NS);
    if (now_ns >= first->counted_ns + CROWD_NS) {
        first->sold_many = many;
        first->sold = sold;
        first->counted_ns = now_ns;
    }
}

int purchases_first_limit(void *ctx) {
    struct service *service = ctx;
    return clock_now_ns() < atomic_load(&service->purchases_first.until_ns) ? 1 : POOL_THREADS;
}
