/* etcd, variant fixed-key: one key for each lock. The first owner that finds it missing puts it.
 *
 * This lock is right, and its fence is the create revision, as with the queue. But all waiters wait for the
 * same key, and its deletion wakes all of them: one gets the lock, and the others have asked for nothing (the
 * "herd"). The longest waiter has no better chance than the newest. The comparison with the queue shows what
 * a queue is for. */
#include <string.h>

#include "lock/etcd/etcd_store.h"

static enum lock_status fixed_attempt(void *opened, struct lock_attempt *attempt) {
    struct etcd_store *store = opened;
    struct lock_grant *grant = &attempt->grant;
    struct etcd_put_result put;
    char name[ETCD_KEY_SIZE];
    int64_t sent_ns = lock_env_now_ns(store->session->env);
    etcd_store_name_lock(store, name, grant->key);
    enum lock_status status = etcd_store_put(store, attempt, &put);
    attempt->nothing_left = status == LOCK_UNAVAILABLE;
    if (status != LOCK_OK)
        return status;
    if (put.place.revision) {
        etcd_watches_drop(store->watches, name, grant->owner);
        grant->fence = (uint64_t)put.place.revision;
        return etcd_session_set_deadline(store->session, put.place.lease, sent_ns, grant);
    }
    stpcpy(put.place.predecessor, name);
    return attempt->waits ? etcd_watches_wait(store->watches, name, attempt, &put.place) : LOCK_BUSY;
}

const struct lock_backend lock_etcd_fixed_key = {
    .scheme = "etcd",
    .variant = "fixed-key",
    .flaw = "wakes all waiters though only one gets it, and is not fair; after a pause as the queue",
    .caps = LOCK_CAN_FENCE | LOCK_CAN_FENCE_FAILOVER | LOCK_CAN_EXTEND | LOCK_CAN_WAKE | LOCK_IS_SHARED |
            LOCK_IS_SAFE,
    .has_tls = true,
    .checks_together = true,
    .queues_locally = true,
    .outlives_deadline = true,
    .open = etcd_store_open,
    .close = etcd_store_close,
    .attempt = fixed_attempt,
    .release = etcd_store_release,
    .withdraw = etcd_store_withdraw,
    .check = etcd_store_check,
};
