/* redis, variant timestamp: WRONG, for lessons. V3.0: the value says whose lock it is, and is compared before
 * it is deleted, in one script; the value is the time at which it was taken.
 *
 * Why it looks right: all of it is, but for the value, and two do not take a lock at the same time.
 *
 * What is wrong: they do take it in the same millisecond. One gives it back and the next has it at once; or
 * the next one's clock is behind and reads what the first one's read when it took it. Then both have the same
 * value, and a late release of the first, or one that is repeated because its reply was lost, is taken for
 * the second's and deletes its lock. The busier the lock, the likelier.
 *
 * What fixes it: a value that nobody else has: 64 random bits for the process and 64 for the grant
 * (redis_owner.c; the layer makes them, and this lock throws them away).
 *
 * Point: none; it breaks by the clock (lock_config.now_ns). People write the wall clock; it does not matter
 * which. */
#include <inttypes.h>
#include <stdio.h>

#include "lock/redis/store.h"

static enum lock_status timestamp_attempt(void *opened, struct lock_attempt *attempt) {
    struct redis_store *store = opened;
    struct lock_grant *grant = &attempt->grant;
    snprintf(grant->owner, sizeof grant->owner, "%" PRId64, lock_env_now_ns(store->env) / 1000000);
    return redis_store_set_nx(store, attempt, grant->owner);
}

const struct lock_backend lock_redis_timestamp = {
    .scheme = "redis",
    .variant = "timestamp",
    .flaw = "takes two grants of the same millisecond for one, so that either deletes the other's",
    .caps = LOCK_IS_SHARED,
    .is_lesson = true,
    .open = redis_store_open,
    .close = redis_store_close,
    .attempt = timestamp_attempt,
    .release = redis_store_release,
};
