/* The key of the lock epoch, which the journal reads in the same slot; see epoch.lua. */
#ifndef INVENTORY_STORE_EPOCH_H
#define INVENTORY_STORE_EPOCH_H

#define LOCK_EPOCH_KEY "seckill:{baskets}:domain"

#endif
