/* How far the replicas of each server are: what all that are connected have is covered (receipts.h). Where
 * there are none, whether the server syncs each write to its disk. */
#ifndef INVENTORY_PURCHASES_REPLICAS_H
#define INVENTORY_PURCHASES_REPLICAS_H

struct inventory;

/* Asks all servers that are up, and notes what they reply in their histories. */
void replicas_ask(struct inventory *inventory);

#endif
