/* etcd, variant fixed-key: one key, put by whoever finds it missing.
 *
 * Right, and the fence is the create revision as with the queue; but all who wait wait for the same key, and
 * all are told when it goes: one gets it, and the rest have asked in vain. Who waits longest has no better
 * chance than who has just come. Beside the queue it shows what a line is for. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lock/etcd/txn_batch.h"
#include "lock/etcd/waits.h"

struct fixed {
    struct etcd_session *session;
    struct etcd_batch *batch;
    struct etcd_waits *waits;
};

static void make_name(char out[ETCD_KEY_SIZE], const char *key) {
    snprintf(out, ETCD_KEY_SIZE, "lock/%s", key);
}

/* What put() found. */
struct found {
    const struct etcd_epoch *epoch;
    const char *owner;
    int64_t seen;            /* the store's revision then */
    bool refused;            /* the epoch is another */
    int64_t revision, lease; /* of the key, if it is the attempt's own; 0: somebody else's */
};

static bool is_owner(const struct etcd_kv *kv, const char *owner) {
    return kv->value.size == strlen(owner) && memcmp(kv->value.data, owner, kv->value.size) == 0;
}

static void read_found(void *ctx, const struct etcd_reply *reply) {
    struct found *found = ctx;
    found->seen = reply->revision;
    if (reply->succeeded) {
        found->revision = reply->revision;
        found->lease = found->epoch->lease;
        return;
    }
    const struct etcd_reply *key = &reply->replies[0], *ours = &reply->replies[1];
    found->refused = ours->kv_count == 0 || ours->kvs[0].version != found->epoch->version;
    if (key->kv_count == 1 && is_owner(&key->kvs[0], found->owner)) { /* by an attempt whose reply was lost */
        found->revision = key->kvs[0].create_revision;
        found->lease = key->kvs[0].lease;
    }
}

/* ETCD_NOT_FOUND: the lease is gone. */
static enum etcd_status put(struct fixed *fixed, const char *name, const struct lock_limit *limit,
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
    return etcd_batch_do(fixed->batch, &txn, limit, read_found, found);
}

/* Anew while the epoch is another, or the lease is gone. LOCK_OK, LOCK_UNKNOWN, LOCK_UNAVAILABLE, LOCK_NOMEM.
 */
static enum lock_status put_with_epoch(struct fixed *fixed, const struct lock_attempt *attempt,
                                       const char *name, struct etcd_epoch *epoch, struct found *found) {
    enum lock_status status = LOCK_NOT_OWNER;
    for (int tries = 0; status == LOCK_NOT_OWNER && tries < 3; tries++) {
        *found = (struct found){.epoch = epoch, .owner = attempt->grant.owner};
        status = etcd_session_begin(fixed->session, epoch, &attempt->limit);
        if (status != LOCK_OK)
            return status;
        status = etcd_session_status(put(fixed, name, &attempt->limit, found));
        if (status == LOCK_OK && found->refused && !found->revision)
            status = LOCK_NOT_OWNER;
        if (status == LOCK_NOT_OWNER || status == LOCK_UNKNOWN)
            etcd_session_doubt(fixed->session, epoch);
    }
    return status == LOCK_NOT_OWNER ? LOCK_UNAVAILABLE : status;
}

static enum lock_status attempt(void *store, struct lock_attempt *attempt) {
    struct fixed *fixed = store;
    struct lock_grant *grant = &attempt->grant;
    struct etcd_place place = {.revision = 0};
    struct etcd_epoch epoch;
    struct found found;
    int64_t sent_ns = lock_env_now_ns(etcd_session_env(fixed->session));
    make_name(place.name, grant->key);
    enum lock_status status = put_with_epoch(fixed, attempt, place.name, &epoch, &found);
    attempt->nothing_left = status == LOCK_UNAVAILABLE;
    if (status != LOCK_OK)
        return status;
    if (found.revision) {
        etcd_waits_drop(fixed->waits, grant->owner);
        grant->fence = (uint64_t)found.revision;
        return etcd_session_grant(fixed->session, found.lease, sent_ns, grant);
    }
    place.seen = found.seen;
    enum etcd_wait told =
        attempt->waits ? etcd_waits_note(fixed->waits, grant, place.name, &place) : ETCD_WAIT_DEAF;
    return etcd_waits_busy(fixed->waits, told, attempt);
}

static void read_deleted(void *ctx, const struct etcd_reply *reply) {
    bool *was_there = ctx;
    *was_there = reply->succeeded;
}

/* Deletes the key if its value is `owner`. LOCK_NOT_OWNER: it is not. */
static enum lock_status delete_key(struct fixed *fixed, const char *key, const char *owner,
                                   const struct lock_limit *limit) {
    char name[ETCD_KEY_SIZE];
    bool was_there;
    make_name(name, key);
    const struct etcd_compare is_ours = {
        .key = etcd_text(name), .target = ETCD_VALUE, .relation = ETCD_EQUAL, .value = etcd_text(owner)};
    const struct etcd_op del = {ETCD_DELETE, .del = {.key = etcd_text(name)}};
    const struct etcd_txn txn = {.compares = &is_ours, .compare_count = 1, .then = &del, .then_count = 1};
    enum etcd_status status = etcd_batch_do(fixed->batch, &txn, limit, read_deleted, &was_there);
    return status != ETCD_OK ? etcd_session_status(status) : was_there ? LOCK_OK : LOCK_NOT_OWNER;
}

static enum lock_status release(void *store, const char *key, const char *owner) {
    struct fixed *fixed = store;
    const struct lock_limit limit = etcd_session_limit(fixed->session);
    return delete_key(fixed, key, owner, &limit);
}

static enum lock_status withdraw(void *store, const char *key, const char *owner, int64_t until_ns) {
    struct fixed *fixed = store;
    const struct lock_limit limit = {.until_ns = until_ns};
    etcd_waits_drop(fixed->waits, owner);
    enum lock_status status = etcd_session_settle(fixed->session, &limit);
    return status == LOCK_OK ? delete_key(fixed, key, owner, &limit) : status;
}

static enum lock_status extend(void *store, struct lock_grant *grant) {
    char name[ETCD_KEY_SIZE];
    make_name(name, grant->key);
    return etcd_session_extend(((struct fixed *)store)->session, name, false, grant);
}

static void name_granted(char out[ETCD_KEY_SIZE], const struct lock_grant *grant) {
    make_name(out, grant->key);
}

static void verify_many(void *store, struct lock_check checks[], size_t count) {
    etcd_session_verify(((struct fixed *)store)->session, checks, count, false, name_granted);
}

static void close_fixed(void *store) {
    struct fixed *fixed = store;
    etcd_session_close(fixed->session);
    etcd_waits_free(fixed->waits);
    etcd_batch_free(fixed->batch);
    free(fixed);
}

static enum lock_status open_fixed(const struct lock_url *url, const struct lock_env *env, void **store,
                                   char *error, size_t error_size) {
    void *session;
    enum lock_status status = etcd_session_open(url, env, &session, error, error_size);
    if (status != LOCK_OK)
        return status;
    struct fixed *fixed = calloc(1, sizeof *fixed);
    if (!fixed) {
        etcd_session_close(session);
        return LOCK_NOMEM;
    }
    fixed->session = session;
    fixed->batch = etcd_batch_new(session);
    fixed->waits = etcd_waits_new(session, false);
    if (!fixed->batch || !fixed->waits) {
        close_fixed(fixed);
        return LOCK_NOMEM;
    }
    *store = fixed;
    return LOCK_OK;
}

const struct lock_backend lock_etcd_fixed_key = {
    .scheme = "etcd",
    .variant = "fixed-key",
    .flaw = "wakes all who wait for one who gets it, and whoever comes first is served; after a pause as the "
            "queue",
    .caps = LOCK_CAN_FENCE | LOCK_CAN_FENCE_FAILOVER | LOCK_CAN_EXTEND | LOCK_CAN_WAKE | LOCK_IS_SHARED |
            LOCK_IS_SAFE,
    .has_tls = true,
    .queues_locally = true,
    .outlives_deadline = true,
    .open = open_fixed,
    .close = close_fixed,
    .attempt = attempt,
    .release = release,
    .withdraw = withdraw,
    .extend = extend,
    .verify_many = verify_many,
};
