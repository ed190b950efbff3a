/* The lock epoch in the store: the calls of epoch.lua. Before there is a grant of a new epoch, each part of
 * the journal is told of the epoch, so that holders of older grants decide nothing any more.
 *
 * A part can forget that in a failover, so every tenth heartbeat tells one part again, in turn. A part of a
 * cluster whose server is gone decides nothing meanwhile, and the other parts do not wait for it. The first
 * heartbeat after its return tells it. Until then the items' tokens protect the stock from older grants. */
#include "inventory/transactions/transactions_internal.h"

#include <stdlib.h>

#include "epoch.lua.h"

static const struct redis_script epoch_script = {epoch_lua, epoch_lua_sha1};

/* Heartbeats for each part that is told again. */
enum { AGAIN_EACH = 10 };

#define KEYS "seckill:{baskets}:lock", "seckill:{baskets}:instances"

struct call {
    struct transactions *transactions;
    uint64_t own; /* the caller has no grants older than this epoch; 0: it has none at all */
    inventory_lock_epoch_fn *fn;
    void *ctx;
};

/* ---- the journal is told ---- */

static void epoch_on_told(void *ctx, const struct redis_value *value) {
    struct journal_part *part = ctx;
    part->asked = false;
    part->lost = store_status(part->shared, value) != INVENTORY_OK;
    part->epoch = part->lost ? 0 : part->asked_epoch;
}

static void epoch_tell(struct transactions *transactions, unsigned number, uint64_t epoch) {
    struct journal_part *part = &transactions->journal_parts[number];
    if (part->asked)
        return;
    part->shared = transactions->shared;
    part->asked = true;
    part->asked_epoch = epoch;
    journal_raise_epoch(transactions, number, epoch, epoch_on_told, part);
}

/* Whether the part's server was asked in vain, and is still gone. */
static bool epoch_is_gone(const struct transactions *transactions, unsigned number) {
    struct journal_keys keys;
    journal_keys_make(&keys, number);
    return transactions->journal_parts[number].lost && !router_is_up(transactions->shared->store, keys.epoch);
}

/* Whether all parts of the journal that can be reached know the epoch. Begins to tell those that do not. */
static bool epoch_is_in_journal(struct transactions *transactions, uint64_t epoch) {
    bool known = true;
    unsigned turn = transactions->journal_turn++ % (KEY_PARTS * AGAIN_EACH);
    for (unsigned number = 0; number < KEY_PARTS; number++) {
        bool told = transactions->journal_parts[number].epoch == epoch;
        known &= told || epoch_is_gone(transactions, number);
        if (!told || number * AGAIN_EACH == turn)
            epoch_tell(transactions, number, epoch);
    }
    return known;
}

/* ---- the calls ---- */

static bool epoch_read(struct inventory_lock_epoch *epoch, const struct redis_value *value) {
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

static void epoch_on_reply(void *ctx, const struct redis_value *value) {
    struct call call = *(struct call *)ctx;
    free(ctx);
    struct inventory_lock_epoch epoch;
    enum inventory_status status = store_status(call.transactions->shared, value);
    if (status == INVENTORY_OK && !epoch_read(&epoch, value))
        status = INVENTORY_UNAVAILABLE;
    if (status == INVENTORY_OK && epoch.behind == 0 && call.own == epoch.epoch)
        epoch.in_force = epoch_is_in_journal(call.transactions, call.own);
    call.fn(call.ctx, status, status == INVENTORY_OK ? &epoch : NULL);
}

static void epoch_run(struct inventory *inventory, uint64_t own, int argc, const char **argv,
                      inventory_lock_epoch_fn *fn, void *ctx) {
    struct call *call = malloc(sizeof *call);
    if (!call) {
        fn(ctx, INVENTORY_UNAVAILABLE, NULL);
        return;
    }
    *call = (struct call){inventory->transactions, own, fn, ctx};
    router_run(inventory->shared.store, &epoch_script, 2, argc, argv, epoch_on_reply, call);
}

void inventory_lock_epoch_heartbeat(struct inventory *inventory, const struct inventory_heartbeat *heartbeat,
                                    inventory_lock_epoch_fn *fn, void *ctx) {
    char epoch[24];
    struct number quiet = number_of(heartbeat->quiet_ms), fresh = number_of(heartbeat->fresh_ms),
                  rewrite = number_of(heartbeat->rewrite_ms);
    snprintf(epoch, sizeof epoch, "%llu", (unsigned long long)heartbeat->epoch);
    const char *argv[] = {
        NULL,       NULL,       NULL,        KEYS, "heartbeat", heartbeat->instance, epoch, heartbeat->lock,
        quiet.text, fresh.text, rewrite.text};
    epoch_run(inventory, heartbeat->epoch, sizeof argv / sizeof *argv, argv, fn, ctx);
}

void inventory_lock_epoch_switch(struct inventory *inventory, const char *lock, inventory_lock_epoch_fn *fn,
                                 void *ctx) {
    const char *argv[] = {NULL, NULL, NULL, KEYS, "switch", lock};
    epoch_run(inventory, 0, sizeof argv / sizeof *argv, argv, fn, ctx);
}

void inventory_lock_epoch_leave(struct inventory *inventory, const char *instance,
                                inventory_lock_epoch_fn *fn, void *ctx) {
    const char *argv[] = {NULL, NULL, NULL, KEYS, "leave", instance};
    epoch_run(inventory, 0, sizeof argv / sizeof *argv, argv, fn, ctx);
}
