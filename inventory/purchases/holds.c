#include "inventory/purchases/holds.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "due.lua.h"
#include "inventory/purchases/due.h"
#include "inventory/store/shared.h"

static const struct redis_script due_script = {due_lua, due_lua_sha1};

enum { EXPIRE_MOST = 100, READ_MOST = 100 };

/* ---- a store that stood still ---- */

/* Less than half of the grace, so calls that are sent twice in the grace meet every stall that matters. */
enum { SLOW_MS = 200 };

void expiry_note_call(struct purchases *purchases, int64_t sent_ms) {
    int64_t now_ms = shared_now_ms(purchases->shared);
    if (now_ms - sent_ms > SLOW_MS)
        purchases->rest_until_ms = now_ms + INVENTORY_HOLD_GRACE_MS;
}

bool expiry_rests(const struct purchases *purchases) {
    return shared_now_ms(purchases->shared) < purchases->rest_until_ms;
}

/* ---- a sweep: one call at a time, so that Redis is never busy with it for long ---- */

struct due {
    char item[INVENTORY_NAME_MAX + 1];
    char score[24];
};

struct sweep {
    struct purchases *purchases;
    int64_t sent_ms; /* of the last call */
    int64_t now_ms;  /* by the store's clock, when it began: what is due later waits for the next one */
    unsigned part;
    int from;   /* no entry of the part before this one was moved: their items' master is away */
    bool more;  /* a part, or an item, had more than one call handles, and has fewer now */
    bool moved; /* an entry of this page was moved */
    int count, at;
    struct due due[READ_MOST];
};

static void begin(struct sweep *sweep);
static void read_part(struct sweep *sweep);
static void expire_next(struct sweep *sweep);

static void sweep_end(struct sweep *sweep) {
    sweep->purchases->sweeping = false;
    free(sweep);
}

/* Any of the calls may be the one that meets a stall. */
static void note_sent(struct sweep *sweep) {
    sweep->sent_ms = shared_now_ms(sweep->purchases->shared);
}

static enum inventory_status note_reply(struct sweep *sweep, const struct redis_value *value) {
    expiry_note_call(sweep->purchases, sweep->sent_ms);
    return store_status(sweep->purchases->shared, value);
}

/* A call to a master of a cluster that is gone would wait for it. What it has is for a later sweep. */
static bool item_is_there(const struct sweep *sweep) {
    return router_is_up(sweep->purchases->shared->store,
                        sweep->due[sweep->at].item); /* it is the tag of its keys */
}

static void next_part(struct sweep *sweep) {
    sweep->part++;
    sweep->from = 0;
}

/* A failed call is no reason to stop: that entry is due in the next sweep, too, and the others need not wait.
 */
static void go_on(struct sweep *sweep) {
    sweep->at++;
    if (router_is_up(sweep->purchases->shared->store, NULL))
        expire_next(sweep);
    else
        sweep_end(sweep);
}

static void on_moved(void *ctx, const struct redis_value *value) {
    struct sweep *sweep = ctx;
    sweep->moved |= note_reply(sweep, value) == INVENTORY_OK && redis_value_integer(value, 0);
    go_on(sweep);
}

/* Moves the entry to its item's next hold; "": the item has none, and the entry is removed. */
static void move(struct sweep *sweep, const char *next) {
    const struct due *due = &sweep->due[sweep->at];
    failpoint(sweep->purchases->shared, "before move");
    note_sent(sweep);
    char key[DUE_KEY_SIZE];
    due_key_make(key, sweep->part);
    const char *argv[] = {NULL, NULL, NULL, key, due->item, due->score, next};
    router_run(sweep->purchases->shared->store, &due_script, 1, sizeof argv / sizeof *argv, argv, on_moved,
               sweep);
}

static void on_expired(void *ctx, const struct redis_value *value) {
    struct sweep *sweep = ctx;
    enum inventory_status status = note_reply(sweep, value);
    const char *next = NULL;
    if (status == INVENTORY_OK && redis_value_count(value) == 2)
        next = redis_value_text(redis_value_at(value, 1));
    if (!next) {
        go_on(sweep);
        return;
    }
    int64_t expired = redis_value_integer(redis_value_at(value, 0), 0);
    metric_add(&sweep->purchases->shared->metrics->expired, (uint64_t)expired);
    if (expired == EXPIRE_MOST) {
        sweep->more = true; /* after the holds of other items */
        go_on(sweep);
    } else if (strcmp(next, sweep->due[sweep->at].score) == 0) {
        go_on(sweep);
    } else {
        move(sweep, next);
    }
}

static void expire_next(struct sweep *sweep) {
    struct purchases *purchases = sweep->purchases;
    while (sweep->at < sweep->count && !item_is_there(sweep))
        sweep->at++;
    if (sweep->at == sweep->count) {
        bool full = sweep->count == READ_MOST;
        sweep->more |= full && sweep->moved;
        if (full && !sweep->moved)
            sweep->from += READ_MOST;
        else
            next_part(sweep);
        read_part(sweep);
        return;
    }
    struct sale_keys keys;
    sale_keys_make(&keys, sweep->due[sweep->at].item);
    failpoint(purchases->shared, "before expire");
    note_sent(sweep);
    char most[12], now[24];
    snprintf(most, sizeof most, "%d", EXPIRE_MOST);
    snprintf(now, sizeof now, "%lld", (long long)sweep->now_ms);
    const char *argv[] = {NULL,       NULL,        NULL,
                          keys.item,  keys.orders, keys.users,
                          keys.holds, keys.events, shared_events(purchases->shared),
                          "sweep",    most,        sweep->due[sweep->at].score,
                          now};
    router_run(purchases->shared->store, &settle_script, 5, sizeof argv / sizeof *argv, argv, on_expired,
               sweep);
}

static void on_due(void *ctx, const struct redis_value *value) {
    struct sweep *sweep = ctx;
    size_t count = note_reply(sweep, value) == INVENTORY_OK ? redis_value_count(value) / 2 : 0;
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
    while (sweep->part < KEY_PARTS && !due_is_up(sweep->purchases->shared->store, sweep->part))
        next_part(sweep);
    if (sweep->part == KEY_PARTS && sweep->more) {
        begin(sweep); /* last, so that no part waits for the end of another */
    } else if (sweep->part == KEY_PARTS || !router_is_up(sweep->purchases->shared->store, NULL)) {
        sweep_end(sweep);
    } else {
        note_sent(sweep);
        char key[DUE_KEY_SIZE];
        due_key_make(key, sweep->part);
        router_callf(sweep->purchases->shared->store, key, on_due, sweep,
                     "ZRANGEBYSCORE %s -inf %lld WITHSCORES LIMIT %d %d", key, (long long)sweep->now_ms,
                     sweep->from, READ_MOST);
    }
}

static void on_time(void *ctx, enum inventory_status status, int64_t store_ms) {
    struct sweep *sweep = ctx;
    expiry_note_call(sweep->purchases, sweep->sent_ms);
    if (status != INVENTORY_OK || expiry_rests(sweep->purchases)) {
        sweep_end(sweep);
        return;
    }
    sweep->now_ms = store_ms;
    read_part(sweep);
}

static void begin(struct sweep *sweep) {
    sweep->part = 0;
    sweep->from = 0;
    sweep->more = false;
    note_sent(sweep);
    store_time_read(sweep->purchases->shared, on_time, sweep);
}

void purchases_sweep(struct purchases *purchases) {
    if (purchases->sweeping || expiry_rests(purchases))
        return;
    struct sweep *sweep = calloc(1, sizeof *sweep);
    if (!sweep)
        return;
    purchases->sweeping = true;
    sweep->purchases = purchases;
    begin(sweep);
}
