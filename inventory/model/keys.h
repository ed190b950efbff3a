/* Keys in the store. Those of an item share a hash tag, so that one script reaches them on Redis Cluster. */
#ifndef INVENTORY_MODEL_KEYS_H
#define INVENTORY_MODEL_KEYS_H

#include "inventory/inventory.h"

/* Keys that belong to no item are spread over so many slots. The number must not change: it decides in which
 * of them a name is. */
enum { KEY_PARTS = 8 };

unsigned key_part(const char *name);

enum { SALE_KEY_SIZE = INVENTORY_NAME_MAX + 24 };

struct sale_keys {
    char item[SALE_KEY_SIZE];     /* hash: the counters and the terms of the sale */
    char orders[SALE_KEY_SIZE];   /* hash: digest -> record */
    char users[SALE_KEY_SIZE];    /* hash: user -> units, if the item has a limit */
    char holds[SALE_KEY_SIZE];    /* sorted set: digest by expiry */
    char events[SALE_KEY_SIZE];   /* stream: every change of an order, and every restock */
    char restocks[SALE_KEY_SIZE]; /* hash: digest -> the answer */
    char shortage[SALE_KEY_SIZE]; /* hash: digest -> record of an order that does not fit; see putback.lua */
    char token[SALE_KEY_SIZE];    /* the newest fencing token seen */
};

void sale_keys_make(struct sale_keys *keys, const char *item);

/* A part of the journal of transactions, of KEY_PARTS; see journal.lua. */
struct journal_keys {
    char journal[32], open[32], epoch[32];
};

void journal_keys_make(struct journal_keys *keys, unsigned part);

/* A part of the index of due times, of KEY_PARTS; see due.h. */
enum { DUE_KEY_SIZE = 24 };

void due_key_make(char key[DUE_KEY_SIZE], unsigned part);

#endif
