#include "inventory/store/scan.h"

#include <stdio.h>
#include <string.h>

/* A page keeps the store busy for less than a millisecond. */
enum { PAGE = 500, TURN_MS = 12 };

static void scan_on_page(void *ctx, const struct redis_value *value) {
    struct scan *scan = ctx;
    const char *cursor =
        value && redis_value_count(value) == 2 ? redis_value_text(redis_value_at(value, 0)) : NULL;
    unsigned history = router_history(scan->store, scan->key);
    if (!cursor) {
        scan->fn(scan->ctx, NULL, false);
        return;
    }
    bool again = scan->begun && history != scan->history;
    if (again)
        cursor = "0";
    snprintf(scan->cursor, sizeof scan->cursor, "%s", cursor);
    scan->begun = !again;
    scan->history = history;
    scan->fn(scan->ctx, redis_value_at(value, 1), again);
}

static void scan_read_page(struct scan *scan) {
    scan->waits = clock_mono_ms(scan->clock) - *scan->tick_ms >= TURN_MS;
    if (!scan->waits)
        router_callf(scan->store, scan->key, scan_on_page, scan, "HSCAN %s %s COUNT %d", scan->key,
                     scan->cursor, PAGE);
}

void scan_begin(struct scan *scan, struct router *store, const struct clock *clock, const int64_t *tick_ms,
                const char *key, scan_fn *fn, void *ctx) {
    *scan = (struct scan){
        .store = store, .clock = clock, .tick_ms = tick_ms, .cursor = "0", .fn = fn, .ctx = ctx};
    snprintf(scan->key, sizeof scan->key, "%s", key);
    scan_read_page(scan);
}

bool scan_go_on(struct scan *scan) {
    if (scan->begun && strcmp(scan->cursor, "0") == 0)
        return false;
    scan_read_page(scan);
    return true;
}

void scan_tick(struct scan *scan) {
    if (scan->waits)
        scan_read_page(scan);
}
