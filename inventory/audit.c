/* The books of an item, counted from its orders. Deliberately not a script: the one who counts shares no code
 * with the one who sells. */
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "inventory/internal.h"

struct request {
    struct inventory *inventory;
    inventory_audit_fn *fn;
    void *ctx;
    char name[INVENTORY_NAME_MAX + 1];
};

/* Sums over users that agree only if every user's units do (but for one chance in 2^64): each unit counts as
 * its user's hash, under a key that nobody can choose users by. */
struct user_sums {
    unsigned char key[crypto_shorthash_KEYBYTES];
    uint64_t by_orders, by_counters;
};

static uint64_t user_weight(const struct user_sums *sums, const char *user, int64_t units) {
    uint64_t hash;
    crypto_shorthash((unsigned char *)&hash, (const unsigned char *)user, strlen(user), sums->key);
    return hash * (uint64_t)units;
}

static void count_orders(struct inventory_audit *audit, struct user_sums *sums,
                         const struct redis_value *records) {
    for (size_t i = 0; i < redis_value_count(records); i++) {
        const char *record = redis_value_text(redis_value_at(records, i));
        struct inventory_order order;
        if (!record || !record_read(&order, audit->item.item, "", record)) {
            audit->unreadable++;
            continue;
        }
        audit->orders[order.state]++;
        audit->units[order.state] += order.quantity;
        if (order.pending) {
            audit->pending_orders++;
            audit->pending += order.quantity;
        }
        if (order.state == INVENTORY_STATE_HELD || order.state == INVENTORY_STATE_CONFIRMED)
            sums->by_orders += user_weight(sums, order.user, order.quantity);
    }
}

/* `users` is HGETALL's: user, units, user, units ... */
static void count_users(struct inventory_audit *audit, struct user_sums *sums,
                        const struct redis_value *users) {
    for (size_t i = 0; i + 1 < redis_value_count(users); i += 2) {
        const char *user = redis_value_text(redis_value_at(users, i));
        int64_t had = redis_value_integer(redis_value_at(users, i + 1), 0);
        audit->user_units += had;
        sums->by_counters += user_weight(sums, user ? user : "", had);
        if (audit->item.limit && had > audit->item.limit)
            audit->over_limit++;
    }
}

static void judge(struct inventory_audit *audit, const struct user_sums *sums) {
    const struct inventory_item *item = &audit->item;
    int64_t held = audit->units[INVENTORY_STATE_HELD], sold = audit->units[INVENTORY_STATE_CONFIRMED];
    int64_t stock = item->initial + item->restocked;
    audit->oversold = held + sold > stock ? held + sold - stock : 0;
    audit->conserved = item->available >= 0 && stock == item->available + held + sold && item->held == held &&
                       item->sold == sold &&
                       audit->holds == audit->orders[INVENTORY_STATE_HELD] - audit->pending_orders &&
                       (item->limit == 0 || sums->by_counters == sums->by_orders) && audit->over_limit == 0 &&
                       audit->unreadable == 0;
}

static void on_books(void *ctx, const struct redis_value *value) {
    struct request request = *(struct request *)ctx;
    free(ctx);
    struct inventory_audit audit = {.oversold = 0};
    enum inventory_status status = store_status(request.inventory, value);
    if (status == INVENTORY_OK && redis_value_count(value) != 4)
        status = INVENTORY_UNAVAILABLE;
    if (status == INVENTORY_OK && !item_read(&audit.item, request.name, redis_value_at(value, 0)))
        status = INVENTORY_UNKNOWN_ITEM;
    if (status == INVENTORY_OK) {
        struct user_sums sums = {.by_orders = 0};
        randombytes_buf(sums.key, sizeof sums.key);
        count_orders(&audit, &sums, redis_value_at(value, 1));
        count_users(&audit, &sums, redis_value_at(value, 2));
        audit.holds = redis_value_integer(redis_value_at(value, 3), -1);
        judge(&audit, &sums);
    }
    request.fn(request.ctx, status, status == INVENTORY_OK ? &audit : NULL);
}

void inventory_audit(struct inventory *inventory, const char *name, inventory_audit_fn *fn, void *ctx) {
    struct request *request = malloc(sizeof *request);
    if (!request) {
        fn(ctx, INVENTORY_OVERLOADED, NULL);
        return;
    }
    *request = (struct request){.inventory = inventory, .fn = fn, .ctx = ctx};
    snprintf(request->name, sizeof request->name, "%s", name);
    struct sale_keys keys;
    sale_keys_make(&keys, name);
    struct redis *redis = inventory->redis;
    if (!redis_callv(redis, NULL, NULL, "MULTI", NULL)) {
        free(request);
        fn(ctx, INVENTORY_UNAVAILABLE, NULL);
        return;
    }
    item_ask(redis, keys.item, NULL, NULL);
    redis_callv(redis, NULL, NULL, "HVALS", keys.orders, NULL);
    redis_callv(redis, NULL, NULL, "HGETALL", keys.users, NULL);
    redis_callv(redis, NULL, NULL, "ZCARD", keys.holds, NULL);
    if (!redis_callv(redis, on_books, request, "EXEC", NULL)) {
        redis_break(redis, "out of memory"); /* what was begun must not swallow the calls that follow */
        free(request);
        fn(ctx, INVENTORY_UNAVAILABLE, NULL);
        return;
    }
    redis_flush(redis);
}
