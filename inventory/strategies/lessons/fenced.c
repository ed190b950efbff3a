/* The look and the write of a purchase whose lock gave it a fence (strategy `locked`), by fenced.lua. */
#include <stdio.h>
#include <string.h>

#include "inventory/internal.h"

enum { MORE = SCRIPT_ARGV + 10 }; /* where the arguments begin that look and write do not share */

void fencing_token_print(char out[FENCING_TOKEN_SIZE], const struct inventory_fencing_token *token) {
    snprintf(out, FENCING_TOKEN_SIZE, "%020llu:%020llu", (unsigned long long)token->epoch,
             (unsigned long long)token->fence);
}

static bool call(struct inventory_purchase *purchase, const char *what, const char *const *more, int count,
                 redis_reply_fn *fn) {
    const struct sale_keys *keys = &purchase->in->keys;
    char token[FENCING_TOKEN_SIZE];
    fencing_token_print(token, &purchase->token);
    const char *argv[MORE + ITEM_FIELDS] = {
        NULL,         NULL,        NULL, keys->item, keys->orders,     keys->users,   keys->holds,
        keys->events, keys->token, what, token,      purchase->digest, purchase->user};
    memcpy(argv + MORE, more, sizeof *more * (size_t)count);
    return script_call(purchase->inventory, SCRIPT_FENCED, 6, MORE + count, argv, fn, purchase);
}

enum inventory_status fenced_decode(struct inventory_purchase *purchase, const struct redis_value *value) {
    static const struct {
        const char *word;
        size_t count;
        enum inventory_status status;
    } replies[] = {{"looked", 4, INVENTORY_OK},      {"sold", 1, INVENTORY_OK},
                   {"order", 2, INVENTORY_REPLAYED}, {"sold-out", 2, INVENTORY_SOLD_OUT},
                   {"limit", 1, INVENTORY_LIMIT},    {"unknown-item", 1, INVENTORY_UNKNOWN_ITEM},
                   {"stale", 1, INVENTORY_STALE}};
    struct client_read *read = purchase->read;
    enum inventory_status status = store_status(purchase->inventory, value);
    if (status != INVENTORY_OK)
        return status;
    size_t count = redis_value_count(value), i = 0;
    const char *word = count ? redis_value_text(redis_value_at(value, 0)) : NULL;
    while (word && i < sizeof replies / sizeof *replies && strcmp(replies[i].word, word) != 0)
        i++;
    if (!word || i == sizeof replies / sizeof *replies || replies[i].count != count)
        return INVENTORY_UNKNOWN;
    if (replies[i].status == INVENTORY_REPLAYED)
        snprintf(read->order, sizeof read->order, "%s", redis_value_text(redis_value_at(value, 1)));
    if (replies[i].status == INVENTORY_SOLD_OUT)
        read->available = redis_value_integer(redis_value_at(value, 1), 0);
    return replies[i].status;
}

bool fenced_read(struct inventory_purchase *purchase, redis_reply_fn *fn) {
    return call(purchase, "look", item_fields, ITEM_FIELDS, fn);
}

static void on_indexed(void *ctx, const struct redis_value *value) {
    struct inventory_purchase *purchase = ctx;
    failpoint(purchase->inventory, "before first hold");
    if (store_status(purchase->inventory, value) == INVENTORY_OK)
        fenced_write(purchase);
    else
        client_read_finish(purchase, INVENTORY_UNAVAILABLE);
}

/* As index_item() in batch.c. */
static void index_item(struct inventory_purchase *purchase, int64_t until_ms) {
    struct client_read *read = purchase->read;
    bool again = read->indexed_ms != 0;
    read->indexed_ms = until_ms;
    failpoint(purchase->inventory, "before index");
    if (again || !due_enter_first(read->redis, purchase->item, until_ms, on_indexed, purchase))
        client_read_finish(purchase, INVENTORY_UNAVAILABLE);
    else
        redis_flush(read->redis);
}

static void on_written(void *ctx, const struct redis_value *value) {
    struct inventory_purchase *purchase = ctx;
    const char *word =
        value && redis_value_count(value) == 2 ? redis_value_text(redis_value_at(value, 0)) : NULL;
    if (word && strcmp(word, "index") == 0)
        index_item(purchase, redis_value_integer(redis_value_at(value, 1), 0));
    else
        client_read_finish(purchase, fenced_decode(purchase, value));
}

void fenced_write(struct inventory_purchase *purchase) {
    const struct client_read *read = purchase->read;
    char quantity[24], expires[24], indexed[24];
    snprintf(quantity, sizeof quantity, "%lld", (long long)purchase->quantity);
    snprintf(expires, sizeof expires, "%lld", (long long)client_expires_ms(read));
    snprintf(indexed, sizeof indexed, "%lld", (long long)read->indexed_ms);
    client_print_record(purchase);
    const char *const more[] = {quantity, read->record, expires, indexed};
    if (call(purchase, "write", more, 4, on_written))
        redis_flush(purchase->inventory->redis);
    else
        client_read_finish(purchase, INVENTORY_UNAVAILABLE);
}
