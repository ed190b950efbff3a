#include "inventory/purchases/due.h"

/* FNV-1a: the same in all processes. */
static unsigned due_part(const char *item) {
    uint32_t hash = 2166136261U;
    for (; *item; item++)
        hash = (hash ^ (unsigned char)*item) * 16777619U;
    return hash % DUE_PARTS;
}

void due_enter_first(struct store *store, const char *item, int64_t due_ms, redis_reply_fn *fn, void *ctx) {
    store_callf(store, fn, ctx, "ZADD " DUE_KEY " GT %lld %s", due_part(item), (long long)due_ms, item);
}

void due_touch(struct store *store, const char *item, int64_t due_ms, redis_reply_fn *fn, void *ctx) {
    store_callf(store, NULL, NULL, "ZADD " DUE_KEY " NX %lld %s", due_part(item), (long long)due_ms, item);
    store_callf(store, fn, ctx, "ZINCRBY " DUE_KEY " -0.001 %s", due_part(item), item);
}
