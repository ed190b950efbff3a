#include "inventory/strategies/strategies.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fenced.lua.h"

static const struct redis_script fenced_script = {fenced_lua, fenced_lua_sha1};

int64_t client_expires_ms(const struct client_read *read) {
    return read->item.hold_ms ? read->now_ms + read->item.hold_ms : 0;
}

/* ---- the calls of fenced.lua ---- */

static void fenced_call(struct inventory_purchase *purchase, const char *what, const char *const *more,
                        int count, redis_reply_fn *fn) {
    const struct sale_keys *keys = &purchase->in->keys;
    char token[FENCING_TOKEN_SIZE];
    fencing_token_print(token, &purchase->token);
    const char *argv[SCRIPT_ARGV + 5 + 4 + ITEM_FIELDS] = {NULL,        NULL,      NULL,       keys->item,
                                                           keys->holds, keys->due, keys->token};
    int key_count = shared_add_events(purchase->purchases->shared, keys, argv + SCRIPT_ARGV, 4);
    const char **at = argv + SCRIPT_ARGV + key_count;
    memcpy(at, (const char *[]){what, token, purchase->digest, purchase->user}, 4 * sizeof *at);
    memcpy(at + 4, more, sizeof *more * (size_t)count);
    router_run(purchase->purchases->shared->store, &fenced_script, key_count,
               SCRIPT_ARGV + key_count + 4 + count, argv, fn, purchase);
}

enum inventory_status fenced_decode(struct inventory_purchase *purchase, const struct redis_value *value) {
    struct client_read *read = purchase->read;
    enum inventory_status status = store_status(purchase->purchases->shared, value);
    if (status != INVENTORY_OK)
        return status;
    size_t count = redis_value_count(value);
    const char *word = count ? redis_value_text(redis_value_at(value, 0)) : NULL;
    if (!word)
        return INVENTORY_UNKNOWN;
    if (strcmp(word, "order") == 0 && count == 2) {
        snprintf(read->order, sizeof read->order, "%s", redis_value_text(redis_value_at(value, 1)));
        return INVENTORY_REPLAYED;
    }
    if (terms_refusal(word, &status)) {
        read->item.available = count == 2 ? redis_value_integer(redis_value_at(value, 1), 0) : 0;
        return status;
    }
    if (strcmp(word, "stale") == 0)
        return INVENTORY_STALE;
    bool known = (strcmp(word, "read") == 0 && count == 4) || strcmp(word, "sold") == 0;
    return known ? INVENTORY_OK : INVENTORY_UNKNOWN;
}

void fenced_send_write(struct inventory_purchase *purchase, int64_t expires_ms, redis_reply_fn *fn) {
    const struct client_read *read = purchase->read;
    struct number quantity = number_of(purchase->quantity), expires = number_of(expires_ms);
    const char *const more[] = {quantity.text, read->record, expires.text};
    fenced_call(purchase, "write", more, 3, fn);
}

/* ---- the read ---- */

static enum inventory_status client_judge(const struct inventory_purchase *purchase) {
    const struct client_read *read = purchase->read;
    const struct inventory_item *item = &read->item;
    if (read->status != INVENTORY_OK)
        return read->status;
    if (read->order[0])
        return INVENTORY_REPLAYED;
    enum inventory_status in_time = terms_judge_time(read->now_ms, item->starts_ms, item->ends_ms);
    if (in_time != INVENTORY_OK)
        return in_time;
    if (item->available < purchase->quantity) /* `decr` decides by the debit */
        return read->begun_as == INVENTORY_DECR ? INVENTORY_OK : INVENTORY_SOLD_OUT;
    return item->limit && read->had + purchase->quantity > item->limit ? INVENTORY_LIMIT : INVENTORY_OK;
}

static void client_go_on(struct inventory_purchase *purchase) {
    struct client_read *read = purchase->read;
    if (read->status == INVENTORY_OK && read->item.strategy != read->begun_as) {
        /* The item was created anew with another strategy: client_read_finish() starts the purchase again. */
        purchase->in->strategy = read->item.strategy;
        read->moved = true;
        read->status = INVENTORY_UNAVAILABLE;
    }
    read->next(purchase, client_judge(purchase));
}

/* The parts of a read, each with a call of its own; the replies may come in any order. */
enum part { PART_TIME, PART_ITEM, PART_ORDER, PART_USER, PARTS };

static void client_read_part(struct inventory_purchase *purchase, enum part part,
                             const struct redis_value *value) {
    struct client_read *read = purchase->read;
    if (part == PART_TIME)
        read->now_ms = store_time_ms(value);
    else if (part == PART_ITEM && !item_read(&read->item, purchase->item, value))
        read->status = INVENTORY_UNKNOWN_ITEM;
    else if (part == PART_ORDER && redis_value_type(value) == REDIS_STRING)
        snprintf(read->order, sizeof read->order, "%s", redis_value_text(value));
    else if (part == PART_USER)
        read->had = redis_value_integer(value, 0);
}

static void client_on_part(struct inventory_purchase *purchase, enum part part,
                           const struct redis_value *value) {
    struct client_read *read = purchase->read;
    enum inventory_status status = store_status(purchase->purchases->shared, value);
    if (value && read->redis && router_note(read->store, read->redis, value) == ROUTER_MOVED)
        read->slot_moved = true;
    if (read->status == INVENTORY_OK) /* it was only a read, so a lost reply does not make it UNKNOWN */
        read->status = status == INVENTORY_UNKNOWN ? INVENTORY_UNAVAILABLE : status;
    if (read->status == INVENTORY_OK)
        client_read_part(purchase, part, value);
    if (++read->parts == PARTS)
        client_go_on(purchase);
}

static void client_on_time(void *ctx, const struct redis_value *value) {
    client_on_part(ctx, PART_TIME, value);
}

static void client_on_item(void *ctx, const struct redis_value *value) {
    client_on_part(ctx, PART_ITEM, value);
}

static void client_on_order(void *ctx, const struct redis_value *value) {
    client_on_part(ctx, PART_ORDER, value);
}

static void client_on_user(void *ctx, const struct redis_value *value) {
    client_on_part(ctx, PART_USER, value);
}

static void client_on_fenced(void *ctx, const struct redis_value *value) {
    struct inventory_purchase *purchase = ctx;
    struct client_read *read = purchase->read;
    enum inventory_status status = fenced_decode(purchase, value);
    if (status != INVENTORY_OK) {
        read->next(purchase, status == INVENTORY_UNKNOWN ? INVENTORY_UNAVAILABLE : status);
        return;
    }
    read->now_ms = redis_value_integer(redis_value_at(value, 3), 0);
    client_read_part(purchase, PART_ITEM, redis_value_at(value, 1));
    client_read_part(purchase, PART_USER, redis_value_at(value, 2));
    client_go_on(purchase);
}

void client_callf(struct inventory_purchase *purchase, redis_reply_fn *fn, const char *format, ...) {
    const struct client_read *read = purchase->read;
    va_list list;
    va_start(list, format);
    if (read->redis)
        redis_vcallf(read->redis, fn, purchase, format, list);
    else
        router_vcallf(read->store, purchase->in->keys.item, fn, purchase, format, list);
    va_end(list);
}

void client_read_begin(struct inventory_purchase *purchase, struct router *store, struct redis *redis,
                       enum inventory_strategy strategy, client_next_fn *next) {
    const struct sale_keys *keys = &purchase->in->keys;
    if (!purchase->read && !(purchase->read = malloc(sizeof *purchase->read))) {
        purchase_finish(purchase, INVENTORY_OVERLOADED);
        return;
    }
    struct client_read *read = purchase->read;
    bool locked = strategy == INVENTORY_LOCKED && purchase->purchases->shared->config.fencing;
    *read = (struct client_read){.store = store ? store : purchase->purchases->shared->store,
                                 .redis = redis,
                                 .next = next,
                                 .begun_as = strategy,
                                 .fenced = locked && purchase->token.fence > 0};
    purchase_set_connection(purchase, redis);
    purchase->sent_ms = clock_wall_ms(purchase->purchases->shared->config.clock);
    if (read->fenced || (locked && purchase->token.epoch > 0)) {
        fenced_call(purchase, "read", item_fields, ITEM_FIELDS, client_on_fenced);
        return;
    }
    /* The time is that of the server which has the item. */
    struct redis *server = redis ? redis : router_connection(read->store, keys->item);
    if (server)
        redis_callf(server, client_on_time, purchase, "TIME");
    else
        client_on_time(purchase, redis_unsent);
    const char *argv[ITEM_ARGC];
    item_command(argv, keys->item);
    if (redis)
        redis_call(redis, client_on_item, purchase, ITEM_ARGC, argv);
    else
        router_call(read->store, client_on_item, purchase, ITEM_ARGC, argv);
    client_callf(purchase, client_on_order, "HGET %s %s", keys->item, purchase->digest);
    client_callf(purchase, client_on_user, "HGET %s " USER_FIELD "%s", keys->item, purchase->user);
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
    case INVENTORY_SOLD_OUT: purchase->available = read->item.available > 0 ? read->item.available : 0;
    /* fall through */
    default: purchase_finish(purchase, status);
    }
}

/* ---- the write ---- */

void client_write_entries(struct inventory_purchase *purchase, redis_reply_fn *fn) {
    struct client_read *read = purchase->read;
    const struct sale_keys *keys = &purchase->in->keys;
    bool events = purchase->purchases->shared->config.events;
    read->pending += events + 2 * (read->item.hold_ms > 0);
    if (events)
        client_callf(purchase, fn, "XADD %s * %s %s", keys->events, purchase->digest, read->record);
    if (read->item.hold_ms) { /* the item enters the index of due times first, so that no hold is forgotten */
        long long expires_ms = client_expires_ms(read);
        client_callf(purchase, fn, "ZADD %s LT %lld %s", keys->due, expires_ms, keys->item);
        client_callf(purchase, fn, "ZADD %s %lld %s", keys->holds, expires_ms, purchase->digest);
    }
}

void client_print_record(struct inventory_purchase *purchase) {
    struct client_read *read = purchase->read;
    struct inventory_order order = {.quantity = purchase->quantity,
                                    .state =
                                        read->item.hold_ms ? INVENTORY_STATE_HELD : INVENTORY_STATE_CONFIRMED,
                                    .created_ms = read->now_ms,
                                    .expires_ms = client_expires_ms(read)};
    snprintf(order.user, sizeof order.user, "%s", purchase->user);
    record_print(read->record, &order);
}

void client_write(struct inventory_purchase *purchase, redis_reply_fn *fn, int64_t available) {
    struct client_read *read = purchase->read;
    const struct sale_keys *keys = &purchase->in->keys;
    client_print_record(purchase);
    read->pending += 3 + (read->item.limit > 0);
    client_callf(purchase, fn, "HSET %s available %lld", keys->item, (long long)available);
    client_callf(purchase, fn, "HINCRBY %s %s %lld", keys->item, read->item.hold_ms ? "held" : "sold",
                 (long long)purchase->quantity);
    client_callf(purchase, fn, "HSET %s %s %s", keys->item, purchase->digest, read->record);
    if (read->item.limit)
        client_callf(purchase, fn, "HSET %s " USER_FIELD "%s %lld", keys->item, purchase->user,
                     (long long)(read->had + purchase->quantity));
    client_write_entries(purchase, fn);
}
