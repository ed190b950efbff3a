#include "inventory/purchases/holds.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "due.lua.h"
#include "inventory/purchases/settle.h"
#include "inventory/store/failpoint.h"
#include "inventory/store/status.h"

static const struct script due_script = {due_lua, due_lua_sha1};

/* The number of parts of the index. It must not change: it decides in which part an item is. */
enum { DUE_PARTS = 8, DUE_KEY_SIZE = 24 };
enum { EXPIRE_MOST = 100, READ_MOST = 100 };

static void due_key(char out[DUE_KEY_SIZE], unsigned part) {
    snprintf(out, DUE_KEY_SIZE, "seckill:{due:%u}", part);
}

/* FNV-1a: the same in all processes. */
static unsigned due_part(const char *item) {
    uint32_t hash = 2166136261U;
    for (; *item; item++)
        hash = (hash ^ (unsigned char)*item) * 16777619U;
    return hash % DUE_PARTS;
}

bool due_enter_first(struct redis *redis, const char *item, int64_t due_ms, redis_reply_fn *fn, void *ctx) {
    char key[DUE_KEY_SIZE], due[24];
    due_key(key, due_part(item));
    snprintf(due, sizeof due, "%lld", (long long)due_ms);
    return redis_callv(redis, fn, ctx, "ZADD", key, "GT", due, item, NULL);
}

bool due_touch(struct redis *redis, const char *item, int64_t due_ms, redis_reply_fn *fn, void *ctx) {
    char key[DUE_KEY_SIZE], due[24];
    due_key(key, due_part(item));
    snprintf(due, sizeof due, "%lld", (long long)due_ms);
    return redis_callv(redis, NULL, NULL, "ZADD", key, "NX", due, item, NULL) &&
           redis_callv(redis, fn, ctx, "ZINCRBY", key, "-0.001", item, NULL);
}

/* ---- a store that stood still ---- */

/* Less than half of the grace, so calls that are sent twice in the grace meet every stall that matters. */
enum { SLOW_MS = 200 };

void expiry_note_call(struct inventory *inventory, int64_t sent_ms) {
    int64_t now_ms = clock_mono_ms(inventory->config.clock);
    if (now_ms - sent_ms > SLOW_MS)
        inventory->rest_until_ms = now_ms + INVENTORY_HOLD_GRACE_MS;
}

bool expiry_rests(const struct inventory *inventory) {
    return clock_mono_ms(inventory->config.clock) < inventory->rest_until_ms;
}

/* ---- a sweep: one call at a time, so that Redis is never busy with it for long ---- */

struct due {
    char item[INVENTORY_NAME_MAX + 1];
    char score[24];
};

struct sweep {
    struct inventory *inventory;
    int64_t sent_ms;        /* of the call for the time */
    char now[24];           /* by the store's clock */
    char key[DUE_KEY_SIZE]; /* the part */
    unsigned part;
    bool more;  /* a part, or an item, had more than one call handles, and has fewer now */
    bool moved; /* an entry of this part was moved */
    int count, at;
    struct due due[READ_MOST];
    int pending; /* replies, while old entries are entered */
    bool failed;
};

static void begin(struct sweep *sweep);
static void read_part(struct sweep *sweep);
static void expire_next(struct sweep *sweep);

static void sweep_end(struct sweep *sweep) {
    sweep->inventory->sweeping = false;
    free(sweep);
}

static void done_with(struct sweep *sweep) {
    sweep->at++;
    expire_next(sweep);
}

static void on_moved(void *ctx, const struct redis_value *value) {
    struct sweep *sweep = ctx;
    sweep->moved |= store_status(sweep->inventory, value) == INVENTORY_OK && redis_value_integer(value, 0);
    done_with(sweep);
}

/* Moves the entry to its item's next hold; "": the item has none, and the entry is removed. */
static void move(struct sweep *sweep, const char *next) {
    const struct due *due = &sweep->due[sweep->at];
    const char *argv[] = {NULL, NULL, NULL, sweep->key, due->item, due->score, next};
    failpoint(sweep->inventory, "before move");
    if (script_call(sweep->inventory, &due_script, 1, 7, argv, on_moved, sweep))
        redis_flush(sweep->inventory->redis);
    else
        sweep_end(sweep);
}

static void on_expired(void *ctx, const struct redis_value *value) {
    struct sweep *sweep = ctx;
    enum inventory_status status = store_status(sweep->inventory, value);
    const char *next = NULL;
    if (status == INVENTORY_OK && redis_value_count(value) == 2)
        next = redis_value_text(redis_value_at(value, 1));
    if (!next) {
        done_with(sweep); /* it is due in the next sweep, too; the others need not wait */
        return;
    }
    int64_t expired = redis_value_integer(redis_value_at(value, 0), 0);
    metric_add(&sweep->inventory->metrics->expired, (uint64_t)expired);
    if (expired == EXPIRE_MOST) {
        sweep->more = true; /* after the holds of other items */
        done_with(sweep);
    } else if (strcmp(next, sweep->due[sweep->at].score) == 0) {
        done_with(sweep);
    } else {
        move(sweep, next);
    }
}

static void expire_next(struct sweep *sweep) {
    struct inventory *inventory = sweep->inventory;
    if (sweep->at == sweep->count) {
        sweep->more |= sweep->count == READ_MOST && sweep->moved;
        sweep->part++;
        read_part(sweep);
        return;
    }
    struct sale_keys keys;
    char most[8];
    sale_keys_make(&keys, sweep->due[sweep->at].item);
    snprintf(most, sizeof most, "%d", EXPIRE_MOST);
    const char *argv[] = {NULL,
                          NULL,
                          NULL,
                          keys.item,
                          keys.orders,
                          keys.users,
                          keys.holds,
                          keys.events,
                          "sweep",
                          most,
                          sweep->due[sweep->at].score};
    failpoint(inventory, "before expire");
    if (script_call(inventory, &settle_script, 5, 11, argv, on_expired, sweep))
        redis_flush(inventory->redis);
    else
        sweep_end(sweep);
}

static void on_due(void *ctx, const struct redis_value *value) {
    struct sweep *sweep = ctx;
    size_t count = store_status(sweep->inventory, value) == INVENTORY_OK ? redis_value_count(value) / 2 : 0;
    sweep->count = 0;
    for (size_t i = 0; i < count && sweep->count < READ_MOST; i++) {
        struct due *due = &sweep->due[sweep->count];
        const char *item = redis_value_text(redis_value_at(value, 2 * i));
        const char *score = redis_value_text(redis_value_at(value, 2 * i + 1));
        if (!item || !score || !inventory_name_valid(item, strlen(item)))
            continue;
        snprintf(due->item, sizeof due->item, "%s", item);
        snprintf(due->score, sizeof due->score, "%s", score);
        sweep->count++;
    }
    sweep->at = 0;
    sweep->moved = false;
    expire_next(sweep);
}

static void read_part(struct sweep *sweep) {
    struct inventory *inventory = sweep->inventory;
    char most[8];
    if (sweep->part == DUE_PARTS && sweep->more) {
        begin(sweep); /* last, so that no part waits for the end of another */
        return;
    }
    due_key(sweep->key, sweep->part);
    snprintf(most, sizeof most, "%d", READ_MOST);
    if (sweep->part < DUE_PARTS && redis_callv(inventory->redis, on_due, sweep, "ZRANGEBYSCORE", sweep->key,
                                               "-inf", sweep->now, "WITHSCORES", "LIMIT", "0", most, NULL))
        redis_flush(inventory->redis);
    else
        sweep_end(sweep);
}

/* ---- a store without the index ----
 *
 * It has the names of all items that may have holds in one set. Each is entered as due, page by page; the
 * first sweep that reads it moves it to its next hold. */

#define OLD_KEY "seckill:holding"

static void enter_old(struct sweep *sweep);

static void on_taken_over(void *ctx, const struct redis_value *value) {
    struct sweep *sweep = ctx;
    if (store_status(sweep->inventory, value) == INVENTORY_OK)
        enter_old(sweep);
    else
        sweep_end(sweep); /* the next one tries again */
}

/* They leave the old set after all of them are in the index. */
static void on_entered(void *ctx, const struct redis_value *value) {
    struct sweep *sweep = ctx;
    struct redis *redis = sweep->inventory->redis;
    const char *argv[2 + READ_MOST] = {"SREM", OLD_KEY};
    if (store_status(sweep->inventory, value) != INVENTORY_OK)
        sweep->failed = true;
    if (--sweep->pending > 0)
        return;
    for (int i = 0; i < sweep->count; i++)
        argv[2 + i] = sweep->due[i].item;
    if (!sweep->failed && redis_call(redis, on_taken_over, sweep, 2 + sweep->count, argv))
        redis_flush(redis);
    else
        sweep_end(sweep);
}

static void on_old(void *ctx, const struct redis_value *value) {
    struct sweep *sweep = ctx;
    struct inventory *inventory = sweep->inventory;
    bool told = store_status(inventory, value) == INVENTORY_OK;
    size_t count = told ? redis_value_count(value) : 0;
    sweep->count = 0;
    for (size_t i = 0; i < count && sweep->count < READ_MOST; i++) {
        const char *item = redis_value_text(redis_value_at(value, i));
        if (item && due_enter_first(inventory->redis, item, 0, on_entered, sweep))
            snprintf(sweep->due[sweep->count++].item, sizeof sweep->due->item, "%s", item);
    }
    sweep->pending = sweep->count;
    inventory->taken_over = told && count == 0;
    if (sweep->count > 0)
        redis_flush(inventory->redis);
    else
        read_part(sweep);
}

static void enter_old(struct sweep *sweep) {
    char most[8];
    snprintf(most, sizeof most, "%d", READ_MOST);
    if (redis_callv(sweep->inventory->redis, on_old, sweep, "SRANDMEMBER", OLD_KEY, most, NULL))
        redis_flush(sweep->inventory->redis);
    else
        sweep_end(sweep);
}

static void on_time(void *ctx, const struct redis_value *value) {
    struct sweep *sweep = ctx;
    expiry_note_call(sweep->inventory, sweep->sent_ms);
    if (store_status(sweep->inventory, value) != INVENTORY_OK || expiry_rests(sweep->inventory)) {
        sweep_end(sweep);
        return;
    }
    snprintf(sweep->now, sizeof sweep->now, "%lld", (long long)store_time_ms(value));
    if (sweep->inventory->taken_over)
        read_part(sweep);
    else
        enter_old(sweep);
}

static void begin(struct sweep *sweep) {
    sweep->part = 0;
    sweep->more = false;
    sweep->sent_ms = clock_mono_ms(sweep->inventory->config.clock);
    if (redis_callv(sweep->inventory->redis, on_time, sweep, "TIME", NULL))
        redis_flush(sweep->inventory->redis);
    else
        sweep_end(sweep);
}

void inventory_sweep(struct inventory *inventory) {
    if (inventory->sweeping || expiry_rests(inventory))
        return;
    struct sweep *sweep = calloc(1, sizeof *sweep);
    if (!sweep)
        return;
    inventory->sweeping = true;
    sweep->inventory = inventory;
    begin(sweep);
}
