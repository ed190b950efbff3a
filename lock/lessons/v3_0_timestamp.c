/* redis, variant timestamp (V3.0): WRONG, for lessons. The value names the owner, and one script compares and
 * deletes it; but the value is the time of the acquisition.
 *
 * Why it looks right: everything but the value is right, and two clients do not acquire a lock at the same
 * time.
 *
 * What is wrong: they do acquire it in the same millisecond. One releases and the next acquires at once; or
 * the next one's clock is behind, and shows the time that the first one's showed. Then both have the same
 * value, and a late release of the first, or one that is repeated because its reply was lost, deletes the
 * lock of the second. The busier the lock, the likelier.
 *
 * What fixes it: a unique value: 64 random bits for the process and 64 counted ones for the grant (owner.c;
 * the core makes them, and this lock throws them away).
 *
 * Point: none; it breaks by the clock (lock_config.now_ns). People use the wall clock; every clock has this
 * flaw. */
#include <inttypes.h>
#include <stdio.h>

#include "lock/redis/redis_store.h"

static enum lock_status timestamp_attempt(void *opened, struct lock_attempt *attempt) {
    struct redis_store *store = opened;
    struct lock_grant *grant = &attempt->grant;
    snprintf(grant->owner, sizeof grant->owner, "%" PRId64, lock_env_now_ns(store->env) / 1000000);
    return redis_store_set_nx(store, attempt, grant->owner);
}

const struct lock_backend lock_redis_timestamp = {
    REDIS_STORE_LESSON,
    .variant = "timestamp",
    .flaw = "takes two grants of the same millisecond for one, so that either deletes the other's",
    .attempt = timestamp_attempt,
    .release = redis_store_release,
};
