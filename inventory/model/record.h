/* The record of an order, which the store keeps under the digest of its key:
 *
 *     STATE[VERSION] QUANTITY USER CREATED_MS [EXPIRES_MS]        an order by itself; STATE is h c x or e
 *     STATE[VERSION] QUANTITY USER CREATED_MS EXPIRES_MS BASKET   a line of a basket; STATE is b c x e or u
 *
 * h held, c confirmed, x cancelled, e expired, b held by its basket or not decided yet, u aborted. VERSION
 * counts the order's states from 1, and is left out while it is 1: of two records of an order, the one with
 * the higher version is the newer one. */
#ifndef INVENTORY_MODEL_RECORD_H
#define INVENTORY_MODEL_RECORD_H

#include "inventory/inventory.h"

enum { RECORD_SIZE = 160 };

void record_print(char out[RECORD_SIZE], const struct inventory_order *order);
/* Reads a record of `item` and `digest` into `order`; false if the text is not a record. */
bool record_read(struct inventory_order *order, const char *item, const char *digest, const char *record);

#endif
