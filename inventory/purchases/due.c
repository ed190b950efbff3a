#include "inventory/purchases/due.h"

#include <stdio.h>

void due_enter_first(struct store *store, const char *item, int64_t due_ms, redis_reply_fn *fn, void *ctx) {
    store_callf(store, fn, ctx, "ZADD " DUE_KEY " GT %lld %s", key_part(item), (long long)due_ms, item);
}

void due_touch(struct store *store, const char *item, int64_t due_ms, redis_reply_fn *fn, void *ctx) {
    store_callf(store, NULL, NULL, "ZADD " DUE_KEY " LT %lld %s", key_part(item), (long long)due_ms, item);
    store_callf(store, fn, ctx, "ZINCRBY " DUE_KEY " -0.001 %s", key_part(item), item);
}

bool due_is_up(struct store *store, unsigned part) {
    char key[32];
    snprintf(key, sizeof key, DUE_KEY, part);
    return store_is_up(store, key);
}

void due_mend(struct store *store, const char *item) {
    store_callf(store, NULL, NULL, "ZADD " DUE_KEY " NX 0 %s", key_part(item), item);
}
