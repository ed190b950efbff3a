/* Baskets and transfers that a failover in a cluster tore: the journal is on one server and the items are on
 * others, and each may have lost its last moments. See inventory_transactions_reconcile(). */
#ifndef INVENTORY_TRANSACTIONS_RECONCILE_H
#define INVENTORY_TRANSACTIONS_RECONCILE_H

#include "inventory/transactions.h"

/* A comparison goes on. */
void reconcile_tick(struct inventory *inventory);
/* Ends it. */
void reconcile_close(struct inventory *inventory);

#endif
