/* Calls of epoch.lua. */
#include "inventory/store/epoch.h"
#include "inventory/lock_epoch.h"

#include <stdio.h>
#include <stdlib.h>

#include "epoch.lua.h"
#include "inventory/context.h"
#include "inventory/store/status.h"

static const struct script epoch_script = {epoch_lua, epoch_lua_sha1};

/* In the slot of the baskets: the journal's script reads the epoch. */
#define INSTANCES_KEY "seckill:{baskets}:instances"

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

/* The caller's arguments begin at argv[SCRIPT_ARGV + 2]. */
static void call_script(struct inventory *inventory, int argc, const char **argv, inventory_lock_epoch_fn *fn,
                        void *ctx) {
    struct call *call = malloc(sizeof *call);
    argv[SCRIPT_ARGV] = LOCK_EPOCH_KEY;
    argv[SCRIPT_ARGV + 1] = INSTANCES_KEY;
    if (call)
        *call = (struct call){inventory, fn, ctx};
    if (call && script_call(inventory, &epoch_script, 2, argc, argv, on_reply, call)) {
        redis_flush(inventory->redis);
        return;
    }
    free(call);
    fn(ctx, INVENTORY_UNAVAILABLE, NULL);
}

void inventory_lock_epoch_heartbeat(struct inventory *inventory, const struct inventory_heartbeat *heartbeat,
                                    inventory_lock_epoch_fn *fn, void *ctx) {
    char epoch[24], quiet[24], fresh[24], rewrite[24];
    snprintf(epoch, sizeof epoch, "%llu", (unsigned long long)heartbeat->epoch);
    snprintf(quiet, sizeof quiet, "%lld", (long long)heartbeat->quiet_ms);
    snprintf(fresh, sizeof fresh, "%lld", (long long)heartbeat->fresh_ms);
    snprintf(rewrite, sizeof rewrite, "%lld", (long long)heartbeat->rewrite_ms);
    const char *argv[] = {
        NULL,  NULL,  NULL,   NULL, NULL, "heartbeat", heartbeat->instance, epoch, heartbeat->lock,
        quiet, fresh, rewrite};
    call_script(inventory, sizeof argv / sizeof *argv, argv, fn, ctx);
}

void inventory_lock_epoch_switch(struct inventory *inventory, const char *lock, inventory_lock_epoch_fn *fn,
                                 void *ctx) {
    const char *argv[] = {NULL, NULL, NULL, NULL, NULL, "switch", lock};
    call_script(inventory, sizeof argv / sizeof *argv, argv, fn, ctx);
}

void inventory_lock_epoch_leave(struct inventory *inventory, const char *instance,
                                inventory_lock_epoch_fn *fn, void *ctx) {
    const char *argv[] = {NULL, NULL, NULL, NULL, NULL, "leave", instance};
    call_script(inventory, sizeof argv / sizeof *argv, argv, fn, ctx);
}
