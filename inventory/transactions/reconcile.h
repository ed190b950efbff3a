/* Baskets and transfers that a failover in a cluster tore: the journal is on one server and the items are on
 * others, and each may have lost its last moments. */
#ifndef INVENTORY_TRANSACTIONS_RECONCILE_H
#define INVENTORY_TRANSACTIONS_RECONCILE_H

#include "inventory/transactions.h"

struct transactions;

/* As transactions.h says of inventory_transactions_are_suspect(), inventory_transactions_suspect() and
 * inventory_transactions_reconcile(). */
bool reconcile_is_due(const struct transactions *transactions);
void reconcile_suspect(struct transactions *transactions);
void reconcile_begin(struct transactions *transactions, bool mend, inventory_reconciled_fn *fn, void *ctx);

/* A comparison goes on. */
void reconcile_tick(struct transactions *transactions);
/* Ends it. */
void reconcile_close(struct transactions *transactions);

#endif
