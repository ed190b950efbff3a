/* What all layers of an inventory share: its settings, its store, its metrics, the meaning of the store's
 * replies, scans, and failpoints. inventory.c owns the state, which lives as long as the inventory and
 * belongs to its thread. */
#ifndef INVENTORY_STORE_SHARED_H
#define INVENTORY_STORE_SHARED_H

#include "base/metric.h"
#include "base/redis/async/router.h"
#include "inventory/model/keys.h"
#include "inventory/model/record.h"

struct shared {
    struct inventory_config config;
    struct redis_url url;
    uv_loop_t *loop;
    struct router *store;
    struct inventory_metrics *metrics; /* the caller's, or own_metrics */
    struct inventory_metrics own_metrics;
    int64_t tick_ms; /* when the last tick was; there are twenty a second */
    bool torn; /* a failover may have lost what the journal says of items. Any file that sees a sign of it
                  sets this; transactions/reconcile.c compares them, and clears it */
    char error[256]; /* the last error of the store; see store_status() */
};

/* An open inventory: what its layers share, and the state of each. Each layer defines those functions of
 * inventory.h and transactions.h that it answers. */
struct inventory {
    struct shared shared;
    struct purchases *purchases;
    struct strategies *strategies;
    struct transactions *transactions;
    uv_timer_t tick;
    int closing; /* handles that are not closed yet */
};

static inline int64_t shared_now_ms(const struct shared *shared) {
    return clock_mono_ms(shared->config.clock);
}

/* Adds the event stream, if it is written, as the last of a script's keys. Returns the number of keys. */
static inline int shared_add_events(const struct shared *shared, const struct sale_keys *keys,
                                    const char **argv, int count) {
    if (shared->config.events)
        argv[count++] = keys->events;
    return count;
}

/* Prints a call that creates an item (create.lua), with one argument, which item_terms_print() prints.
 * Returns the number of keys. */
enum { CREATE_ARGS = 1, CREATE_ARGV = SCRIPT_ARGV + 6 + CREATE_ARGS };
extern const struct redis_script create_script;
int create_command(const char *argv[CREATE_ARGV], const struct shared *shared, const struct sale_keys *keys,
                   const char *terms);

/* ---- replies ---- */

/* UNKNOWN: the reply was lost (`value` is NULL). UNAVAILABLE: the store refused; the error's text is kept.
 * OK: anything else. */
enum inventory_status store_status(struct shared *shared, const struct redis_value *value);

/* The reply to TIME in ms; 0 if it is something else. */
int64_t store_time_ms(const struct redis_value *value);

/* ---- scans ----
 *
 * A scan reads a hash from its beginning to its end, page by page (HSCAN), beside a running sale. It keeps
 * the store busy for a quarter of the time at most.
 *
 * What stays in the hash is met at least once. In a cluster its slot may move. Then the scan begins anew,
 * since a cursor means something only to the server that gave it. */

/* `page`: field, value, field, value ...; NULL: the store could not be asked, and the scan has ended.
 * `again`: all pages so far count for nothing. Answer with scan_go_on(), at once or later. */
typedef void scan_fn(void *ctx, const struct redis_value *page, bool again);

struct scan {
    const struct shared *shared;
    char key[SALE_KEY_SIZE], cursor[24];
    unsigned history; /* of the server that is read; 0: no page was read yet */
    bool begun, waits;
    scan_fn *fn;
    void *ctx;
};

/* Begins a scan. It asks for pages in the first 12 ms after each tick. `fn` is perhaps called from within.
 * `scan` must live until the scan has ended. */
void scan_begin(struct scan *scan, const struct shared *shared, const char *key, scan_fn *fn, void *ctx);
/* Call it when the page was dealt with. False: it was the last one. Otherwise the next page is asked for, now
 * or at a tick; `fn` is perhaps called from within. */
bool scan_go_on(struct scan *scan);
/* Call it at each tick. */
void scan_tick(struct scan *scan);

/* ---- failpoints: named places at which a test stops or ends the process ---- */

/* The failpoint "WHEN NAME N", or "WHEN NAME" if `n` is negative. Queued calls are written first, so that a
 * process that dies here has sent exactly those. */
void failpoint(struct shared *shared, const char *when, const char *name, int n);

#endif
