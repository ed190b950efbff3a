/* Items: the table of those that this process sells or reads; and their calls: read, create, restock. */
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "inventory/purchases/putback.h"
#include "restock.lua.h"

/* ---- the table ---- */

static struct item **items_bucket(struct items *items, const char *name) {
    uint64_t hash;
    crypto_shorthash((unsigned char *)&hash, (const unsigned char *)name, strlen(name), items->hash_key);
    return &items->buckets[hash % ITEM_BUCKETS];
}

void items_init(struct items *items) {
    randombytes_buf(items->hash_key, sizeof items->hash_key);
}

void items_free(struct items *items) {
    for (size_t i = 0; i < ITEM_BUCKETS; i++) {
        while (items->buckets[i]) {
            struct item *next = items->buckets[i]->chain;
            free(items->buckets[i]);
            items->buckets[i] = next;
        }
    }
    items->count = 0;
}

struct item *items_take(struct items *items, const char *name) {
    struct item **bucket = items_bucket(items, name);
    for (struct item *item = *bucket; item; item = item->chain) {
        if (strcmp(item->name, name) == 0) {
            item->refs++;
            return item;
        }
    }
    struct item *item = calloc(1, sizeof *item);
    if (!item)
        return NULL;
    item->refs = 1;
    item->strategy = INVENTORY_BATCH;
    STAILQ_INIT(&item->waiting);
    snprintf(item->name, sizeof item->name, "%s", name);
    sale_keys_make(&item->keys, name);
    item->chain = *bucket;
    *bucket = item;
    items->count++;
    return item;
}

void items_drop(struct items *items, struct item *item) {
    if (--item->refs > 0 || item->dirty || (!item->unknown && items->count <= ITEMS_KEPT))
        return;
    for (struct item **at = items_bucket(items, item->name); *at; at = &(*at)->chain) {
        if (*at == item) {
            *at = item->chain;
            break;
        }
    }
    items->count--;
    free(item);
}

/* ---- calls ---- */

/* A call that waits for its reply. */
struct request {
    struct purchases *purchases;
    inventory_item_fn *item_fn;
    inventory_restock_fn *restock_fn;
    void *ctx;
    char item[INVENTORY_NAME_MAX + 1];
    char digest[INVENTORY_DIGEST_SIZE]; /* of a restock */
    char terms[ITEM_TERMS_SIZE];
};

static struct request *items_request_new(struct purchases *purchases, const char *item, void *ctx) {
    struct request *request = calloc(1, sizeof *request);
    if (!request)
        return NULL;
    request->purchases = purchases;
    request->ctx = ctx;
    snprintf(request->item, sizeof request->item, "%s", item);
    return request;
}

/* ---- read ----
 *
 * Many callers may read one item at once. Those that come while a reply is in flight share the next one,
 * since the reply in flight may be older than their call. */

struct item_reader {
    struct item_reader *next;
    struct purchases *purchases;
    inventory_item_fn *fn;
    void *ctx;
};

static void items_answer_readers(struct item *item, enum inventory_status status,
                                 const struct inventory_item *told) {
    struct item_reader *readers = item->asking;
    item->asking = NULL;
    item->unknown = status != INVENTORY_OK;
    while (readers) {
        struct item_reader read = *readers;
        free(readers);
        readers = read.next;
        read.fn(read.ctx, status, told);
        items_drop(&read.purchases->items, item);
    }
}

static void items_on_read(void *ctx, const struct redis_value *value);

static void items_ask_for_readers(struct purchases *purchases, struct item *item) {
    item->asking = item->late;
    item->late = NULL;
    const char *argv[ITEM_ARGC];
    item_command(argv, item->keys.item);
    router_call(purchases->shared->store, items_on_read, item, ITEM_ARGC, argv);
}

static void items_on_read(void *ctx, const struct redis_value *value) {
    struct item *item = ctx;
    struct purchases *purchases = item->asking->purchases;
    struct inventory_item told;
    enum inventory_status status = store_status(purchases->shared, value);
    if (status == INVENTORY_OK && !item_read(&told, item->name, value))
        status = INVENTORY_UNKNOWN_ITEM;
    item->refs++;
    items_answer_readers(item, status, status == INVENTORY_OK ? &told : NULL);
    if (item->late && !item->asking) /* a callback may have asked already */
        items_ask_for_readers(purchases, item);
    items_drop(&purchases->items, item);
}

void inventory_item_get(struct inventory *inventory, const char *name, inventory_item_fn *fn, void *ctx) {
    struct purchases *purchases = inventory->purchases;
    struct item *item = items_take(&purchases->items, name);
    bool up = item && router_is_up(purchases->shared->store, item->keys.item);
    struct item_reader *read = up ? malloc(sizeof *read) : NULL;
    if (!read) {
        if (item)
            items_drop(&purchases->items, item);
        fn(ctx, item && !up ? INVENTORY_UNAVAILABLE : INVENTORY_OVERLOADED, NULL);
        return;
    }
    *read = (struct item_reader){.next = item->late, .purchases = purchases, .fn = fn, .ctx = ctx};
    item->late = read;
    if (!item->asking)
        items_ask_for_readers(purchases, item);
}

/* ---- create ---- */

static void items_on_created(void *ctx, const struct redis_value *value) {
    struct request request = *(struct request *)ctx;
    free(ctx);
    enum inventory_status status = store_status(request.purchases->shared, value);
    if (status == INVENTORY_OK) {
        int64_t result = redis_value_integer(value, -1);
        status = result == 1 ? INVENTORY_OK : result == 0 ? INVENTORY_REPLAYED : INVENTORY_EXISTS;
    }
    if (status == INVENTORY_OK || status == INVENTORY_REPLAYED)
        putback_keep(request.purchases, RECEIPT_ITEM, request.item, "", request.terms);
    request.item_fn(request.ctx, status, NULL);
}

void inventory_item_create(struct inventory *inventory, const struct inventory_item *item,
                           inventory_item_fn *fn, void *ctx) {
    struct purchases *purchases = inventory->purchases;
    if (inventory_strategy_teaches(item->strategy) && !purchases->shared->config.teaching) {
        fn(ctx, INVENTORY_REFUSED, NULL);
        return;
    }
    struct request *request = items_request_new(purchases, item->item, ctx);
    if (!request) {
        fn(ctx, INVENTORY_OVERLOADED, NULL);
        return;
    }
    struct sale_keys keys;
    const char *argv[CREATE_ARGV];
    request->item_fn = fn;
    item_terms_print(request->terms, item);
    sale_keys_make(&keys, item->item);
    int count = create_command(argv, purchases->shared, &keys, request->terms);
    router_run(purchases->shared->store, &create_script, count, SCRIPT_ARGV + count + CREATE_ARGS, argv,
               items_on_created, request);
}

/* ---- restock ---- */

static const struct redis_script restock_script = {restock_lua, restock_lua_sha1};

static void items_on_restocked(void *ctx, const struct redis_value *value) {
    struct request request = *(struct request *)ctx;
    free(ctx);
    enum inventory_status status = store_status(request.purchases->shared, value);
    struct inventory_restock restock = {.quantity = 0};
    if (status == INVENTORY_OK && redis_value_count(value) == 4) {
        status = redis_value_integer(redis_value_at(value, 0), 0) ? INVENTORY_REPLAYED : INVENTORY_OK;
        restock.quantity = redis_value_integer(redis_value_at(value, 1), 0);
        restock.stock = redis_value_integer(redis_value_at(value, 2), 0);
        restock.available = redis_value_integer(redis_value_at(value, 3), 0);
        char record[96];
        snprintf(record, sizeof record, "%lld %lld %lld", (long long)restock.quantity,
                 (long long)restock.stock, (long long)restock.available);
        putback_keep(request.purchases, RECEIPT_MOVE, request.item, request.digest, record);
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
    struct purchases *purchases = inventory->purchases;
    struct request *request = items_request_new(purchases, name, ctx);
    if (!request) {
        fn(ctx, INVENTORY_OVERLOADED, NULL);
        return;
    }
    request->restock_fn = fn;
    snprintf(request->digest, sizeof request->digest, "%s", digest);
    struct sale_keys keys;
    sale_keys_make(&keys, name);
    struct number units = number_of(quantity), most = number_of(INVENTORY_STOCK_MAX);
    const char *argv[SCRIPT_ARGV + 2 + 3] = {NULL, NULL, NULL, keys.item};
    int count = shared_add_events(purchases->shared, &keys, argv + SCRIPT_ARGV, 1);
    memcpy(argv + SCRIPT_ARGV + count, (const char *[]){digest, units.text, most.text}, 3 * sizeof *argv);
    router_run(purchases->shared->store, &restock_script, count, SCRIPT_ARGV + count + 3, argv,
               items_on_restocked, request);
}
