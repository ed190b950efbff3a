/* The background thread of a lock. It verifies or renews what is held, notices losses, and does the releases
 * that attempts and holders could not wait for. Verifying comes first, however much is to be released, but
 * for one release in each round. A lock that renews has another thread, the clock: it tells holders of grants
 * that were not renewed in time, and never waits for the store. Not for users. */
#ifndef LOCK_CORE_MAINTENANCE_H
#define LOCK_CORE_MAINTENANCE_H

#include "lock/core/handle.h"

struct lock_maintenance;

/* For a lock with a store and a local queue, whose parts are all set but `maintenance`. NULL when out of
 * memory, or of threads. */
struct lock_maintenance *lock_maintenance_start(struct lock *lock);
/* Tries for half a second to do the pending releases, and ends the thread. Later calls have no effect. */
void lock_maintenance_stop(struct lock_maintenance *maintenance);
/* After lock_maintenance_stop(), or NULL. */
void lock_maintenance_free(struct lock_maintenance *maintenance);

/* There is a new grant, or a grant with another deadline. Costs nothing while the threads are awake, or will
 * be in time. */
void lock_maintenance_wake(struct lock_maintenance *maintenance, int64_t deadline_ns);

/* Verifies all that is held, at once. */
void lock_maintenance_doubt(struct lock_maintenance *maintenance);

/* NULL when out of memory. */
struct lock_pending_release *lock_pending_release_new(const char *key, const char *owner);
/* Withdraws `pending->owner` from `pending->key`, as often as it takes to get an answer; takes `pending`. It
 * gives up after two times to live, since the store has forgotten the grant by then, but never for a backend
 * with `outlives_deadline`. Does not block; `waiter`, which may be NULL, is woken when it is done. */
void lock_maintenance_release(struct lock_maintenance *maintenance, struct lock_pending_release *pending,
                              struct lock_waiter *waiter);
/* The same, and waits until it is done, or CLOCK_MONOTONIC passes `until_ns`. */
void lock_maintenance_release_until(struct lock_maintenance *maintenance,
                                    struct lock_pending_release *pending, int64_t until_ns);
/* So many releases are pending that the store must not be asked for more grants. */
bool lock_maintenance_is_full(const struct lock_maintenance *maintenance);

#endif
