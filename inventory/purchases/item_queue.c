#include "inventory/purchases/item_queue.h"

#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
            item->users++;
            return item;
        }
    }
    struct item *item = calloc(1, sizeof *item);
    if (!item)
        return NULL;
    item->users = 1;
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
    if (--item->users > 0 || item->dirty)
        return;
    if (!item->unknown && items->count <= ITEMS_KEPT)
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
