/* Items: create, read, restock. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "create.lua.h"
#include "inventory/context.h"
#include "inventory/store/item_fields.h"
#include "inventory/store/status.h"
#include "restock.lua.h"

static const struct script create_script = {create_lua, create_lua_sha1};
static const struct script restock_script = {restock_lua, restock_lua_sha1};

/* A call that waits for its reply. */
struct request {
    struct inventory *inventory;
    inventory_item_fn *item_fn;
    inventory_restock_fn *restock_fn;
    void *ctx;
};

static struct request *request_make(struct inventory *inventory, void *ctx) {
    struct request *request = calloc(1, sizeof *request);
    if (!request)
        return NULL;
    request->inventory = inventory;
    request->ctx = ctx;
    return request;
}

/* ---- read ----
 *
 * Many callers may read one item at once. Those that come while a reply is in flight share the next one,
 * since the reply in flight may be older than their call. */

struct item_reader {
    struct item_reader *next;
    struct inventory *inventory;
    inventory_item_fn *fn;
    void *ctx;
};

static void answer_readers(struct item *item, enum inventory_status status,
                           const struct inventory_item *told) {
    struct item_reader *readers = item->asking;
    item->asking = NULL;
    item->unknown = status != INVENTORY_OK;
    while (readers) {
        struct item_reader read = *readers;
        free(readers);
        readers = read.next;
        read.fn(read.ctx, status, told);
        items_drop(&read.inventory->items, item);
    }
}

static void on_item(void *ctx, const struct redis_value *value);

static void ask_for_readers(struct inventory *inventory, struct item *item) {
    item->asking = item->late;
    item->late = NULL;
    const char *argv[ITEM_ARGC];
    item_command(argv, item->keys.item);
    store_call(inventory->store, on_item, item, ITEM_ARGC, argv);
}

static void on_item(void *ctx, const struct redis_value *value) {
    struct item *item = ctx;
    struct inventory *inventory = item->asking->inventory;
    struct inventory_item told;
    enum inventory_status status = store_status(inventory, value);
    if (status == INVENTORY_OK && !item_read(&told, item->name, value))
        status = INVENTORY_UNKNOWN_ITEM;
    item->users++;
    answer_readers(item, status, status == INVENTORY_OK ? &told : NULL);
    if (item->late && !item->asking) /* a callback may have */
        ask_for_readers(inventory, item);
    items_drop(&inventory->items, item);
}

void inventory_item_get(struct inventory *inventory, const char *name, inventory_item_fn *fn, void *ctx) {
    if (!store_is_up(inventory->store, name)) { /* it is the tag of its keys */
        fn(ctx, INVENTORY_UNAVAILABLE, NULL);
        return;
    }
    struct item_reader *read = malloc(sizeof *read);
    struct item *item = read ? items_take(&inventory->items, name) : NULL;
    if (!item) {
        free(read);
        fn(ctx, INVENTORY_OVERLOADED, NULL);
        return;
    }
    *read = (struct item_reader){.next = item->late, .inventory = inventory, .fn = fn, .ctx = ctx};
    item->late = read;
    if (!item->asking)
        ask_for_readers(inventory, item);
}

/* ---- create ---- */

static void on_created(void *ctx, const struct redis_value *value) {
    struct request request = *(struct request *)ctx;
    free(ctx);
    enum inventory_status status = store_status(request.inventory, value);
    if (status == INVENTORY_OK) {
        int64_t result = redis_value_integer(value, -1);
        status = result == 1 ? INVENTORY_OK : result == 0 ? INVENTORY_REPLAYED : INVENTORY_EXISTS;
    }
    request.item_fn(request.ctx, status, NULL);
}

enum { CREATE_KEYS = 7, CREATE_NUMBERS = 5 };

static void send_create(struct inventory *inventory, const struct inventory_item *item,
                        struct request *request) {
    struct sale_keys keys;
    sale_keys_make(&keys, item->item);
    const char *const all[CREATE_KEYS] = {keys.item,     keys.orders, keys.users, keys.holds,
                                          keys.restocks, keys.token,  keys.events};
    const int64_t numbers[CREATE_NUMBERS] = {item->initial, item->limit, item->starts_ms, item->ends_ms,
                                             item->hold_ms};
    int count = store_is_one(inventory->store) ? 1 : CREATE_KEYS - !inventory->config.events,
        argc = SCRIPT_ARGV;
    const char *argv[SCRIPT_ARGV + CREATE_KEYS + CREATE_NUMBERS + 1];
    char texts[CREATE_NUMBERS][DECIMAL_SIZE];
    for (int i = 0; i < count; i++)
        argv[argc++] = all[i];
    for (int i = 0; i < CREATE_NUMBERS; i++) {
        decimal_append(texts[i], (uint64_t)numbers[i]);
        argv[argc++] = texts[i];
    }
    argv[argc++] = inventory_strategy_name(item->strategy);
    script_call(inventory->store, &create_script, count, argc, argv, on_created, request);
}

void inventory_item_create(struct inventory *inventory, const struct inventory_item *item,
                           inventory_item_fn *fn, void *ctx) {
    if (inventory_strategy_teaches(item->strategy) && !inventory->config.teaching) {
        fn(ctx, INVENTORY_REFUSED, NULL);
        return;
    }
    struct request *request = request_make(inventory, ctx);
    if (!request) {
        fn(ctx, INVENTORY_OVERLOADED, NULL);
        return;
    }
    request->item_fn = fn;
    send_create(inventory, item, request);
}

/* ---- restock ---- */

static void on_restocked(void *ctx, const struct redis_value *value) {
    struct request request = *(struct request *)ctx;
    free(ctx);
    enum inventory_status status = store_status(request.inventory, value);
    struct inventory_restock restock = {.quantity = 0};
    if (status == INVENTORY_OK && redis_value_count(value) == 4) {
        status = redis_value_integer(redis_value_at(value, 0), 0) ? INVENTORY_REPLAYED : INVENTORY_OK;
        restock.quantity = redis_value_integer(redis_value_at(value, 1), 0);
        restock.stock = redis_value_integer(redis_value_at(value, 2), 0);
        restock.available = redis_value_integer(redis_value_at(value, 3), 0);
    } else if (status == INVENTORY_OK && redis_value_count(value) == 2) {
        status = INVENTORY_TOO_MANY;
        restock.room = redis_value_integer(redis_value_at(value, 1), 0);
    } else if (status == INVENTORY_OK) {
        const char *word = redis_value_count(value) ? redis_value_text(redis_value_at(value, 0)) : NULL;
        status = word && strcmp(word, "key-reused") == 0 ? INVENTORY_KEY_REUSED : INVENTORY_UNKNOWN_ITEM;
    }
    bool told = status == INVENTORY_OK || status == INVENTORY_REPLAYED || status == INVENTORY_TOO_MANY;
    request.restock_fn(request.ctx, status, told ? &restock : NULL);
}

void inventory_item_restock(struct inventory *inventory, const char *name, const char *digest,
                            int64_t quantity, inventory_restock_fn *fn, void *ctx) {
    struct request *request = request_make(inventory, ctx);
    if (!request) {
        fn(ctx, INVENTORY_OVERLOADED, NULL);
        return;
    }
    request->restock_fn = fn;
    struct sale_keys keys;
    sale_keys_make(&keys, name);
    script_callf(inventory->store, &restock_script, on_restocked, request, "3 %s %s %s %s %lld %d %s",
                 keys.item, keys.restocks, keys.events, digest, (long long)quantity, INVENTORY_STOCK_MAX,
                 inventory_events(inventory));
}
