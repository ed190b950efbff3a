/* Calls of epoch.lua; and before there is a grant of an epoch, each part of the journal is told of it, so
 * that who has an older grant decides nothing any more. */
#include "inventory/lock_epoch.h"

#include <stdlib.h>

#include "epoch.lua.h"
#include "inventory/context.h"
#include "inventory/store/status.h"
#include "inventory/transactions/journal.h"

static const struct script epoch_script = {epoch_lua, epoch_lua_sha1};

#define KEYS "2 seckill:{baskets}:lock seckill:{baskets}:instances"

struct call {
    struct inventory *inventory;
    uint64_t own; /* the caller has no grants older than this epoch; 0: it has none at all */
    inventory_lock_epoch_fn *fn;
    void *ctx;
};

/* ---- the journal is told ---- */

struct raise {
    struct inventory *inventory;
    uint64_t epoch;
    int open; /* parts that have not replied */
    bool failed;
};

static void on_raised(void *ctx, const struct redis_value *value) {
    struct raise *raise = ctx;
    struct inventory *inventory = raise->inventory;
    raise->failed |= store_status(inventory, value) != INVENTORY_OK;
    if (--raise->open > 0)
        return;
    if (!raise->failed)
        inventory->journal_epoch = raise->epoch;
    inventory->raising_journal = false; /* if it failed, the next heartbeat tries again */
    free(raise);
}

/* Whether the whole journal knows of the epoch; begins to tell it if not. */
static bool is_in_journal(struct inventory *inventory, uint64_t epoch) {
    if (inventory->journal_epoch == epoch || inventory->raising_journal)
        return inventory->journal_epoch == epoch;
    struct raise *raise = malloc(sizeof *raise);
    if (!raise)
        return false;
    *raise = (struct raise){.inventory = inventory, .epoch = epoch, .open = KEY_PARTS};
    inventory->raising_journal = true;
    for (unsigned part = 0; part < KEY_PARTS; part++)
        journal_raise_epoch(inventory, part, epoch, on_raised, raise);
    return false;
}

/* ---- the calls ---- */

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
    if (status == INVENTORY_OK && epoch.behind == 0 && call.own == epoch.epoch)
        epoch.in_force = is_in_journal(call.inventory, call.own);
    call.fn(call.ctx, status, status == INVENTORY_OK ? &epoch : NULL);
}

/* NULL when out of memory; the caller was told. */
static struct call *call_new(struct inventory *inventory, uint64_t own, inventory_lock_epoch_fn *fn,
                             void *ctx) {
    struct call *call = malloc(sizeof *call);
    if (call)
        *call = (struct call){inventory, own, fn, ctx};
    else
        fn(ctx, INVENTORY_UNAVAILABLE, NULL);
    return call;
}

void inventory_lock_epoch_heartbeat(struct inventory *inventory, const struct inventory_heartbeat *heartbeat,
                                    inventory_lock_epoch_fn *fn, void *ctx) {
    struct call *call = call_new(inventory, heartbeat->epoch, fn, ctx);
    if (call)
        script_callf(inventory->store, &epoch_script, on_reply, call,
                     KEYS " heartbeat %s %llu %s %lld %lld %lld", heartbeat->instance,
                     (unsigned long long)heartbeat->epoch, heartbeat->lock, (long long)heartbeat->quiet_ms,
                     (long long)heartbeat->fresh_ms, (long long)heartbeat->rewrite_ms);
}

void inventory_lock_epoch_switch(struct inventory *inventory, const char *lock, inventory_lock_epoch_fn *fn,
                                 void *ctx) {
    struct call *call = call_new(inventory, 0, fn, ctx);
    if (call)
        script_callf(inventory->store, &epoch_script, on_reply, call, KEYS " switch %s", lock);
}

void inventory_lock_epoch_leave(struct inventory *inventory, const char *instance,
                                inventory_lock_epoch_fn *fn, void *ctx) {
    struct call *call = call_new(inventory, 0, fn, ctx);
    if (call)
        script_callf(inventory->store, &epoch_script, on_reply, call, KEYS " leave %s", instance);
}
