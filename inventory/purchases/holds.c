/* Holds: the sweep that expires those that are over.
 *
 * Each part of the items has an index of due times: a sorted set of its items by the time when their next
 * hold is over. The script that enters a hold enters its item, too, and the one that expires holds moves the
 * item to its next hold (settle.lua). So an item with holds is always in the index, no later than its first
 * hold is over, and an item without holds costs nothing. A hold that was confirmed or cancelled leaves an
 * entry that is too early; the next sweep corrects it. Strategies without a script enter the item before the
 * hold. Many processes may sweep at once: a hold expires once.
 *
 * A hold lives for INVENTORY_HOLD_GRACE_MS after it is due, since a confirm that arrived in time may still be
 * on its way to the store (settle.lua). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "due.lua.h"
#include "inventory/purchases/purchases.h"
#include "settle.lua.h"

static const struct redis_script due_script = {due_lua, due_lua_sha1};

const struct redis_script settle_script = {settle_lua, settle_lua_sha1};

int settle_command(const char *argv[SETTLE_ARGV], const struct shared *shared, const struct sale_keys *keys,
                   const char *const args[SETTLE_ARGS]) {
    const char **key = argv + SCRIPT_ARGV;
    memcpy(key, (const char *[]){keys->item, keys->holds, keys->due}, 3 * sizeof *key);
    int count = shared_add_events(shared, keys, key, 3);
    for (int i = 0; i < SETTLE_ARGS; i++)
        key[count + i] = args[i] ? args[i] : "";
    return count;
}

/* ---- a store that stood still ---- */

/* Less than half of the grace: a call is sent twice in the grace, so one of them meets every stall that
 * matters. */
enum { SLOW_MS = 200 };

void expiry_note_call(struct purchases *purchases, int64_t sent_ms) {
    int64_t now_ms = shared_now_ms(purchases->shared);
    if (now_ms - sent_ms > SLOW_MS)
        purchases->expiry_paused_until_ms = now_ms + INVENTORY_HOLD_GRACE_MS;
}

bool expiry_is_paused(const struct purchases *purchases) {
    return shared_now_ms(purchases->shared) < purchases->expiry_paused_until_ms;
}

/* ---- a sweep: one call at a time, so that Redis is never busy with it for long ---- */

enum { EXPIRE_MOST = 100, READ_MOST = 100 };

struct sweep {
    struct inventory *inventory;
    int64_t sent_ms; /* of the last call */
    int64_t now_ms;  /* by the store's clock, when the sweep began: later holds wait for the next sweep */
    int part;        /* the next part to read */
    bool more;       /* some parts, or an item, had more than one call handles: another round follows */
    bool moved;      /* an item of this page moved in the index */
    int count, at;
    char items[READ_MOST][INVENTORY_NAME_MAX + 1];
};

static void sweep_begin(struct sweep *sweep);
static void sweep_read(struct sweep *sweep);
static void sweep_expire_next(struct sweep *sweep);

static void sweep_end(struct sweep *sweep) {
    sweep->inventory->purchases->sweeping = false;
    free(sweep);
}

/* Called before each call, since any of them may meet a stall. */
static void sweep_note_sent(struct sweep *sweep) {
    sweep->sent_ms = shared_now_ms(&sweep->inventory->shared);
}

static enum inventory_status sweep_note_reply(struct sweep *sweep, const struct redis_value *value) {
    expiry_note_call(sweep->inventory->purchases, sweep->sent_ms);
    return store_status(&sweep->inventory->shared, value);
}

/* A failed call is no reason to stop: its item is due in the next sweep, too, and the others need not wait.
 */
static void sweep_on_expired(void *ctx, const struct redis_value *value) {
    struct sweep *sweep = ctx;
    if (sweep_note_reply(sweep, value) == INVENTORY_OK && redis_value_count(value) == 2) {
        int64_t expired = redis_value_integer(redis_value_at(value, 0), 0);
        metric_add(&sweep->inventory->shared.metrics->expired, (uint64_t)expired);
        sweep->more |= expired == EXPIRE_MOST; /* the rest comes after the holds of other items */
        sweep->moved |= redis_value_integer(redis_value_at(value, 1), 0) == 1;
    }
    sweep->at++;
    if (router_is_up(sweep->inventory->shared.store, NULL))
        sweep_expire_next(sweep);
    else
        sweep_end(sweep);
}

static void sweep_expire_next(struct sweep *sweep) {
    struct shared *shared = &sweep->inventory->shared;
    if (sweep->at == sweep->count) {
        sweep->more |= sweep->count == READ_MOST && sweep->moved;
        sweep_read(sweep);
        return;
    }
    struct sale_keys keys;
    struct number most = number_of(EXPIRE_MOST), now = number_of(sweep->now_ms);
    const char *argv[SETTLE_ARGV];
    sale_keys_make(&keys, sweep->items[sweep->at]);
    failpoint(shared, "before", "expire", -1);
    sweep_note_sent(sweep);
    int count =
        settle_command(argv, shared, &keys, (const char *[SETTLE_ARGS]){"sweep", most.text, now.text});
    router_run(shared->store, &settle_script, count, SCRIPT_ARGV + count + SETTLE_ARGS, argv,
               sweep_on_expired, sweep);
}

static void sweep_on_due(void *ctx, const struct redis_value *value) {
    struct sweep *sweep = ctx;
    size_t count = sweep_note_reply(sweep, value) == INVENTORY_OK ? redis_value_count(value) : 0;
    sweep->count = sweep->at = 0;
    sweep->moved = false;
    for (size_t i = 0; i < count && sweep->count < READ_MOST; i++) {
        const char *key = redis_value_text(redis_value_at(value, i));
        const char *item = key ? item_of_key(key) : NULL;
        if (item)
            snprintf(sweep->items[sweep->count++], sizeof *sweep->items, "%s", item);
    }
    sweep_expire_next(sweep);
}

/* Reads the next parts: all at once; in a cluster one, so that no part waits for a server that is gone. */
static void sweep_read(struct sweep *sweep) {
    struct router *store = sweep->inventory->shared.store;
    char keys[ITEM_PARTS][DUE_KEY_SIZE];
    const char *argv[SCRIPT_ARGV + ITEM_PARTS + 2];
    int count = 0, parts = router_is_one(store) ? ITEM_PARTS : 1;
    for (; sweep->part < ITEM_PARTS && count < parts; sweep->part++) {
        due_key_make(keys[count], (unsigned)sweep->part);
        argv[SCRIPT_ARGV + count] = keys[count];
        count += router_is_up(store, keys[count]);
    }
    if (count == 0 && sweep->more) {
        sweep_begin(sweep); /* only after the last part, so that no part waits for another part's end */
        return;
    }
    if (count == 0) {
        sweep_end(sweep);
        return;
    }
    struct number now = number_of(sweep->now_ms - INVENTORY_HOLD_GRACE_MS), most = number_of(READ_MOST);
    argv[SCRIPT_ARGV + count] = now.text;
    argv[SCRIPT_ARGV + count + 1] = most.text;
    sweep_note_sent(sweep);
    router_run(store, &due_script, count, SCRIPT_ARGV + count + 2, argv, sweep_on_due, sweep);
}

static void sweep_on_time(void *ctx, enum inventory_status status, int64_t store_ms) {
    struct sweep *sweep = ctx;
    expiry_note_call(sweep->inventory->purchases, sweep->sent_ms);
    if (status != INVENTORY_OK || expiry_is_paused(sweep->inventory->purchases)) {
        sweep_end(sweep);
        return;
    }
    sweep->now_ms = store_ms;
    sweep_read(sweep);
}

static void sweep_begin(struct sweep *sweep) {
    sweep->part = 0;
    sweep->more = false;
    sweep_note_sent(sweep);
    inventory_time_read(sweep->inventory, sweep_on_time, sweep);
}

void inventory_sweep(struct inventory *inventory) {
    struct purchases *purchases = inventory->purchases;
    if (purchases->sweeping || expiry_is_paused(purchases))
        return;
    struct sweep *sweep = calloc(1, sizeof *sweep);
    if (!sweep)
        return;
    purchases->sweeping = true;
    sweep->inventory = inventory;
    sweep_begin(sweep);
}

bool inventory_is_sweeping(const struct inventory *inventory) {
    return inventory->purchases->sweeping;
}
