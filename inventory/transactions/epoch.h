/* The lock epoch in the store; see lock_epoch.h, which says what each call answers. */
#ifndef INVENTORY_TRANSACTIONS_EPOCH_H
#define INVENTORY_TRANSACTIONS_EPOCH_H

#include "inventory/lock_epoch.h"

struct transactions;

void epoch_heartbeat(struct transactions *transactions, const struct inventory_heartbeat *heartbeat,
                     inventory_lock_epoch_fn *fn, void *ctx);
void epoch_switch(struct transactions *transactions, const char *lock, inventory_lock_epoch_fn *fn,
                  void *ctx);
void epoch_leave(struct transactions *transactions, const char *instance, inventory_lock_epoch_fn *fn,
                 void *ctx);

#endif
