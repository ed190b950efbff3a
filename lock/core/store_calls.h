/* How the local holder asks the store: attempts until the lock is granted, and a release that is repeated if
 * its reply is lost. Works also for a lock without a store. Not for users. */
#ifndef LOCK_CORE_STORE_CALLS_H
#define LOCK_CORE_STORE_CALLS_H

#include "lock/core/handle.h"

struct lock_request {
    struct lock_attempt attempt; /* in: key, owner, `waits`, `releasing` */
    bool may_be_left;            /* out: something may be left of it in the store */
    bool failed;                 /* out: the store could not be used for the last attempt */
};

/* LOCK_OK, with the grant in `request->attempt`; LOCK_BUSY, if it does not wait; LOCK_TIMEOUT,
 * LOCK_CANCELLED, LOCK_UNKNOWN, LOCK_UNAVAILABLE, LOCK_NOMEM. */
enum lock_status lock_store_acquire(struct lock *lock, struct lock_request *request, int64_t deadline_ns,
                                    struct lock_cancel *cancel);

/* Releases `granted`, and takes its `pending`, which does later what could not be done now. LOCK_OK,
 * LOCK_NOT_OWNER, LOCK_UNKNOWN, LOCK_UNAVAILABLE. */
enum lock_status lock_store_release(struct lock *lock, const char *key,
                                    const struct lock_store_grant *granted);

/* Takes `pending`, which may be NULL: the background thread does it if something may be left in the store. */
void lock_store_settle(struct lock *lock, struct lock_pending_release *pending, bool may_be_left);

#endif
