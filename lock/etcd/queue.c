/* etcd, variant queue: a lock that is safe because its store is.
 *
 * An owner that wants a lock puts a key below the lock's name, attached to the lease of its process; the
 * oldest key, by create revision, has the lock. That revision is the fence: it grows, and through Raft it
 * never goes back, also when the leader changes. Each of the others waits until the key before its own is
 * deleted: so a release wakes one waiter, and waiters are served in order. (This is the recipe of etcd's
 * concurrency package, and before it ZooKeeper's. There the key belongs to the session, so two threads share
 * a grant; here each acquisition has its own key, with its owner as value.)
 *
 * One request puts the key and reads whether it is the oldest; it also deletes the key of a grant that this
 * process releases. A waiter is woken by a watch on the lock (watches.h). Then it reads the key before its
 * own again, and verifies its own key, since a lease can be lost while waiting. So a hand-over between
 * processes takes two requests, and wakes one waiter.
 *
 * A key's name is "lock/KEY SESSION.N", with N from 0 to 3 in turns: etcd keeps every name in its index until
 * it is compacted, and walks over them whenever a lock is read, also those of processes that have ended.
 * (Compact it now and then.) So a name is used again by other owners, and every deletion compares the owner:
 * a request that is carried out late deletes no other owner's key.
 *
 * Flaw: a holder that is paused for longer than its lease does not notice; the fence stops its writes. A
 * lease has whole seconds, at least 3: so long the lock of a process that died is held, though a grant may be
 * shorter. */
#include <stdio.h>
#include <string.h>

#include "lock/etcd/store.h"

enum { TRIES = 3 };

/* ---- requests ---- */

static void read_predecessor(void *ctx, const struct etcd_reply *reply) {
    struct etcd_place *place = ctx;
    place->predecessor[0] = '\0';
    place->read_revision = reply->revision;
    if (!reply->succeeded)
        place->revision = 0;
    else if (reply->replies[0].kv_count > 0)
        etcd_store_copy_key(place->predecessor, reply->replies[0].kvs[0].key);
}

/* Verifies the own key, and reads the key before it. LOCK_NOT_OWNER: the own key is gone. */
static enum lock_status find_predecessor(struct etcd_store *store, const struct lock_attempt *attempt,
                                         struct etcd_place *place) {
    const struct lock_grant *grant = &attempt->grant;
    char name[ETCD_KEY_SIZE], prefix[ETCD_KEY_SIZE];
    etcd_store_name_key(store, name, grant->key, grant->owner);
    etcd_store_name_lock(store, prefix, grant->key);
    const struct etcd_compare exists = {.key = etcd_text(name),
                                        .target = ETCD_CREATE_REVISION,
                                        .relation = ETCD_EQUAL,
                                        .number = place->revision};
    const struct etcd_op before = etcd_store_newest_keys(prefix, place->revision, 1);
    const struct etcd_txn txn = {.compares = &exists, .compare_count = 1, .then = &before, .then_count = 1};
    enum etcd_status status = etcd_batch_do(store->batch, &txn, &attempt->limit, read_predecessor, place);
    if (status == ETCD_UNKNOWN)
        status = ETCD_UNAVAILABLE; /* writes that went with it may have been done; it writes nothing itself */
    return status != ETCD_OK ? etcd_session_status(status) : place->revision ? LOCK_OK : LOCK_NOT_OWNER;
}

/* ---- entering the queue ---- */

/* A transaction may change a key only once: so a key of the same name is deleted before. */
static enum lock_status release_before(struct etcd_store *store, struct lock_attempt *attempt) {
    const char *key = attempt->grant.key, *releasing = attempt->releasing;
    char released[ETCD_KEY_SIZE], name[ETCD_KEY_SIZE];
    if (!releasing[0])
        return LOCK_OK;
    etcd_store_name_key(store, released, key, releasing);
    etcd_store_name_key(store, name, key, attempt->grant.owner);
    if (attempt->waits && strcmp(released, name) != 0)
        return LOCK_OK;
    enum lock_status status = etcd_store_delete(store, key, releasing, &attempt->limit);
    if (status != LOCK_OK && status != LOCK_NOT_OWNER)
        return status;
    attempt->releasing[0] = '\0';
    return LOCK_OK;
}

/* Enters the queue, or finds its place there. Without `attempt->waits` it enters only if the lock has no
 * keys; otherwise `place->revision` is 0. */
static enum lock_status enter(struct etcd_store *store, struct lock_attempt *attempt,
                              struct etcd_place *place) {
    struct etcd_put_result put;
    const char *owner = attempt->grant.owner;
    enum lock_status status = release_before(store, attempt);
    if (status == LOCK_OK)
        status = etcd_store_put(store, attempt, &put);
    for (int tries = 1; status == LOCK_OK && put.owner[0] && strcmp(put.owner, owner) != 0; tries++) {
        /* An attempt of this process has left that key; the background thread would delete it later. */
        status = etcd_store_delete(store, attempt->grant.key, put.owner, &attempt->limit);
        if (status == LOCK_OK || status == LOCK_NOT_OWNER)
            status = tries < TRIES ? etcd_store_put(store, attempt, &put) : LOCK_UNAVAILABLE;
    }
    if (status != LOCK_OK)
        return status;
    attempt->releasing[0] = '\0';
    *place = put.place;
    if (put.owner[0] && attempt->waits) /* the key existed */
        status = find_predecessor(store, attempt, place);
    return status == LOCK_NOT_OWNER ? LOCK_UNAVAILABLE : status; /* lost again: try later */
}

/* ---- the backend ---- */

static enum lock_status queue_attempt(void *opened, struct lock_attempt *attempt) {
    struct etcd_store *store = opened;
    struct lock_grant *grant = &attempt->grant;
    int64_t sent_ns = lock_env_now_ns(etcd_session_env(store->session));
    char prefix[ETCD_KEY_SIZE];
    struct etcd_place place = {.revision = attempt->notes[0], .lease = attempt->notes[1]};
    etcd_store_name_lock(store, prefix, grant->key);
    enum lock_status status = place.revision ? find_predecessor(store, attempt, &place) : LOCK_NOT_OWNER;
    if (status == LOCK_NOT_OWNER)
        status = enter(store, attempt, &place);
    attempt->nothing_left = status == LOCK_UNAVAILABLE;
    if (status != LOCK_OK)
        return status;
    if (!place.revision) /* it does not wait, and the lock has keys */
        return LOCK_BUSY;
    attempt->notes[0] = place.predecessor[0] ? place.revision : 0;
    attempt->notes[1] = place.lease;
    if (place.predecessor[0])
        return etcd_watches_wait(store->watches, prefix, attempt, &place);
    etcd_watches_drop(store->watches, prefix, grant->owner);
    grant->fence = (uint64_t)place.revision;
    return etcd_session_set_deadline(store->session, place.lease, sent_ns, grant);
}

const struct lock_backend lock_etcd_queue = {
    .scheme = "etcd",
    .variant = "queue",
    .flaw = "two hold it after a pause longer than the lease, and the fence stops the second",
    .caps = LOCK_CAN_FENCE | LOCK_CAN_FENCE_FAILOVER | LOCK_CAN_EXTEND | LOCK_IS_FAIR | LOCK_CAN_WAKE |
            LOCK_IS_SHARED | LOCK_IS_SAFE,
    .has_tls = true,
    .checks_together = true,
    .queues_locally = true,
    .attempt_releases = true,
    .outlives_deadline = true,
    .open = etcd_store_open,
    .close = etcd_store_close,
    .attempt = queue_attempt,
    .release = etcd_store_release,
    .withdraw = etcd_store_withdraw,
    .check = etcd_store_check,
};
