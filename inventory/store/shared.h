/* What all layers of an inventory share: its settings, its store, its metrics, the meaning of the store's
 * replies, and failpoints. inventory.c owns the state, which lives as long as the inventory and belongs to
 * its thread. */
#ifndef INVENTORY_STORE_SHARED_H
#define INVENTORY_STORE_SHARED_H

#include "base/clock.h"
#include "base/metric.h"
#include "base/redis/async/router.h"
#include "base/redis/url.h"
#include "inventory/inventory.h"
#include "inventory/model/keys.h"

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

/* Adds the event stream, if it is written, as the last of a script's keys. Returns the number of keys. */
static inline int shared_add_events(const struct shared *shared, const struct sale_keys *keys,
                                    const char **argv, int count) {
    if (shared->config.events)
        argv[count++] = keys->events;
    return count;
}

static inline int64_t shared_now_ms(const struct shared *shared) {
    return clock_mono_ms(shared->config.clock);
}

/* ---- replies ---- */

/* UNKNOWN: the reply was lost (`value` is NULL). UNAVAILABLE: the store refused; the error's text is kept.
 * OK: anything else. */
enum inventory_status store_status(struct shared *shared, const struct redis_value *value);

/* The last reason why the store could not be used; "" if there was none. */
const char *store_last_error(const struct shared *shared);

/* Asks a master of the store that is up for its time. */
void store_time_read(struct shared *shared, inventory_time_fn *fn, void *ctx);

/* Asks the store what it can promise (health.c). */
void health_read(struct shared *shared, inventory_health_fn *fn, void *ctx);

/* The reply to TIME in ms; 0 if it is something else. */
int64_t store_time_ms(const struct redis_value *value);

/* ---- failpoints: named places at which a test stops or ends the process ---- */

void failpoint(const struct shared *shared, const char *name);
/* The failpoint "WHEN NAME N", or "WHEN NAME" if `n` is negative. Queued calls are written first, so that a
 * process that dies here has sent exactly those. */
void failpoint_write(struct shared *shared, const char *when, const char *name, int n);

#endif
