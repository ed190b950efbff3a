/* Acquiring and releasing one key: see lock.h. Not for users. */
#ifndef LOCK_CORE_ACQUIRE_H
#define LOCK_CORE_ACQUIRE_H

#include "lock/lock.h"

/* As lock_release(), but the store is not asked: the background thread releases the grant later, or, if there
 * is none, the grant expires. LOCK_UNAVAILABLE, LOCK_NOT_OWNER, or LOCK_OK (the store need not be asked). */
enum lock_status lock_release_later(struct lock *lock, const struct lock_grant *grant);

#endif
