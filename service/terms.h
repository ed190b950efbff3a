/* An item's terms, for refusals that name them: the limit, the time. The script that refuses does not tell
 * them, since it tells nothing that a sale has no use for. However many are refused at once, there is one
 * look under way for an item. */
#ifndef SERVICE_TERMS_H
#define SERVICE_TERMS_H

#include "inventory/inventory.h"

struct worker;

struct terms_wait {
    struct terms_wait *next;
    /* `item` is NULL where it could not be had. May be called by terms_read(). */
    void (*done)(struct terms_wait *wait, const struct inventory_item *item);
};

/* On the worker's thread, as is `done`. */
void terms_read(struct worker *worker, const char *item, struct terms_wait *wait);

#endif
