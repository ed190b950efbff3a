/* etcd, variant fixed-key: one key for each lock, put by the first owner that finds it missing.
 *
 * It is right, and its fence is the create revision, as with the queue. But all waiters wait for the same
 * key, and all are woken when it is deleted: one gets the lock, and the others have asked for nothing (the
 * "herd"). The longest waiter has no better chance than the newest. Beside the queue it shows what a queue is
 * for. */
#include <string.h>

#include "lock/etcd/store.h"

enum { TRIES = 3 };

/* The result of a put request. */
struct found {
    const struct etcd_epoch *epoch;
    const char *owner;
    int64_t read_revision; /* the store's */
    bool wrong_epoch;
    int64_t revision, lease; /* of the key, if it is the owner's; 0: another owner has it */
};

static void read_found(void *ctx, const struct etcd_reply *reply) {
    struct found *found = ctx;
    found->read_revision = reply->revision;
    if (reply->succeeded) {
        found->revision = reply->revision;
        found->lease = found->epoch->lease;
        return;
    }
    const struct etcd_reply *key = &reply->replies[0], *epoch = &reply->replies[1];
    const struct etcd_bytes *value = key->kv_count == 1 ? &key->kvs[0].value : NULL;
    if (value && value->size == strlen(found->owner) && memcmp(value->data, found->owner, value->size) == 0) {
        found->revision = key->kvs[0].create_revision; /* put by an attempt whose reply was lost */
        found->lease = key->kvs[0].lease;
    } else {
        found->wrong_epoch = epoch->kv_count == 0 || epoch->kvs[0].version != found->epoch->version;
    }
}

static enum etcd_status put(struct etcd_store *store, const char *name, const struct lock_limit *limit,
                            struct found *found) {
    const struct etcd_epoch *epoch = found->epoch;
    const struct etcd_compare compares[] = {
        etcd_session_compare(epoch),
        {.key = etcd_text(name), .target = ETCD_CREATE_REVISION, .relation = ETCD_EQUAL, .number = 0}};
    const struct etcd_op then = {
        ETCD_PUT, .put = {.key = etcd_text(name), .value = etcd_text(found->owner), .lease = epoch->lease}};
    const struct etcd_op otherwise[] = {
        {ETCD_RANGE, .range = {.key = etcd_text(name)}},
        {ETCD_RANGE, .range = {.key = etcd_text(epoch->key), .keys_only = true}}};
    const struct etcd_txn txn = {.compares = compares,
                                 .compare_count = 2,
                                 .then = &then,
                                 .then_count = 1,
                                 .otherwise = otherwise,
                                 .otherwise_count = 2};
    return etcd_batch_do(store->batch, &txn, limit, read_found, found);
}

/* Tries again with the next epoch, or another lease, if the current one is over. */
static enum lock_status put_in_epoch(struct etcd_store *store, const struct lock_attempt *attempt,
                                     const char *name, struct etcd_epoch *epoch, struct found *found) {
    for (int tries = 0; tries < TRIES; tries++) {
        *found = (struct found){.epoch = epoch, .owner = attempt->grant.owner};
        enum lock_status status = etcd_session_get_epoch(store->session, epoch, &attempt->limit);
        if (status != LOCK_OK)
            return status;
        enum etcd_status done = put(store, name, &attempt->limit, found);
        bool is_over = done == ETCD_NOT_FOUND /* the lease */ || found->wrong_epoch;
        if (is_over || done == ETCD_UNKNOWN)
            etcd_session_doubt_epoch(store->session, epoch);
        if (!is_over)
            return etcd_session_status(done);
    }
    return LOCK_UNAVAILABLE;
}

static enum lock_status fixed_attempt(void *opened, struct lock_attempt *attempt) {
    struct etcd_store *store = opened;
    struct lock_grant *grant = &attempt->grant;
    struct etcd_place place = {.revision = 0};
    struct etcd_epoch epoch;
    struct found found;
    int64_t sent_ns = lock_env_now_ns(etcd_session_env(store->session));
    etcd_store_name_lock(store, place.predecessor, grant->key);
    enum lock_status status = put_in_epoch(store, attempt, place.predecessor, &epoch, &found);
    attempt->nothing_left = status == LOCK_UNAVAILABLE;
    if (status != LOCK_OK)
        return status;
    if (found.revision) {
        etcd_watches_drop(store->watches, place.predecessor, grant->owner);
        grant->fence = (uint64_t)found.revision;
        return etcd_session_set_deadline(store->session, found.lease, sent_ns, grant);
    }
    place.read_revision = found.read_revision;
    return attempt->waits ? etcd_watches_wait(store->watches, place.predecessor, attempt, &place) : LOCK_BUSY;
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
