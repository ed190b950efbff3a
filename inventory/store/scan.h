/* A scan reads a hash from its beginning to its end, page by page (HSCAN), beside a running sale. It keeps
 * the store busy for a quarter of the time at most.
 *
 * What stays in the hash is met at least once. In a cluster its slot may move. Then the scan begins anew,
 * since a cursor means something only to the server that gave it.
 *
 * Everything here belongs to the loop's thread. */
#ifndef INVENTORY_STORE_SCAN_H
#define INVENTORY_STORE_SCAN_H

#include "base/redis/async/router.h"
#include "inventory/model/keys.h"

struct scan;

/* `page`: field, value, field, value ...; NULL: the store could not be asked, and the scan has ended.
 * `again`: all pages so far count for nothing. Answer with scan_go_on(), at once or later. */
typedef void scan_fn(void *ctx, const struct redis_value *page, bool again);

struct scan {
    struct router *store;
    const struct clock *clock;
    const int64_t *tick_ms; /* when the last tick was */
    char key[SALE_KEY_SIZE], cursor[24];
    unsigned history; /* of the server that is read; 0: no page was read yet */
    bool begun, waits;
    scan_fn *fn;
    void *ctx;
};

/* Begins a scan. It asks for pages in the first 12 ms after each tick; `*tick_ms` is the time of the last
 * tick, and there are twenty a second. `fn` is perhaps called from within. `scan` must live until the scan
 * has ended. */
void scan_begin(struct scan *scan, struct router *store, const struct clock *clock, const int64_t *tick_ms,
                const char *key, scan_fn *fn, void *ctx);
/* Call it when the page was dealt with. False: it was the last one. Otherwise the next page is asked for, now
 * or at a tick; `fn` is perhaps called from within. */
bool scan_go_on(struct scan *scan);
/* Call it at each tick. */
void scan_tick(struct scan *scan);

#endif
