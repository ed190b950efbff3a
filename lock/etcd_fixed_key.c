/* etcd, variant fixed-key: one key, put by whoever finds it missing.
 *
 * Right, and the fence is the create revision as with the queue; but all who wait wait for the same key, and
 * all are told when it goes: one gets it, and the rest have asked in vain. Who waits longest has no better
 * chance than who has just come. Beside the queue it shows what a line is for. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lock/etcd_waits.h"

struct fixed {
    struct etcd_session *session;
    struct etcd_waits *waits;
};

static void make_name(char out[ETCD_KEY_SIZE], const char *key) {
    snprintf(out, ETCD_KEY_SIZE, "lock/%s", key);
}

/* What put() found. */
struct found {
    int64_t seen;            /* the store's revision then */
    bool refused;            /* the epoch is another */
    int64_t revision, lease; /* of the key, if it is the attempt's own; 0: somebody else's */
};

static bool is_owner(const struct etcd_kv *kv, const char *owner) {
    return kv->value.size == strlen(owner) && memcmp(kv->value.data, owner, kv->value.size) == 0;
}

/* ETCD_NOT_FOUND: the lease is gone. */
static enum etcd_status put(struct fixed *fixed, const char *name, const char *owner,
                            const struct etcd_epoch *epoch, struct found *found) {
    const struct etcd_compare compares[] = {
        etcd_session_compare(epoch),
        {.key = etcd_text(name), .target = ETCD_CREATE_REVISION, .relation = ETCD_EQUAL, .number = 0}};
    const struct etcd_op then = {
        ETCD_PUT, .put = {.key = etcd_text(name), .value = etcd_text(owner), .lease = epoch->lease}};
    const struct etcd_op otherwise[] = {
        {ETCD_RANGE, .range = {.key = etcd_text(name)}},
        {ETCD_RANGE, .range = {.key = etcd_text(epoch->key), .keys_only = true}}};
    const struct etcd_txn txn = {.compares = compares,
                                 .compare_count = 2,
                                 .then = &then,
                                 .then_count = 1,
                                 .otherwise = otherwise,
                                 .otherwise_count = 2};
    const struct etcd_call call = etcd_session_call(fixed->session);
    struct etcd_reply *reply;
    enum etcd_status status = etcd_txn(etcd_session_client(fixed->session), &txn, &call, &reply);
    if (status != ETCD_OK)
        return status;
    *found = (struct found){.seen = reply->revision};
    if (reply->succeeded) {
        found->revision = reply->revision;
        found->lease = epoch->lease;
    } else {
        const struct etcd_reply *key = &reply->replies[0], *ours = &reply->replies[1];
        found->refused = ours->kv_count == 0 || ours->kvs[0].version != epoch->version;
        if (key->kv_count == 1 && is_owner(&key->kvs[0], owner)) { /* by an attempt whose reply was lost */
            found->revision = key->kvs[0].create_revision;
            found->lease = key->kvs[0].lease;
        }
    }
    etcd_reply_free(reply);
    return ETCD_OK;
}

static enum lock_status attempt(void *store, struct lock_attempt *attempt) {
    struct fixed *fixed = store;
    struct lock_grant *grant = &attempt->grant;
    struct etcd_place place = {.revision = 0};
    struct etcd_epoch epoch;
    struct found found;
    int64_t sent_ns = lock_env_now_ns(etcd_session_env(fixed->session));
    make_name(place.name, grant->key);
    enum lock_status status = etcd_session_begin(fixed->session, &epoch);
    attempt->clean = status != LOCK_OK;
    if (status != LOCK_OK)
        return status;
    enum etcd_status put_status = put(fixed, place.name, grant->owner, &epoch, &found);
    bool refused =
        put_status == ETCD_NOT_FOUND || (put_status == ETCD_OK && found.refused && !found.revision);
    if (refused || put_status == ETCD_UNKNOWN)
        etcd_session_doubt(fixed->session, &epoch);
    if (refused)
        return LOCK_UNKNOWN; /* the layer asks once more, with the next epoch */
    attempt->clean = etcd_session_status(put_status) == LOCK_UNAVAILABLE;
    if (put_status != ETCD_OK)
        return etcd_session_status(put_status);
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

static enum lock_status release(void *store, const char *key, const char *owner) {
    struct fixed *fixed = store;
    char name[ETCD_KEY_SIZE];
    make_name(name, key);
    return etcd_session_delete(fixed->session, name, owner);
}

static enum lock_status withdraw(void *store, const char *key, const char *owner) {
    struct fixed *fixed = store;
    etcd_waits_drop(fixed->waits, owner);
    enum lock_status status = etcd_session_settle(fixed->session);
    return status == LOCK_OK ? release(store, key, owner) : status;
}

static enum lock_status extend(void *store, struct lock_grant *grant) {
    char name[ETCD_KEY_SIZE];
    make_name(name, grant->key);
    return etcd_session_extend(((struct fixed *)store)->session, name, false, grant);
}

static void name_granted(char out[ETCD_KEY_SIZE], const struct lock_grant *grant) {
    make_name(out, grant->key);
}

static void look_many(void *store, const struct lock_grant grants[], enum lock_status statuses[],
                      size_t count) {
    etcd_session_look(((struct fixed *)store)->session, grants, statuses, count, false, name_granted);
}

static void close_fixed(void *store) {
    struct fixed *fixed = store;
    etcd_session_close(fixed->session);
    etcd_waits_free(fixed->waits);
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
    fixed->waits = etcd_waits_new(session, false);
    if (!fixed->waits) {
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
    .tls = true,
    .lines_up = true,
    .lasts = true,
    .open = open_fixed,
    .close = close_fixed,
    .attempt = attempt,
    .release = release,
    .withdraw = withdraw,
    .extend = extend,
    .look_many = look_many,
};
