/* The audit of all items together. */
#ifndef INVENTORY_TRANSACTIONS_AUDIT_ALL_H
#define INVENTORY_TRANSACTIONS_AUDIT_ALL_H

#include "inventory/transactions.h"

struct transactions;

/* As transactions.h says of inventory_audit_all(). */
void audit_all_begin(struct transactions *transactions, inventory_audit_all_fn *fn, void *ctx);
/* It goes on. */
void audit_all_tick(struct transactions *transactions);
/* Ends it. */
void audit_all_close(struct transactions *transactions);

#endif
