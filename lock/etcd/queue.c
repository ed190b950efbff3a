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

static void copy_key(char out[ETCD_KEY_SIZE], struct etcd_bytes key) {
    snprintf(out, ETCD_KEY_SIZE, "%.*s", (int)key.size, (const char *)key.data);
}

/* Reads the lock's newest keys; only those put before `before_revision`, unless that is 0. */
static struct etcd_op newest_keys(const char *prefix, int64_t before_revision, int64_t limit) {
    return (struct etcd_op){ETCD_RANGE,
                            .range = {.key = etcd_text(prefix),
                                      .prefix = true,
                                      .max_create_revision = before_revision ? before_revision - 1 : 0,
                                      .order = ETCD_DESCENDING,
                                      .sort_by = ETCD_CREATE_REVISION,
                                      .limit = limit,
                                      .keys_only = true}};
}

static struct etcd_compare has_revision(const char *key, int64_t revision) {
    return (struct etcd_compare){
        .key = etcd_text(key), .target = ETCD_CREATE_REVISION, .relation = ETCD_EQUAL, .number = revision};
}

static void read_predecessor(void *ctx, const struct etcd_reply *reply) {
    struct etcd_place *place = ctx;
    place->predecessor[0] = '\0';
    place->read_revision = reply->revision;
    if (!reply->succeeded)
        place->revision = 0;
    else if (reply->replies[0].kv_count > 0)
        copy_key(place->predecessor, reply->replies[0].kvs[0].key);
}

/* Verifies the own key, and reads the key before it. LOCK_NOT_OWNER: the own key is gone. */
static enum lock_status find_predecessor(struct etcd_store *store, const struct lock_attempt *attempt,
                                         struct etcd_place *place) {
    const struct lock_grant *grant = &attempt->grant;
    char name[ETCD_KEY_SIZE], prefix[ETCD_KEY_SIZE];
    etcd_store_name_key(store, name, grant->key, grant->owner);
    etcd_store_name_lock(store, prefix, grant->key);
    const struct etcd_compare exists = has_revision(name, place->revision);
    const struct etcd_op before = newest_keys(prefix, place->revision, 1);
    const struct etcd_txn txn = {.compares = &exists, .compare_count = 1, .then = &before, .then_count = 1};
    enum etcd_status status = etcd_batch_do(store->batch, &txn, &attempt->limit, read_predecessor, place);
    if (status == ETCD_UNKNOWN)
        status = ETCD_UNAVAILABLE; /* writes that went with it may have been done; it writes nothing itself */
    return status != ETCD_OK ? etcd_session_status(status) : place->revision ? LOCK_OK : LOCK_NOT_OWNER;
}

/* ---- entering the queue ---- */

/* The result of an enqueue request. */
struct enqueued {
    const struct etcd_epoch *epoch;
    const char *owner;
    size_t first; /* of the replies; before it comes that of the release */
    struct etcd_place *place;
    bool wrong_epoch, existed;
    char name_owner[LOCK_OWNER_SIZE]; /* another owner, whose key has the name; "": none */
};

static void read_enqueued(void *ctx, const struct etcd_reply *reply) {
    struct enqueued *enqueued = ctx;
    struct etcd_place *place = enqueued->place;
    const struct etcd_reply *replies = reply->replies + enqueued->first;
    *place = (struct etcd_place){.read_revision = reply->revision};
    if (reply->succeeded) {
        place->revision = reply->revision;
        place->lease = enqueued->epoch->lease;
        if (replies[1].kv_count > 1)
            copy_key(place->predecessor, replies[1].kvs[1].key);
        return;
    }
    if (replies[0].kv_count == 0) {
        enqueued->wrong_epoch =
            replies[1].kv_count == 0 || replies[1].kvs[0].version != enqueued->epoch->version;
        return;
    }
    const struct etcd_kv *kv = &replies[0].kvs[0];
    char owner[LOCK_OWNER_SIZE];
    snprintf(owner, sizeof owner, "%.*s", (int)kv->value.size, (const char *)kv->value.data);
    enqueued->existed = strcmp(owner, enqueued->owner) == 0;
    if (enqueued->existed) {
        place->revision = kv->create_revision;
        place->lease = kv->lease;
    } else {
        memcpy(enqueued->name_owner, owner, sizeof owner);
    }
}

/* Puts the own key unless it exists; without `attempt->waits` only if the lock has no keys. With the same
 * request it deletes the key of `attempt->releasing`. (If the request is carried out late the epoch stops the
 * put, and the compare of the owner makes the delete harmless.) On LOCK_OK `*place` is set, but for the
 * predecessor if the key existed. `*retry`: something has changed, and the caller shall try again. */
static enum lock_status enqueue(struct etcd_store *store, const struct lock_attempt *attempt,
                                const struct etcd_epoch *epoch, struct etcd_place *place, bool *existed,
                                bool *retry) {
    const struct lock_grant *grant = &attempt->grant;
    char name[ETCD_KEY_SIZE], prefix[ETCD_KEY_SIZE], released[ETCD_KEY_SIZE];
    struct etcd_op then[3], otherwise[3];
    struct etcd_owner_delete del;
    size_t n = 0;
    etcd_store_name_key(store, name, grant->key, grant->owner);
    etcd_store_name_lock(store, prefix, grant->key);
    if (attempt->releasing[0]) {
        etcd_store_name_key(store, released, grant->key, attempt->releasing);
        etcd_owner_delete_make(&del, released, attempt->releasing);
        then[n] = otherwise[n] = (struct etcd_op){ETCD_TXN, .txn = del.txn};
        n++;
    }
    struct enqueued enqueued = {.epoch = epoch, .owner = grant->owner, .first = n, .place = place};
    then[n] = (struct etcd_op){
        ETCD_PUT, .put = {.key = etcd_text(name), .value = etcd_text(grant->owner), .lease = epoch->lease}};
    otherwise[n++] = (struct etcd_op){ETCD_RANGE, .range = {.key = etcd_text(name)}};
    then[n] = newest_keys(prefix, 0, 2);
    otherwise[n++] = (struct etcd_op){ETCD_RANGE, .range = {.key = etcd_text(epoch->key), .keys_only = true}};
    struct etcd_compare compares[] = {etcd_session_compare(epoch),
                                      has_revision(attempt->waits ? name : prefix, 0)};
    compares[1].prefix = !attempt->waits;
    const struct etcd_txn txn = {.compares = compares,
                                 .compare_count = 2,
                                 .then = then,
                                 .then_count = n,
                                 .otherwise = otherwise,
                                 .otherwise_count = n};
    enum etcd_status status = etcd_batch_do(store->batch, &txn, &attempt->limit, read_enqueued, &enqueued);
    *existed = enqueued.existed;
    *retry = status == ETCD_NOT_FOUND /* the lease */ || (status == ETCD_OK && enqueued.wrong_epoch);
    if (status != ETCD_OK || !enqueued.name_owner[0])
        return etcd_session_status(status);
    /* An attempt of this process has left that key; the background thread would delete it later. */
    enum lock_status deleted = etcd_store_delete(store, grant->key, enqueued.name_owner, &attempt->limit);
    *retry = deleted == LOCK_OK || deleted == LOCK_NOT_OWNER;
    return deleted;
}

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

/* Enters the queue, or finds its place there. */
static enum lock_status enter(struct etcd_store *store, struct lock_attempt *attempt,
                              struct etcd_place *place) {
    struct etcd_epoch epoch;
    bool existed = false, retry = true;
    enum lock_status status = release_before(store, attempt);
    for (int tries = 0; status == LOCK_OK && retry && tries < TRIES; tries++) {
        status = etcd_session_get_epoch(store->session, &epoch, &attempt->limit);
        if (status != LOCK_OK)
            return status;
        status = enqueue(store, attempt, &epoch, place, &existed, &retry);
        if (retry || status == LOCK_UNKNOWN)
            etcd_session_doubt_epoch(store->session, &epoch);
        if (retry)
            status = LOCK_OK;
    }
    if (status != LOCK_OK || retry)
        return status != LOCK_OK ? status : LOCK_UNAVAILABLE;
    attempt->releasing[0] = '\0';
    if (existed && attempt->waits)
        status = find_predecessor(store, attempt, place);
    return status == LOCK_NOT_OWNER ? LOCK_UNAVAILABLE : status; /* lost again: try later */
}

/* ---- the backend ---- */

static enum lock_status queue_attempt(void *opened, struct lock_attempt *attempt) {
    struct etcd_store *store = opened;
    struct lock_grant *grant = &attempt->grant;
    int64_t sent_ns = lock_env_now_ns(etcd_session_env(store->session));
    char prefix[ETCD_KEY_SIZE];
    struct etcd_place place;
    etcd_store_name_lock(store, prefix, grant->key);
    bool waits = etcd_watches_find(store->watches, prefix, grant->owner, &place);
    enum lock_status status = waits ? find_predecessor(store, attempt, &place) : LOCK_NOT_OWNER;
    if (status == LOCK_NOT_OWNER)
        status = enter(store, attempt, &place);
    attempt->nothing_left = status == LOCK_UNAVAILABLE;
    if (status != LOCK_OK)
        return status;
    if (!place.revision) /* it does not wait, and the lock has keys */
        return LOCK_BUSY;
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
