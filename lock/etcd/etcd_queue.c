/* etcd, variant queue: a lock that is safe because its store is.
 *
 * An owner that wants a lock puts a key below the lock's name, attached to the lease of its process. The
 * oldest key, by create revision, has the lock. That revision is the fence: it grows, and through Raft it
 * never goes back, also when the leader changes. Every other owner waits until the key before its own, its
 * predecessor's, is deleted. So a release wakes one waiter, and waiters are served in order. (This is the
 * recipe of etcd's concurrency package, and before it ZooKeeper's. There the key belongs to the session, so
 * two threads share a grant; here each acquisition has its own key, with its owner as value.)
 *
 * One request puts the key and reads whether it is the oldest; it also deletes the key of a grant that this
 * process releases. A watch on the lock wakes a waiter (predecessor_watch.c). The waiter reads the key before
 * its own again, and verifies its own key, since it can lose its lease while it waits. So a hand-over between
 * processes takes two requests.
 *
 * A key's name is "lock/KEY SESSION.N", with N from 0 to 3 in turns. Few names are used, since etcd keeps
 * every name in its index until it is compacted, and walks over all of them whenever a lock is read, also
 * over those of processes that have ended. (Compact it now and then.) Other owners use a name again, so every
 * deletion compares the owner: a request that is carried out late deletes no other owner's key.
 *
 * Flaw: a holder that is paused for longer than its lease does not notice; the fence stops its writes. A
 * lease has whole seconds, at least 3: the lock of a process that died is held for so long, though a grant
 * may be shorter. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lock/etcd/etcd_store.h"

enum { NAMES = 4, TRIES = 3 };

/* ---- open, close ---- */

void etcd_store_close(void *store) {
    struct etcd_store *opened = store;
    etcd_session_close(opened->session);
    etcd_watches_free(opened->watches);
    etcd_batch_free(opened->batch);
    free(opened);
}

enum lock_status etcd_store_open(const struct lock_url *url, const struct lock_env *env, void **store,
                                 char *error, size_t error_size) {
    void *session;
    enum lock_status status = etcd_session_open(url, env, &session, error, error_size);
    if (status != LOCK_OK)
        return status;
    struct etcd_store *opened = calloc(1, sizeof *opened);
    if (!opened) {
        etcd_session_close(session);
        return LOCK_NOMEM;
    }
    bool queues = strcmp(url->variant, "fixed-key") != 0;
    *opened =
        (struct etcd_store){session, etcd_batch_new(session), etcd_watches_new(session, queues), queues};
    if (!opened->batch || !opened->watches) {
        etcd_store_close(opened);
        return LOCK_NOMEM;
    }
    *store = opened;
    return LOCK_OK;
}

/* ---- names, and reads ---- */

int etcd_store_name_lock(const struct etcd_store *store, char out[ETCD_KEY_SIZE], const char *key) {
    return snprintf(out, ETCD_KEY_SIZE, store->queues ? "lock/%s " : "lock/%s", key);
}

/* Stores the name of the owner's key: "lock/KEY", or with `queues` "lock/KEY SESSION.N". */
static void store_name_key(const struct etcd_store *store, char out[ETCD_KEY_SIZE], const char *key,
                           const char *owner) {
    int length = etcd_store_name_lock(store, out, key);
    char last = owner[LOCK_OWNER_SIZE - 2]; /* a digit of the half that counts the owners */
    unsigned number = (unsigned)(last <= '9' ? last - '0' : last - 'a' + 10) % NAMES;
    if (store->queues)
        snprintf(out + length, ETCD_KEY_SIZE - (size_t)length, "%.*s.%u", LOCK_OWNER_SIZE / 2, owner, number);
}

static void store_copy_key(char out[ETCD_KEY_SIZE], struct etcd_bytes key) {
    snprintf(out, ETCD_KEY_SIZE, "%.*s", (int)key.size, (const char *)key.data);
}

/* Reads the newest keys of a lock; only those put before `before_revision`, unless that is 0. */
static struct etcd_op store_newest_keys(const char *lock, int64_t before_revision, int64_t limit) {
    return (struct etcd_op){ETCD_RANGE,
                            .range = {.key = etcd_text(lock),
                                      .prefix = true,
                                      .max_create_revision = before_revision ? before_revision - 1 : 0,
                                      .order = ETCD_DESCENDING,
                                      .sort_by = ETCD_CREATE_REVISION,
                                      .limit = limit,
                                      .keys_only = true}};
}

/* ---- deleting an owner's key ---- */

/* A transaction that deletes a key if its value is `owner`. */
struct owner_delete {
    struct etcd_compare is_owner;
    struct etcd_op del;
    struct etcd_txn txn;
};

/* Fills a struct that must not be copied: it has pointers into itself. */
static void owner_delete_make(struct owner_delete *delete, const char *name, const char *owner) {
    delete->is_owner = (struct etcd_compare){
        .key = etcd_text(name), .target = ETCD_VALUE, .relation = ETCD_EQUAL, .value = etcd_text(owner)};
    delete->del = (struct etcd_op){ETCD_DELETE, .del = {.key = etcd_text(name)}};
    delete->txn = (struct etcd_txn){
        .compares = &delete->is_owner, .compare_count = 1, .then = &delete->del, .then_count = 1};
}

static void store_read_deleted(void *ctx, const struct etcd_reply *reply) {
    *(bool *)ctx = reply->succeeded;
}

/* Deletes the owner's key. LOCK_NOT_OWNER: it does not exist, or has another owner. */
static enum lock_status store_delete(struct etcd_store *store, const char *key, const char *owner,
                                     const struct lock_limit *limit) {
    struct owner_delete delete;
    char name[ETCD_KEY_SIZE];
    bool existed;
    store_name_key(store, name, key, owner);
    owner_delete_make(&delete, name, owner);
    enum etcd_status status = etcd_batch_do(store->batch, &delete.txn, limit, store_read_deleted, &existed);
    return status != ETCD_OK ? etcd_session_status(status) : existed ? LOCK_OK : LOCK_NOT_OWNER;
}

/* ---- putting the own key ---- */

/* A transaction that puts the attempt's key, and what its reply says. */
struct own_put {
    char name[ETCD_KEY_SIZE], lock[ETCD_KEY_SIZE], released[ETCD_KEY_SIZE];
    struct owner_delete release;
    struct etcd_compare compares[2];
    struct etcd_op then[3], otherwise[3];
    size_t skip; /* replies before those of the put: 1 if the transaction releases */
    struct etcd_txn txn;
    const struct etcd_epoch *epoch;
    const char *owner;
    struct etcd_put_result *result;
    bool wrong_epoch; /* out: the epoch is over */
};

/* Fills a struct that must not be copied: it has pointers into itself. The caller sets `result`. */
static void own_put_make(struct own_put *put, const struct etcd_store *store,
                         const struct lock_attempt *attempt, const struct etcd_epoch *epoch) {
    const struct lock_grant *grant = &attempt->grant;
    size_t n = 0;
    put->epoch = epoch;
    put->owner = grant->owner;
    put->wrong_epoch = false;
    store_name_key(store, put->name, grant->key, grant->owner);
    etcd_store_name_lock(store, put->lock, grant->key);
    if (attempt->releasing[0]) {
        store_name_key(store, put->released, grant->key, attempt->releasing);
        owner_delete_make(&put->release, put->released, attempt->releasing);
        put->then[n] = put->otherwise[n] = (struct etcd_op){ETCD_TXN, .txn = put->release.txn};
        n++;
    }
    put->skip = n;
    const struct etcd_bytes name = etcd_text(put->name), lock = etcd_text(put->lock);
    put->then[n] = (struct etcd_op){
        ETCD_PUT, .put = {.key = name, .value = etcd_text(grant->owner), .lease = epoch->lease}};
    put->otherwise[n++] = (struct etcd_op){ETCD_RANGE, .range = {.key = name}};
    put->then[n] = store_newest_keys(put->lock, 0, 2);
    put->otherwise[n++] =
        (struct etcd_op){ETCD_RANGE, .range = {.key = etcd_text(epoch->key), .keys_only = true}};
    const bool alone = store->queues && !attempt->waits;
    put->compares[0] = etcd_session_compare(epoch);
    put->compares[1] = (struct etcd_compare){.key = alone ? lock : name,
                                             .prefix = alone,
                                             .target = ETCD_CREATE_REVISION,
                                             .relation = ETCD_EQUAL,
                                             .number = 0};
    put->txn = (struct etcd_txn){.compares = put->compares,
                                 .compare_count = 2,
                                 .then = put->then,
                                 .then_count = n,
                                 .otherwise = put->otherwise,
                                 .otherwise_count = n};
}

static void own_put_read(void *ctx, const struct etcd_reply *reply) {
    struct own_put *put = ctx;
    struct etcd_put_result *result = put->result;
    const struct etcd_reply *replies = reply->replies + put->skip;
    *result = (struct etcd_put_result){.place.read_revision = reply->revision};
    if (reply->succeeded) {
        result->place.revision = reply->revision;
        result->place.lease = put->epoch->lease;
        if (replies[1].kv_count > 1)
            store_copy_key(result->place.predecessor, replies[1].kvs[1].key);
        return;
    }
    if (replies[0].kv_count == 0) {
        put->wrong_epoch = replies[1].kv_count == 0 || replies[1].kvs[0].version != put->epoch->version;
        return;
    }
    const struct etcd_kv *kv = &replies[0].kvs[0];
    snprintf(result->owner, sizeof result->owner, "%.*s", (int)kv->value.size, (const char *)kv->value.data);
    if (strcmp(result->owner, put->owner) == 0) { /* put by an attempt whose reply was lost */
        result->place.revision = kv->create_revision;
        result->place.lease = kv->lease;
    }
}

enum lock_status etcd_store_put(struct etcd_store *store, const struct lock_attempt *attempt,
                                struct etcd_put_result *result) {
    for (int tries = 0; tries < TRIES; tries++) {
        struct etcd_epoch epoch;
        struct own_put put;
        enum lock_status status = etcd_session_get_epoch(store->session, &epoch, &attempt->limit);
        if (status != LOCK_OK)
            return status;
        own_put_make(&put, store, attempt, &epoch);
        put.result = result;
        enum etcd_status done = etcd_batch_do(store->batch, &put.txn, &attempt->limit, own_put_read, &put);
        const bool over = done == ETCD_NOT_FOUND /* the lease */ || (done == ETCD_OK && put.wrong_epoch);
        if (over || done == ETCD_UNKNOWN)
            etcd_session_doubt_epoch(store->session, &epoch);
        if (!over)
            return etcd_session_status(done);
    }
    return LOCK_UNAVAILABLE;
}

/* ---- entering the queue ---- */

static void queue_read_predecessor(void *ctx, const struct etcd_reply *reply) {
    struct etcd_place *place = ctx;
    place->predecessor[0] = '\0';
    place->read_revision = reply->revision;
    if (!reply->succeeded)
        place->revision = 0;
    else if (reply->replies[0].kv_count > 0)
        store_copy_key(place->predecessor, reply->replies[0].kvs[0].key);
}

/* Verifies the own key, and reads the key before it. LOCK_NOT_OWNER: the own key is gone. */
static enum lock_status queue_find_predecessor(struct etcd_store *store, const struct lock_attempt *attempt,
                                               struct etcd_place *place) {
    const struct lock_grant *grant = &attempt->grant;
    char name[ETCD_KEY_SIZE], prefix[ETCD_KEY_SIZE];
    store_name_key(store, name, grant->key, grant->owner);
    etcd_store_name_lock(store, prefix, grant->key);
    const struct etcd_compare exists = {.key = etcd_text(name),
                                        .target = ETCD_CREATE_REVISION,
                                        .relation = ETCD_EQUAL,
                                        .number = place->revision};
    const struct etcd_op before = store_newest_keys(prefix, place->revision, 1);
    const struct etcd_txn txn = {.compares = &exists, .compare_count = 1, .then = &before, .then_count = 1};
    enum etcd_status status =
        etcd_batch_do(store->batch, &txn, &attempt->limit, queue_read_predecessor, place);
    if (status == ETCD_UNKNOWN)
        status = ETCD_UNAVAILABLE; /* this transaction writes nothing, whatever others in the batch write */
    return status != ETCD_OK ? etcd_session_status(status) : place->revision ? LOCK_OK : LOCK_NOT_OWNER;
}

/* Deletes the key of `attempt->releasing` first if it has the name of the new key, since a transaction may
 * change a key only once; or if the new key is only put when the lock has no keys. */
static enum lock_status queue_release_before(struct etcd_store *store, struct lock_attempt *attempt) {
    const char *key = attempt->grant.key, *releasing = attempt->releasing;
    char released[ETCD_KEY_SIZE], name[ETCD_KEY_SIZE];
    if (!releasing[0])
        return LOCK_OK;
    store_name_key(store, released, key, releasing);
    store_name_key(store, name, key, attempt->grant.owner);
    if (attempt->waits && strcmp(released, name) != 0)
        return LOCK_OK;
    enum lock_status status = store_delete(store, key, releasing, &attempt->limit);
    if (status != LOCK_OK && status != LOCK_NOT_OWNER)
        return status;
    attempt->releasing[0] = '\0';
    return LOCK_OK;
}

/* Enters the queue, or finds its place there. Without `attempt->waits` it enters only if the lock has no
 * keys; otherwise `place->revision` is 0. */
static enum lock_status queue_enter(struct etcd_store *store, struct lock_attempt *attempt,
                                    struct etcd_place *place) {
    struct etcd_put_result put;
    const char *owner = attempt->grant.owner;
    enum lock_status status = queue_release_before(store, attempt);
    if (status == LOCK_OK)
        status = etcd_store_put(store, attempt, &put);
    for (int tries = 1; status == LOCK_OK && put.owner[0] && strcmp(put.owner, owner) != 0; tries++) {
        /* An attempt of this process has left that key; the background thread would delete it later. */
        status = store_delete(store, attempt->grant.key, put.owner, &attempt->limit);
        if (status == LOCK_OK || status == LOCK_NOT_OWNER)
            status = tries < TRIES ? etcd_store_put(store, attempt, &put) : LOCK_UNAVAILABLE;
    }
    if (status != LOCK_OK)
        return status;
    attempt->releasing[0] = '\0';
    *place = put.place;
    if (put.owner[0] && attempt->waits) /* the key existed */
        status = queue_find_predecessor(store, attempt, place);
    return status == LOCK_NOT_OWNER ? LOCK_UNAVAILABLE : status; /* the new key is lost too: try later */
}

/* ---- release, withdraw, check ---- */

enum lock_status etcd_store_release(void *store, const char *key, const char *owner) {
    struct etcd_store *opened = store;
    const struct lock_limit limit = etcd_session_limit(opened->session);
    return store_delete(opened, key, owner, &limit);
}

enum lock_status etcd_store_withdraw(void *store, const char *key, const char *owner, int64_t until_ns) {
    struct etcd_store *opened = store;
    const struct lock_limit limit = {.until_ns = until_ns};
    char watched[ETCD_KEY_SIZE];
    etcd_store_name_lock(opened, watched, key);
    etcd_watches_drop(opened->watches, watched, owner);
    enum lock_status status = etcd_session_end_doubt(opened->session, &limit);
    return status == LOCK_OK ? store_delete(opened, key, owner, &limit) : status;
}

/* `range` is the reply to a read of the grant's key. */
static enum lock_status store_read_check(struct etcd_session *session, const struct etcd_reply *range,
                                         int64_t sent_ns, struct lock_grant *grant) {
    if (range->kv_count == 0 || (uint64_t)range->kvs[0].create_revision != grant->fence)
        return LOCK_NOT_OWNER;
    enum lock_status status = etcd_session_set_deadline(session, range->kvs[0].lease, sent_ns, grant);
    return status == LOCK_OK ? LOCK_OK : LOCK_UNAVAILABLE;
}

/* Verifies grants with one read. It writes nothing, since the session renews the lease anyway. */
void etcd_store_check(void *store, struct lock_check checks[], size_t count) {
    struct etcd_store *opened = store;
    char names[LOCK_CHECKS_MAX][ETCD_KEY_SIZE];
    struct etcd_op ops[LOCK_CHECKS_MAX];
    for (size_t i = 0; i < count; i++) {
        store_name_key(opened, names[i], checks[i].grant.key, checks[i].grant.owner);
        ops[i] = (struct etcd_op){ETCD_RANGE, .range = {.key = etcd_text(names[i]), .keys_only = true}};
    }
    const struct etcd_txn all = {.then = ops, .then_count = count};
    struct etcd_call call = etcd_session_call(opened->session);
    call.idempotent = true;
    int64_t sent_ns = lock_env_now_ns(opened->session->env);
    struct etcd_reply *reply;
    enum etcd_status status = etcd_txn(opened->session->etcd, &all, &call, &reply);
    for (size_t i = 0; i < count; i++)
        checks[i].status = status == ETCD_OK ? store_read_check(opened->session, &reply->replies[i], sent_ns,
                                                                &checks[i].grant)
                                             : etcd_session_status(status);
    if (status == ETCD_OK)
        etcd_reply_free(reply);
}

/* ---- the backend ---- */

static enum lock_status queue_attempt(void *opened, struct lock_attempt *attempt) {
    struct etcd_store *store = opened;
    struct lock_grant *grant = &attempt->grant;
    int64_t sent_ns = lock_env_now_ns(store->session->env);
    char prefix[ETCD_KEY_SIZE];
    struct etcd_place place = {.revision = attempt->notes[0], .lease = attempt->notes[1]};
    etcd_store_name_lock(store, prefix, grant->key);
    enum lock_status status =
        place.revision ? queue_find_predecessor(store, attempt, &place) : LOCK_NOT_OWNER;
    if (status == LOCK_NOT_OWNER)
        status = queue_enter(store, attempt, &place);
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
