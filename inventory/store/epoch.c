/* Calls of epoch.lua. */
#include "inventory/lock_epoch.h"

#include <stdlib.h>

#include "epoch.lua.h"
#include "inventory/context.h"
#include "inventory/store/status.h"

static const struct script epoch_script = {epoch_lua, epoch_lua_sha1};

#define KEYS "2 " LOCK_EPOCH_KEY " seckill:{baskets}:instances"

struct call {
    struct inventory *inventory;
    inventory_lock_epoch_fn *fn;
    void *ctx;
};

static bool read_epoch(struct inventory_lock_epoch *epoch, const struct redis_value *value) {
    if (redis_value_count(value) != 6)
        return false;
    *epoch =
        (struct inventory_lock_epoch){.epoch = (uint64_t)redis_value_integer(redis_value_at(value, 0), 0),
                                      .lock = redis_value_text(redis_value_at(value, 1)),
                                      .live = (int)redis_value_integer(redis_value_at(value, 2), 0),
                                      .behind = (int)redis_value_integer(redis_value_at(value, 3), 0),
                                      .laggard = redis_value_text(redis_value_at(value, 4)),
                                      .store_ms = redis_value_integer(redis_value_at(value, 5), 0)};
    return epoch->lock && epoch->laggard;
}

static void on_reply(void *ctx, const struct redis_value *value) {
    struct call call = *(struct call *)ctx;
    free(ctx);
    struct inventory_lock_epoch epoch;
    enum inventory_status status = store_status(call.inventory, value);
    if (status == INVENTORY_OK && !read_epoch(&epoch, value))
        status = INVENTORY_UNAVAILABLE;
    call.fn(call.ctx, status, status == INVENTORY_OK ? &epoch : NULL);
}

/* NULL when out of memory; the caller was told. */
static struct call *call_new(struct inventory *inventory, inventory_lock_epoch_fn *fn, void *ctx) {
    struct call *call = malloc(sizeof *call);
    if (call)
        *call = (struct call){inventory, fn, ctx};
    else
        fn(ctx, INVENTORY_UNAVAILABLE, NULL);
    return call;
}

void inventory_lock_epoch_heartbeat(struct inventory *inventory, const struct inventory_heartbeat *heartbeat,
                                    inventory_lock_epoch_fn *fn, void *ctx) {
    struct call *call = call_new(inventory, fn, ctx);
    if (call)
        script_callf(inventory->store, &epoch_script, on_reply, call,
                     KEYS " heartbeat %s %llu %s %lld %lld %lld", heartbeat->instance,
                     (unsigned long long)heartbeat->epoch, heartbeat->lock, (long long)heartbeat->quiet_ms,
                     (long long)heartbeat->fresh_ms, (long long)heartbeat->rewrite_ms);
}

void inventory_lock_epoch_switch(struct inventory *inventory, const char *lock, inventory_lock_epoch_fn *fn,
                                 void *ctx) {
    struct call *call = call_new(inventory, fn, ctx);
    if (call)
        script_callf(inventory->store, &epoch_script, on_reply, call, KEYS " switch %s", lock);
}

void inventory_lock_epoch_leave(struct inventory *inventory, const char *instance,
                                inventory_lock_epoch_fn *fn, void *ctx) {
    struct call *call = call_new(inventory, fn, ctx);
    if (call)
        script_callf(inventory->store, &epoch_script, on_reply, call, KEYS " leave %s", instance);
}
