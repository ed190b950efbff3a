/* The lock epoch counts the lock switches of all instances that sell from one store. They all use the lock of
 * the newest epoch; the fences of two locks cannot be compared. The store keeps the epoch, its lock (a mere
 * text to this library) and the heartbeats of the instances. service/background/lock_switch.h makes the
 * switch. */
#ifndef INVENTORY_LOCK_EPOCH_H
#define INVENTORY_LOCK_EPOCH_H

#include "inventory/inventory.h"

struct inventory_lock_epoch {
    uint64_t epoch;
    const char *lock;
    int live;            /* live instances, with this one */
    int behind;          /* others that may have grants older than the epoch */
    const char *laggard; /* one of those; "" if there is none */
    /* Set by a heartbeat: no instance is behind, and every part of the journal whose server can be reached
     * refuses grants of older epochs. Only then may the instance acquire grants of this epoch. */
    bool in_force;
    int64_t store_ms; /* the store's clock, when it replied */
};

typedef void inventory_lock_epoch_fn(void *ctx, enum inventory_status status,
                                     const struct inventory_lock_epoch *epoch);

struct inventory_heartbeat {
    const char *instance;
    /* The instance has no grants older than this epoch. 0: it starts, has no grants at all, and wants `lock`.
     */
    uint64_t epoch;
    const char *lock;   /* of that epoch */
    int64_t quiet_ms;   /* how long after its last heartbeat the instance may have grants */
    int64_t fresh_ms;   /* an instance whose heartbeat is younger than this is live */
    int64_t rewrite_ms; /* for this long after a written heartbeat none is written; part of quiet_ms */
};

/* Each call answers OK with the epoch, UNAVAILABLE or UNKNOWN. */

/* Reports that this instance is live. */
void inventory_lock_epoch_heartbeat(struct inventory *inventory, const struct inventory_heartbeat *heartbeat,
                                    inventory_lock_epoch_fn *fn, void *ctx);
/* Raises the epoch, also for the same lock. After UNKNOWN it may have been raised. */
void inventory_lock_epoch_switch(struct inventory *inventory, const char *lock, inventory_lock_epoch_fn *fn,
                                 void *ctx);
/* Reports that the instance ends and has no grants any more. */
void inventory_lock_epoch_leave(struct inventory *inventory, const char *instance,
                                inventory_lock_epoch_fn *fn, void *ctx);

#endif
