#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "inventory/internal.h"

int64_t look_expires_ms(const struct sale_look *look) {
    return look->hold_ms ? look->now_ms + look->hold_ms : 0;
}

static enum inventory_status judge(const struct inventory_purchase *purchase) {
    const struct sale_look *look = purchase->look;
    if (look->status != INVENTORY_OK)
        return look->status;
    if (look->order[0])
        return INVENTORY_REPLAYED;
    enum inventory_status in_time = item_judge_time(look->now_ms, look->starts_ms, look->ends_ms);
    if (in_time != INVENTORY_OK)
        return in_time;
    if (look->available < purchase->quantity) /* `decr` finds out by taking them */
        return look->begun_as == INVENTORY_DECR ? INVENTORY_OK : INVENTORY_SOLD_OUT;
    return look->limit && look->had + purchase->quantity > look->limit ? INVENTORY_LIMIT : INVENTORY_OK;
}

/* Notes a reply; true when it was the last. */
static bool note(struct inventory_purchase *purchase, const struct redis_value *value) {
    struct sale_look *look = purchase->look;
    enum inventory_status status = store_status(purchase->inventory, value);
    if (status == INVENTORY_UNKNOWN)
        status = INVENTORY_UNAVAILABLE; /* it was but a question */
    if (look->status == INVENTORY_OK)
        look->status = status;
    return --look->pending == 0;
}

static void go_on(struct inventory_purchase *purchase) {
    struct sale_look *look = purchase->look;
    if (look->status == INVENTORY_OK && look->strategy != look->begun_as) {
        /* The item was made anew meanwhile, to be sold otherwise: once `next` has let go, see look_finish().
         */
        purchase->in->strategy = look->strategy;
        look->moved = true;
        look->status = INVENTORY_UNAVAILABLE;
    }
    look->next(purchase, judge(purchase));
}

static void on_time(void *ctx, const struct redis_value *value) {
    struct inventory_purchase *purchase = ctx;
    struct sale_look *look = purchase->look;
    bool last = note(purchase, value);
    if (look->status == INVENTORY_OK)
        look->now_ms = store_time_ms(value);
    if (last)
        go_on(purchase);
}

static void on_item(void *ctx, const struct redis_value *value) {
    struct inventory_purchase *purchase = ctx;
    struct sale_look *look = purchase->look;
    struct inventory_item item;
    bool last = note(purchase, value);
    if (look->status == INVENTORY_OK && !item_read(&item, purchase->item, value)) {
        look->status = INVENTORY_UNKNOWN_ITEM;
    } else if (look->status == INVENTORY_OK) {
        look->available = item.available;
        look->limit = item.limit;
        look->starts_ms = item.starts_ms;
        look->ends_ms = item.ends_ms;
        look->hold_ms = item.hold_ms;
        look->strategy = item.strategy;
    }
    if (last)
        go_on(purchase);
}

static void on_order(void *ctx, const struct redis_value *value) {
    struct inventory_purchase *purchase = ctx;
    struct sale_look *look = purchase->look;
    bool last = note(purchase, value);
    if (look->status == INVENTORY_OK && redis_value_type(value) == REDIS_STRING)
        snprintf(look->order, sizeof look->order, "%s", redis_value_text(value));
    if (last)
        go_on(purchase);
}

static void on_user(void *ctx, const struct redis_value *value) {
    struct inventory_purchase *purchase = ctx;
    struct sale_look *look = purchase->look;
    bool last = note(purchase, value);
    if (look->status == INVENTORY_OK)
        look->had = redis_value_integer(value, 0);
    if (last)
        go_on(purchase);
}

/* What one script read is noted as if it had been asked for piece by piece. */
static void on_fenced(void *ctx, const struct redis_value *value) {
    struct inventory_purchase *purchase = ctx;
    struct sale_look *look = purchase->look;
    enum inventory_status status = fenced_read(purchase, value);
    if (status == INVENTORY_UNKNOWN)
        status = INVENTORY_UNAVAILABLE; /* it was but a question */
    if (status != INVENTORY_OK) {
        look->next(purchase, status);
        return;
    }
    look->pending = 2;
    look->now_ms = redis_value_integer(redis_value_at(value, 3), 0);
    on_item(purchase, redis_value_at(value, 1));
    on_user(purchase, redis_value_at(value, 2));
}

void look_begin(struct inventory_purchase *purchase, struct redis *redis, enum inventory_strategy strategy,
                void (*next)(struct inventory_purchase *purchase, enum inventory_status status)) {
    const struct sale_keys *keys = &purchase->in->keys;
    if (!purchase->look && !(purchase->look = malloc(sizeof *purchase->look))) {
        purchase_finish(purchase, INVENTORY_OVERLOADED);
        return;
    }
    struct sale_look *look = purchase->look;
    bool locked = strategy == INVENTORY_LOCKED && purchase->inventory->config.fencing;
    *look = (struct sale_look){
        .redis = redis, .next = next, .begun_as = strategy, .fenced = locked && purchase->token.fence > 0};
    purchase->sent_ms = clock_wall_ms(purchase->inventory->config.clock);
    if (look->fenced || (locked && purchase->token.epoch > 0)) {
        if (!fenced_look(purchase, on_fenced))
            next(purchase, INVENTORY_UNAVAILABLE);
        return;
    }
    look->pending += redis_callv(redis, on_time, purchase, "TIME", NULL);
    look->pending += item_ask(redis, keys->item, on_item, purchase);
    look->pending += redis_callv(redis, on_order, purchase, "HGET", keys->orders, purchase->digest, NULL);
    look->pending += redis_callv(redis, on_user, purchase, "HGET", keys->users, purchase->user, NULL);
    if (look->pending < 4)
        look->status = INVENTORY_UNAVAILABLE;
    if (look->pending == 0)
        next(purchase, INVENTORY_UNAVAILABLE);
}

void look_finish(struct inventory_purchase *purchase, enum inventory_status status) {
    struct sale_look *look = purchase->look;
    if (look->moved) {
        look->moved = false;
        purchase_start(purchase);
        return;
    }
    switch (status) {
    case INVENTORY_OK: purchase_sold(purchase, look->now_ms, look_expires_ms(look)); break;
    case INVENTORY_REPLAYED: purchase_found(purchase, look->order, 0); break;
    case INVENTORY_UNKNOWN: purchase_lost(purchase); break;
    case INVENTORY_SOLD_OUT: purchase->available = look->available > 0 ? look->available : 0;
    /* fall through */
    default: purchase_finish(purchase, status);
    }
}

int look_index(struct inventory_purchase *purchase, redis_reply_fn *fn) {
    struct sale_look *look = purchase->look;
    return look->hold_ms && due_touch(look->redis, purchase->item, look_expires_ms(look), fn, purchase);
}

int look_write_entries(struct inventory_purchase *purchase, redis_reply_fn *fn) {
    struct sale_look *look = purchase->look;
    const struct sale_keys *keys = &purchase->in->keys;
    int queued = redis_callv(look->redis, fn, purchase, "XADD", keys->ledger, "*", purchase->digest,
                             look->record, NULL);
    if (look->hold_ms) {
        char expires[24];
        snprintf(expires, sizeof expires, "%lld", (long long)look_expires_ms(look));
        queued +=
            redis_callv(look->redis, fn, purchase, "ZADD", keys->holds, expires, purchase->digest, NULL);
    }
    return queued;
}

void look_record(struct inventory_purchase *purchase) {
    struct sale_look *look = purchase->look;
    struct inventory_order order = {.quantity = purchase->quantity,
                                    .state = look->hold_ms ? INVENTORY_STATE_HELD : INVENTORY_STATE_CONFIRMED,
                                    .created_ms = look->now_ms,
                                    .expires_ms = look_expires_ms(look)};
    snprintf(order.user, sizeof order.user, "%s", purchase->user);
    record_print(look->record, &order);
}

int look_write(struct inventory_purchase *purchase, redis_reply_fn *fn, int64_t available) {
    struct sale_look *look = purchase->look;
    const struct sale_keys *keys = &purchase->in->keys;
    char left[24], quantity[24], total[24];
    snprintf(left, sizeof left, "%lld", (long long)available);
    snprintf(quantity, sizeof quantity, "%lld", (long long)purchase->quantity);
    snprintf(total, sizeof total, "%lld", (long long)(look->had + purchase->quantity));
    look_record(purchase);
    int queued = redis_callv(look->redis, fn, purchase, "HSET", keys->item, "available", left, NULL);
    queued += redis_callv(look->redis, fn, purchase, "HINCRBY", keys->item, look->hold_ms ? "held" : "sold",
                          quantity, NULL);
    queued +=
        redis_callv(look->redis, fn, purchase, "HSET", keys->orders, purchase->digest, look->record, NULL);
    if (look->limit)
        queued += redis_callv(look->redis, fn, purchase, "HSET", keys->users, purchase->user, total, NULL);
    return queued + look_write_entries(purchase, fn);
}
