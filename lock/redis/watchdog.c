/* redis, variant watchdog: as Redisson, a lock that is held for as long as its holder lives and works.
 *
 * It is the lock of redis_owner.c, renewed every third of its time to live, and reentrant: the thread that
 * holds it may acquire it again, which costs the store nothing, and gives it back as often. The fence stays
 * the same on re-entry: a new one would outdate what the holder has sent along with its own, earlier one.
 *
 * A watchdog without a bound makes a lock eternal that a hung holder has: its process lives, so it is renewed
 * (redsync's authors refuse to renew for that reason). Here the holder must report progress, by
 * lock_progress(); three times to live after the last report it is renewed no more, and after a fourth the
 * lock is free.
 *
 * What it cannot do: as owner. A pause of the whole process ends renewal as well, and the holder finds out
 * only when it asks. */
#include "lock/redis/owner.h"

const struct lock_backend lock_redis_watchdog = {
    .scheme = "redis",
    .variant = "watchdog",
    .flaw = "is held by a hung holder for three times to live longer; otherwise as owner",
    .caps = LOCK_CAN_FENCE | LOCK_CAN_EXTEND | LOCK_IS_FAIR | LOCK_CAN_WAKE | LOCK_IS_REENTRANT |
            LOCK_IS_SHARED | LOCK_IS_SAFE | LOCK_RENEWS,
    .queues_locally = true,
    .attempt_releases = true,
    .renews_active = true,
    .fences_per_grant = REDIS_OWNER_FENCES,
    .open = redis_store_open,
    .close = redis_store_close,
    .attempt = redis_owner_attempt,
    .release = redis_owner_release,
    .withdraw = redis_owner_withdraw,
    .extend = redis_owner_extend,
    .verify = redis_owner_look,
};
