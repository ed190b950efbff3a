/* What all layers of an inventory share: its settings, its store and its metrics. inventory.c owns it; it
 * lives as long as the inventory, and belongs to its thread. */
#ifndef INVENTORY_STORE_SHARED_H
#define INVENTORY_STORE_SHARED_H

#include "base/clock.h"
#include "base/metric.h"
#include "base/redis/async/router.h"
#include "base/redis/url.h"
#include "inventory/inventory.h"

struct shared {
    struct inventory_config config;
    struct redis_url url;
    uv_loop_t *loop;
    struct router *store;
    struct inventory_metrics *metrics; /* the caller's, or own_metrics */
    struct inventory_metrics own_metrics;
    int64_t tick_ms; /* when the last tick was; there are twenty a second */
    char error[256]; /* the last error of the store; see store_status() */
};

/* For scripts: whether they write the event stream. */
static inline const char *shared_events(const struct shared *shared) {
    return shared->config.events ? "on" : "off";
}

static inline int64_t shared_now_ms(const struct shared *shared) {
    return clock_mono_ms(shared->config.clock);
}

#endif
