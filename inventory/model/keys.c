#include "inventory/model/keys.h"

#include <stdio.h>

/* FNV-1a: the same in all processes. */
unsigned key_part(const char *name) {
    uint32_t hash = 2166136261U;
    for (; *name; name++)
        hash = (hash ^ (unsigned char)*name) * 16777619U;
    return hash % KEY_PARTS;
}

void sale_keys_make(struct sale_keys *keys, const char *item) {
    snprintf(keys->item, SALE_KEY_SIZE, "seckill:{%s}:item", item);
    snprintf(keys->orders, SALE_KEY_SIZE, "seckill:{%s}:orders", item);
    snprintf(keys->users, SALE_KEY_SIZE, "seckill:{%s}:users", item);
    snprintf(keys->holds, SALE_KEY_SIZE, "seckill:{%s}:holds", item);
    snprintf(keys->events, SALE_KEY_SIZE, "seckill:{%s}:ledger", item);
    snprintf(keys->restocks, SALE_KEY_SIZE, "seckill:{%s}:restocks", item);
    snprintf(keys->shortage, SALE_KEY_SIZE, "seckill:{%s}:shortage", item);
    snprintf(keys->token, SALE_KEY_SIZE, "seckill:{%s}:token", item);
}

void due_key_make(char key[DUE_KEY_SIZE], unsigned part) {
    snprintf(key, DUE_KEY_SIZE, "seckill:{due:%u}", part);
}

void journal_keys_make(struct journal_keys *keys, unsigned part) {
    snprintf(keys->journal, sizeof keys->journal, "seckill:{baskets:%u}:journal", part);
    snprintf(keys->open, sizeof keys->open, "seckill:{baskets:%u}:open", part);
    snprintf(keys->epoch, sizeof keys->epoch, "seckill:{baskets:%u}:epoch", part);
}
