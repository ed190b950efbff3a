#include "inventory/store/shared.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "create.lua.h"

/* ---- creating an item ---- */

const struct redis_script create_script = {create_lua, create_lua_sha1};

int create_command(const char *argv[CREATE_ARGV], const struct shared *shared, const struct sale_keys *keys,
                   const char *terms) {
    const char *const all[] = {keys->item, keys->holds, keys->due, keys->shortage, keys->token, keys->events};
    int count = router_is_one(shared->store) ? 1 : (int)(sizeof all / sizeof *all);
    memcpy(argv + SCRIPT_ARGV, all, sizeof *all * (size_t)count);
    argv[SCRIPT_ARGV + count] = terms;
    return count;
}

/* ---- replies ---- */

enum inventory_status store_status(struct shared *shared, const struct redis_value *value) {
    if (!value)
        return INVENTORY_UNKNOWN;
    if (redis_value_type(value) != REDIS_ERROR)
        return INVENTORY_OK;
    if (value == redis_unsent)
        return INVENTORY_UNAVAILABLE;
    const char *text = redis_value_text(value);
    metric_add(&shared->metrics->store_errors, 1);
    snprintf(shared->error, sizeof shared->error, "%s", text);
    return INVENTORY_UNAVAILABLE;
}

int64_t store_time_ms(const struct redis_value *value) {
    if (redis_value_count(value) != 2)
        return 0;
    return redis_value_integer(redis_value_at(value, 0), 0) * 1000 +
           redis_value_integer(redis_value_at(value, 1), 0) / 1000;
}

const char *inventory_last_error(const struct inventory *inventory) {
    const char *error = router_error(inventory->shared.store);
    return *error ? error : inventory->shared.error;
}

bool inventory_is_up(const struct inventory *inventory) {
    return router_is_up(inventory->shared.store, NULL);
}

struct time_asked {
    struct shared *shared;
    inventory_time_fn *fn;
    void *ctx;
};

static void time_on_reply(void *ctx, const struct redis_value *value) {
    struct time_asked asked = *(struct time_asked *)ctx;
    enum inventory_status status = store_status(asked.shared, value);
    free(ctx);
    asked.fn(asked.ctx, status, status == INVENTORY_OK ? store_time_ms(value) : 0);
}

void inventory_time_read(struct inventory *inventory, inventory_time_fn *fn, void *ctx) {
    struct shared *shared = &inventory->shared;
    struct redis *redis = router_any(shared->store);
    struct time_asked *asked = redis ? malloc(sizeof *asked) : NULL;
    if (!asked) {
        fn(ctx, INVENTORY_UNAVAILABLE, 0);
        return;
    }
    *asked = (struct time_asked){shared, fn, ctx};
    redis_call(redis, time_on_reply, asked, 1, (const char *[]){"TIME"});
}

/* ---- scans ---- */

/* A page keeps the store busy for less than a millisecond. */
enum { PAGE = 500, TURN_MS = 12 };

static void scan_on_page(void *ctx, const struct redis_value *value) {
    struct scan *scan = ctx;
    const char *cursor =
        value && redis_value_count(value) == 2 ? redis_value_text(redis_value_at(value, 0)) : NULL;
    unsigned history = router_history(scan->shared->store, scan->key);
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
    scan->waits = shared_now_ms(scan->shared) - scan->shared->tick_ms >= TURN_MS;
    if (!scan->waits)
        router_callf(scan->shared->store, scan->key, scan_on_page, scan, "HSCAN %s %s COUNT %d", scan->key,
                     scan->cursor, PAGE);
}

void scan_begin(struct scan *scan, const struct shared *shared, const char *key, scan_fn *fn, void *ctx) {
    *scan = (struct scan){.shared = shared, .cursor = "0", .fn = fn, .ctx = ctx};
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

/* ---- failpoints ---- */

void failpoint(struct shared *shared, const char *when, const char *name, int n) {
    const struct inventory_config *config = &shared->config;
    char text[48];
    if (!config->at_failpoint)
        return;
    router_push(shared->store);
    snprintf(text, sizeof text, n < 0 ? "%s %s" : "%s %s %d", when, name, n);
    config->at_failpoint(config->at_failpoint_ctx, text);
}
