/* The items that this process has purchases for, or reads, each with the queue of its purchases. */
#ifndef INVENTORY_PURCHASES_ITEM_QUEUE_H
#define INVENTORY_PURCHASES_ITEM_QUEUE_H

#include "inventory/inventory.h"
#include "inventory/model/keys.h"

struct item_reader;

STAILQ_HEAD(purchase_queue, inventory_purchase);

/* Removes the first purchase; NULL: the queue is empty. */
static inline struct inventory_purchase *purchase_queue_take(struct purchase_queue *queue) {
    struct inventory_purchase *first = STAILQ_FIRST(queue);
    if (first)
        STAILQ_REMOVE_HEAD(queue, next);
    return first;
}

struct item {
    struct item *chain; /* in its bucket */
    STAILQ_ENTRY(item) next_dirty;
    struct purchase_queue waiting; /* purchases that wait for a call */
    int users;                     /* purchases, batches and readers that point here */
    struct item_reader *asking,
        *late;     /* readers that share the reply in flight; readers that came too late for it */
    bool dirty;    /* in its lane */
    bool unknown;  /* the store does not have it: forgotten when the last user leaves */
    bool sold_out; /* it was sold out: the next call only reads the stock */
    /* Guesses until the store's first reply. */
    enum inventory_strategy strategy;
    bool has_limit, has_holds;
    struct sale_keys keys;
    char name[INVENTORY_NAME_MAX + 1];
};

enum { ITEM_BUCKETS = 16384, ITEMS_KEPT = 65536 };

struct items {
    struct item *buckets[ITEM_BUCKETS];
    int count;
    unsigned char hash_key[16]; /* random: nobody can choose names that collide */
};

void items_init(struct items *items);
void items_free(struct items *items);
/* Finds or makes the item, and counts the caller among its users; NULL when out of memory. */
struct item *items_take(struct items *items, const char *name);
/* Ends one use. An item without users is forgotten if it is unknown, or if more than ITEMS_KEPT are kept. */
void items_drop(struct items *items, struct item *item);

#endif
