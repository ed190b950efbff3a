#include "inventory/purchases/due.h"

void due_enter_first(struct router *store, const char *item, int64_t due_ms, redis_reply_fn *fn, void *ctx) {
    char key[DUE_KEY_SIZE];
    due_key_make(key, key_part(item));
    router_callf(store, key, fn, ctx, "ZADD %s GT %lld %s", key, (long long)due_ms, item);
}

void due_touch(struct router *store, const char *item, int64_t due_ms, redis_reply_fn *fn, void *ctx) {
    char key[DUE_KEY_SIZE];
    due_key_make(key, key_part(item));
    router_callf(store, key, NULL, NULL, "ZADD %s LT %lld %s", key, (long long)due_ms, item);
    router_callf(store, key, fn, ctx, "ZINCRBY %s -0.001 %s", key, item);
}

bool due_is_up(struct router *store, unsigned part) {
    char key[DUE_KEY_SIZE];
    due_key_make(key, part);
    return router_is_up(store, key);
}

void due_mend(struct router *store, const char *item) {
    char key[DUE_KEY_SIZE];
    due_key_make(key, key_part(item));
    router_call(store, NULL, NULL, 5, (const char *[]){"ZADD", key, "NX", "0", item});
}
