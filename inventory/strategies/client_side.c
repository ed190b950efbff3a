#include "inventory/strategies/client_side.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "inventory/model/terms.h"
#include "inventory/purchases/holds.h"
#include "inventory/purchases/lost.h"
#include "inventory/store/item_fields.h"
#include "inventory/store/status.h"
#include "inventory/strategies/fenced.h"

int64_t client_expires_ms(const struct client_read *read) {
    return read->hold_ms ? read->now_ms + read->hold_ms : 0;
}

static enum inventory_status judge(const struct inventory_purchase *purchase) {
    const struct client_read *read = purchase->read;
    if (read->status != INVENTORY_OK)
        return read->status;
    if (read->order[0])
        return INVENTORY_REPLAYED;
    enum inventory_status in_time = terms_judge_time(read->now_ms, read->starts_ms, read->ends_ms);
    if (in_time != INVENTORY_OK)
        return in_time;
    if (read->available < purchase->quantity) /* `decr` decides by the debit */
        return read->begun_as == INVENTORY_DECR ? INVENTORY_OK : INVENTORY_SOLD_OUT;
    return read->limit && read->had + purchase->quantity > read->limit ? INVENTORY_LIMIT : INVENTORY_OK;
}

/* Counts a reply; true: it was the last. */
static bool note(struct inventory_purchase *purchase, const struct redis_value *value) {
    struct client_read *read = purchase->read;
    enum inventory_status status = store_status(purchase->inventory, value);
    if (status == INVENTORY_UNKNOWN)
        status = INVENTORY_UNAVAILABLE; /* it was only a read */
    if (read->status == INVENTORY_OK)
        read->status = status;
    return --read->pending == 0;
}

static void go_on(struct inventory_purchase *purchase) {
    struct client_read *read = purchase->read;
    if (read->status == INVENTORY_OK && read->strategy != read->begun_as) {
        /* The item was created anew with another strategy: client_read_finish() starts the purchase again. */
        purchase->in->strategy = read->strategy;
        read->moved = true;
        read->status = INVENTORY_UNAVAILABLE;
    }
    read->next(purchase, judge(purchase));
}

static void on_time(void *ctx, const struct redis_value *value) {
    struct inventory_purchase *purchase = ctx;
    struct client_read *read = purchase->read;
    bool last = note(purchase, value);
    if (read->status == INVENTORY_OK)
        read->now_ms = store_time_ms(value);
    if (last)
        go_on(purchase);
}

static void on_item(void *ctx, const struct redis_value *value) {
    struct inventory_purchase *purchase = ctx;
    struct client_read *read = purchase->read;
    struct inventory_item item;
    bool last = note(purchase, value);
    if (read->status == INVENTORY_OK && !item_read(&item, purchase->item, value)) {
        read->status = INVENTORY_UNKNOWN_ITEM;
    } else if (read->status == INVENTORY_OK) {
        read->available = item.available;
        read->limit = item.limit;
        read->starts_ms = item.starts_ms;
        read->ends_ms = item.ends_ms;
        read->hold_ms = item.hold_ms;
        read->strategy = item.strategy;
    }
    if (last)
        go_on(purchase);
}

static void on_order(void *ctx, const struct redis_value *value) {
    struct inventory_purchase *purchase = ctx;
    struct client_read *read = purchase->read;
    bool last = note(purchase, value);
    if (read->status == INVENTORY_OK && redis_value_type(value) == REDIS_STRING)
        snprintf(read->order, sizeof read->order, "%s", redis_value_text(value));
    if (last)
        go_on(purchase);
}

static void on_user(void *ctx, const struct redis_value *value) {
    struct inventory_purchase *purchase = ctx;
    struct client_read *read = purchase->read;
    bool last = note(purchase, value);
    if (read->status == INVENTORY_OK)
        read->had = redis_value_integer(value, 0);
    if (last)
        go_on(purchase);
}

/* Reads the reply of the script as if it had come in parts. */
static void on_fenced(void *ctx, const struct redis_value *value) {
    struct inventory_purchase *purchase = ctx;
    struct client_read *read = purchase->read;
    enum inventory_status status = fenced_decode(purchase, value);
    if (status == INVENTORY_UNKNOWN)
        status = INVENTORY_UNAVAILABLE; /* it was only a read */
    if (status != INVENTORY_OK) {
        read->next(purchase, status);
        return;
    }
    read->pending = 2;
    read->now_ms = redis_value_integer(redis_value_at(value, 3), 0);
    on_item(purchase, redis_value_at(value, 1));
    on_user(purchase, redis_value_at(value, 2));
}

void client_read_begin(struct inventory_purchase *purchase, struct redis *redis,
                       enum inventory_strategy strategy,
                       void (*next)(struct inventory_purchase *purchase, enum inventory_status status)) {
    const struct sale_keys *keys = &purchase->in->keys;
    if (!purchase->read && !(purchase->read = malloc(sizeof *purchase->read))) {
        purchase_finish(purchase, INVENTORY_OVERLOADED);
        return;
    }
    struct client_read *read = purchase->read;
    bool locked = strategy == INVENTORY_LOCKED && purchase->inventory->config.fencing;
    *read = (struct client_read){
        .redis = redis, .next = next, .begun_as = strategy, .fenced = locked && purchase->token.fence > 0};
    purchase->sent_ms = clock_wall_ms(purchase->inventory->config.clock);
    if (read->fenced || (locked && purchase->token.epoch > 0)) {
        if (!fenced_send_read(purchase, on_fenced))
            next(purchase, INVENTORY_UNAVAILABLE);
        return;
    }
    read->pending += redis_callv(redis, on_time, purchase, "TIME", NULL);
    read->pending += item_ask(redis, keys->item, on_item, purchase);
    read->pending += redis_callv(redis, on_order, purchase, "HGET", keys->orders, purchase->digest, NULL);
    read->pending += redis_callv(redis, on_user, purchase, "HGET", keys->users, purchase->user, NULL);
    if (read->pending < 4)
        read->status = INVENTORY_UNAVAILABLE;
    if (read->pending == 0)
        next(purchase, INVENTORY_UNAVAILABLE);
}

void client_read_finish(struct inventory_purchase *purchase, enum inventory_status status) {
    struct client_read *read = purchase->read;
    if (read->moved) {
        read->moved = false;
        purchase_again(purchase);
        return;
    }
    switch (status) {
    case INVENTORY_OK: purchase_sold(purchase, read->now_ms, client_expires_ms(read)); break;
    case INVENTORY_REPLAYED: purchase_found(purchase, read->order, 0); break;
    case INVENTORY_UNKNOWN: purchase_lost(purchase); break;
    case INVENTORY_SOLD_OUT: purchase->available = read->available > 0 ? read->available : 0;
    /* fall through */
    default: purchase_finish(purchase, status);
    }
}

int client_touch_index(struct inventory_purchase *purchase, redis_reply_fn *fn) {
    struct client_read *read = purchase->read;
    return read->hold_ms && due_touch(read->redis, purchase->item, client_expires_ms(read), fn, purchase);
}

int client_write_entries(struct inventory_purchase *purchase, redis_reply_fn *fn) {
    struct client_read *read = purchase->read;
    const struct sale_keys *keys = &purchase->in->keys;
    int queued = redis_callv(read->redis, fn, purchase, "XADD", keys->events, "*", purchase->digest,
                             read->record, NULL);
    if (read->hold_ms) {
        char expires[24];
        snprintf(expires, sizeof expires, "%lld", (long long)client_expires_ms(read));
        queued +=
            redis_callv(read->redis, fn, purchase, "ZADD", keys->holds, expires, purchase->digest, NULL);
    }
    return queued;
}

void client_print_record(struct inventory_purchase *purchase) {
    struct client_read *read = purchase->read;
    struct inventory_order order = {.quantity = purchase->quantity,
                                    .state = read->hold_ms ? INVENTORY_STATE_HELD : INVENTORY_STATE_CONFIRMED,
                                    .created_ms = read->now_ms,
                                    .expires_ms = client_expires_ms(read)};
    snprintf(order.user, sizeof order.user, "%s", purchase->user);
    record_print(read->record, &order);
}

int client_write(struct inventory_purchase *purchase, redis_reply_fn *fn, int64_t available) {
    struct client_read *read = purchase->read;
    const struct sale_keys *keys = &purchase->in->keys;
    char left[24], quantity[24], total[24];
    snprintf(left, sizeof left, "%lld", (long long)available);
    snprintf(quantity, sizeof quantity, "%lld", (long long)purchase->quantity);
    snprintf(total, sizeof total, "%lld", (long long)(read->had + purchase->quantity));
    client_print_record(purchase);
    int queued = redis_callv(read->redis, fn, purchase, "HSET", keys->item, "available", left, NULL);
    queued += redis_callv(read->redis, fn, purchase, "HINCRBY", keys->item, read->hold_ms ? "held" : "sold",
                          quantity, NULL);
    queued +=
        redis_callv(read->redis, fn, purchase, "HSET", keys->orders, purchase->digest, read->record, NULL);
    if (read->limit)
        queued += redis_callv(read->redis, fn, purchase, "HSET", keys->users, purchase->user, total, NULL);
    return queued + client_write_entries(purchase, fn);
}
