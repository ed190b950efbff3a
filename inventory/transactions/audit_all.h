/* The audit of all items together; see inventory_audit_all(). */
#ifndef INVENTORY_TRANSACTIONS_AUDIT_ALL_H
#define INVENTORY_TRANSACTIONS_AUDIT_ALL_H

#include "inventory/transactions.h"

/* It goes on. */
void audit_all_tick(struct inventory *inventory);
/* Ends it. */
void audit_all_close(struct inventory *inventory);

#endif
