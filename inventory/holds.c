/* Expires the holds that are due. Each sweep first asks which items have any, and calls the script for those
 * alone. Many processes may sweep at once: a hold expires once. */
#include <stdio.h>
#include <stdlib.h>

#include "inventory/internal.h"

enum { SWEEP_MOST = 100 };

struct sweep {
    struct inventory *inventory;
    int pending; /* items not yet done with */
    char now[24];
};

struct look {
    struct sweep *sweep;
    struct sale_keys keys;
};

static void look_done(struct look *look) {
    struct sweep *sweep = look->sweep;
    free(look);
    if (--sweep->pending > 0)
        return;
    sweep->inventory->sweeping = false;
    free(sweep);
}

static void on_expired(void *ctx, const struct redis_value *value);

static void expire_some(struct look *look) {
    struct inventory *inventory = look->sweep->inventory;
    const struct sale_keys *keys = &look->keys;
    char most[8];
    snprintf(most, sizeof most, "%d", SWEEP_MOST);
    const char *argv[] = {NULL,        NULL,         NULL,    keys->item,       keys->orders, keys->users,
                          keys->holds, keys->ledger, "sweep", look->sweep->now, most};
    if (script_call(inventory, SCRIPT_SETTLE, 5, 11, argv, on_expired, look))
        redis_flush(inventory->redis);
    else
        look_done(look);
}

static void on_expired(void *ctx, const struct redis_value *value) {
    struct look *look = ctx;
    struct inventory *inventory = look->sweep->inventory;
    int64_t expired = 0;
    if (store_status(inventory, value) == INVENTORY_OK)
        expired = redis_value_integer(value, 0);
    figure_add(&inventory->figures->expired, (uint64_t)expired);
    if (expired == SWEEP_MOST)
        expire_some(look);
    else
        look_done(look);
}

static void on_due(void *ctx, const struct redis_value *value) {
    struct look *look = ctx;
    if (store_status(look->sweep->inventory, value) == INVENTORY_OK && redis_value_integer(value, 0) > 0)
        expire_some(look);
    else
        look_done(look);
}

static void on_names(void *ctx, const struct redis_value *value) {
    struct sweep *sweep = ctx;
    struct inventory *inventory = sweep->inventory;
    size_t count = store_status(inventory, value) == INVENTORY_OK ? redis_value_count(value) : 0;
    sweep->pending = 1;
    for (size_t i = 0; i < count; i++) {
        const char *name = redis_value_text(redis_value_at(value, i));
        struct look *look = name ? malloc(sizeof *look) : NULL;
        if (!look)
            continue;
        look->sweep = sweep;
        sale_keys_make(&look->keys, name);
        sweep->pending++;
        if (!redis_callv(inventory->redis, on_due, look, "ZCOUNT", look->keys.holds, "-inf", sweep->now,
                         NULL))
            look_done(look);
    }
    redis_flush(inventory->redis);
    if (--sweep->pending == 0) {
        inventory->sweeping = false;
        free(sweep);
    }
}

void inventory_sweep(struct inventory *inventory) {
    struct sweep *sweep = inventory->sweeping ? NULL : malloc(sizeof *sweep);
    if (!sweep)
        return;
    *sweep = (struct sweep){.inventory = inventory};
    snprintf(sweep->now, sizeof sweep->now, "%lld", (long long)clock_wall_ms(inventory->config.clock));
    if (!redis_callv(inventory->redis, on_names, sweep, "SMEMBERS", SALE_HOLDING_KEY, NULL)) {
        free(sweep);
        return;
    }
    inventory->sweeping = true;
    redis_flush(inventory->redis);
}
