/* The background thread of a lock: verifies what is held (renews it, or sees that it is lost), and releases
 * what attempts and holders have left in the store when they could not wait for it. To verify comes first,
 * however much is to be released, but for one release each time. Not for users. */
#ifndef LOCK_CORE_MAINTENANCE_H
#define LOCK_CORE_MAINTENANCE_H

#include "lock/core/local_queue.h"

/* Where the keeper tells what it did; the layer counts. From the keeper's thread. */
struct lock_keeper_config {
    const struct lock_backend *backend;
    void *store;
    const struct lock_env *env;
    struct lock_lines *lines;
    int64_t ttl_ns;
    void (*on_lost)(void *layer, const struct lock_grant *grant);
    void (*on_renewed)(void *layer);
    void *layer;
};

struct lock_keeper;

/* NULL when out of memory, or of threads. */
struct lock_keeper *lock_keeper_open(const struct lock_keeper_config *config);
/* Tries for half a second to release what is pending, and ends the thread; what is called after that has no
 * effect. */
void lock_keeper_stop(struct lock_keeper *keeper);
/* NULL is fine. It must have been stopped. */
void lock_keeper_free(struct lock_keeper *keeper);

/* Something is held from now on. Costs nothing while the keeper is awake anyway. */
void lock_keeper_rouse(struct lock_keeper *keeper);

/* NULL when out of memory. */
struct lock_pending *lock_pending_new(const char *key, const char *owner);
/* Whatever its owner has of its key, or waits for, is released, however often the store must be asked; takes
 * `pending`. What the store does not hear of in a time to live it forgets by itself, unless the backend says
 * that it lasts. Does not block. */
void lock_keeper_release(struct lock_keeper *keeper, struct lock_pending *pending);
/* The same, and waits until that is done, or CLOCK_MONOTONIC passes `until_ns`. */
void lock_keeper_release_within(struct lock_keeper *keeper, struct lock_pending *pending, int64_t until_ns);
/* So much is to be released that nothing more may be asked for. */
bool lock_keeper_is_full(const struct lock_keeper *keeper);

#endif
