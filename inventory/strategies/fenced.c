#include "inventory/strategies/fenced.h"

#include <stdio.h>
#include <string.h>

#include "fenced.lua.h"
#include "inventory/model/fencing_token.h"
#include "inventory/store/item_terms.h"
#include "inventory/store/shared.h"
#include "inventory/strategies/client_side.h"

static const struct redis_script fenced_script = {fenced_lua, fenced_lua_sha1};

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

void fenced_send_read(struct inventory_purchase *purchase, redis_reply_fn *fn) {
    fenced_call(purchase, "read", item_fields, ITEM_FIELDS, fn);
}

void fenced_send_write(struct inventory_purchase *purchase, int64_t expires_ms, redis_reply_fn *fn) {
    const struct client_read *read = purchase->read;
    char quantity[24], expires[24];
    snprintf(quantity, sizeof quantity, "%lld", (long long)purchase->quantity);
    snprintf(expires, sizeof expires, "%lld", (long long)expires_ms);
    const char *const more[] = {quantity, read->record, expires};
    fenced_call(purchase, "write", more, 3, fn);
}
