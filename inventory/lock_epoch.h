/* The lock epoch: which lock all instances that sell from one store go by. It is raised by each lock switch,
 * since the fences of two locks cannot be compared. The store keeps it, with the lock (to this library no
 * more than a text) and the heartbeats of the instances. The switch itself: service/background/lock_switch.h.
 */
#ifndef INVENTORY_LOCK_EPOCH_H
#define INVENTORY_LOCK_EPOCH_H

#include "inventory/inventory.h"

struct inventory_lock_epoch {
    uint64_t epoch;
    const char *lock;
    int live;            /* instances, with this one */
    int behind;          /* others that may have grants older than the epoch */
    const char *laggard; /* one of those; "" if there is none */
    /* Of a heartbeat: nobody is behind, and the whole journal refuses grants of older epochs, as far as its
     * servers can be reached. Only from now on may the instance have grants of this one. */
    bool in_force;
    int64_t store_ms; /* the store's clock, when it replied */
};

typedef void inventory_lock_epoch_fn(void *ctx, enum inventory_status status,
                                     const struct inventory_lock_epoch *epoch);

struct inventory_heartbeat {
    const char *instance;
    /* The instance has no older grants. 0: it starts, has no grants at all, and wants `lock`. */
    uint64_t epoch;
    const char *lock;   /* of that epoch */
    int64_t quiet_ms;   /* so long after its last heartbeat the instance may have grants */
    int64_t fresh_ms;   /* an instance whose heartbeat is younger than this lives */
    int64_t rewrite_ms; /* a heartbeat that follows a written one within this time is not written; part of
                           quiet_ms */
};

/* Each answers OK with the epoch, UNAVAILABLE or UNKNOWN. */

/* Tells that this instance lives. */
void inventory_lock_epoch_heartbeat(struct inventory *inventory, const struct inventory_heartbeat *heartbeat,
                                    inventory_lock_epoch_fn *fn, void *ctx);
/* Raises the epoch, also for the same lock. UNKNOWN may have raised it. */
void inventory_lock_epoch_switch(struct inventory *inventory, const char *lock, inventory_lock_epoch_fn *fn,
                                 void *ctx);
/* Tells that the instance ends, and has no grants any more. */
void inventory_lock_epoch_leave(struct inventory *inventory, const char *instance,
                                inventory_lock_epoch_fn *fn, void *ctx);

#endif
