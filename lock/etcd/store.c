#include "lock/etcd/store.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NAMES = 4, TRIES = 3 };

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

int etcd_store_name_lock(const struct etcd_store *store, char out[ETCD_KEY_SIZE], const char *key) {
    return snprintf(out, ETCD_KEY_SIZE, store->queues ? "lock/%s " : "lock/%s", key);
}

void etcd_store_name_key(const struct etcd_store *store, char out[ETCD_KEY_SIZE], const char *key,
                         const char *owner) {
    int length = etcd_store_name_lock(store, out, key);
    char last = owner[LOCK_OWNER_SIZE - 2]; /* digit of the half that is counted */
    unsigned number = (unsigned)(last <= '9' ? last - '0' : last - 'a' + 10) % NAMES;
    if (store->queues)
        snprintf(out + length, ETCD_KEY_SIZE - (size_t)length, "%.*s.%u", LOCK_OWNER_SIZE / 2, owner, number);
}

void etcd_store_copy_key(char out[ETCD_KEY_SIZE], struct etcd_bytes key) {
    snprintf(out, ETCD_KEY_SIZE, "%.*s", (int)key.size, (const char *)key.data);
}

struct etcd_op etcd_store_newest_keys(const char *lock, int64_t before_revision, int64_t limit) {
    return (struct etcd_op){ETCD_RANGE,
                            .range = {.key = etcd_text(lock),
                                      .prefix = true,
                                      .max_create_revision = before_revision ? before_revision - 1 : 0,
                                      .order = ETCD_DESCENDING,
                                      .sort_by = ETCD_CREATE_REVISION,
                                      .limit = limit,
                                      .keys_only = true}};
}

/* ---- deleting, and checking ---- */

/* A transaction that deletes a key if its value is `owner`. */
struct owner_delete {
    struct etcd_compare is_owner;
    struct etcd_op del;
    struct etcd_txn txn;
};

/* Its pointers go into the struct: do not copy it. */
static void make_owner_delete(struct owner_delete *delete, const char *name, const char *owner) {
    delete->is_owner = (struct etcd_compare){
        .key = etcd_text(name), .target = ETCD_VALUE, .relation = ETCD_EQUAL, .value = etcd_text(owner)};
    delete->del = (struct etcd_op){ETCD_DELETE, .del = {.key = etcd_text(name)}};
    delete->txn = (struct etcd_txn){
        .compares = &delete->is_owner, .compare_count = 1, .then = &delete->del, .then_count = 1};
}

static void read_deleted(void *ctx, const struct etcd_reply *reply) {
    *(bool *)ctx = reply->succeeded;
}

enum lock_status etcd_store_delete(struct etcd_store *store, const char *key, const char *owner,
                                   const struct lock_limit *limit) {
    struct owner_delete delete;
    char name[ETCD_KEY_SIZE];
    bool existed;
    etcd_store_name_key(store, name, key, owner);
    make_owner_delete(&delete, name, owner);
    enum etcd_status status = etcd_batch_do(store->batch, &delete.txn, limit, read_deleted, &existed);
    return status != ETCD_OK ? etcd_session_status(status) : existed ? LOCK_OK : LOCK_NOT_OWNER;
}

enum lock_status etcd_store_release(void *store, const char *key, const char *owner) {
    struct etcd_store *opened = store;
    const struct lock_limit limit = etcd_session_limit(opened->session);
    return etcd_store_delete(opened, key, owner, &limit);
}

enum lock_status etcd_store_withdraw(void *store, const char *key, const char *owner, int64_t until_ns) {
    struct etcd_store *opened = store;
    const struct lock_limit limit = {.until_ns = until_ns};
    char watched[ETCD_KEY_SIZE];
    etcd_store_name_lock(opened, watched, key);
    etcd_watches_drop(opened->watches, watched, owner);
    enum lock_status status = etcd_session_end_doubt(opened->session, &limit);
    return status == LOCK_OK ? etcd_store_delete(opened, key, owner, &limit) : status;
}

/* `range` is what was read of the grant's key. */
static enum lock_status read_check(struct etcd_session *session, const struct etcd_reply *range,
                                   int64_t sent_ns, struct lock_grant *grant) {
    if (range->kv_count == 0 || (uint64_t)range->kvs[0].create_revision != grant->fence)
        return LOCK_NOT_OWNER;
    enum lock_status status = etcd_session_set_deadline(session, range->kvs[0].lease, sent_ns, grant);
    return status == LOCK_OK ? LOCK_OK : LOCK_UNAVAILABLE;
}

/* Writes nothing: the lease is renewed anyway. */
void etcd_store_check(void *store, struct lock_check checks[], size_t count) {
    struct etcd_store *opened = store;
    char names[LOCK_CHECKS_MAX][ETCD_KEY_SIZE];
    struct etcd_op ops[LOCK_CHECKS_MAX];
    for (size_t i = 0; i < count; i++) {
        etcd_store_name_key(opened, names[i], checks[i].grant.key, checks[i].grant.owner);
        ops[i] = (struct etcd_op){ETCD_RANGE, .range = {.key = etcd_text(names[i]), .keys_only = true}};
    }
    const struct etcd_txn all = {.then = ops, .then_count = count};
    struct etcd_call call = etcd_session_call(opened->session);
    call.idempotent = true;
    int64_t sent_ns = lock_env_now_ns(etcd_session_env(opened->session));
    struct etcd_reply *reply;
    enum etcd_status status = etcd_txn(etcd_session_client(opened->session), &all, &call, &reply);
    for (size_t i = 0; i < count; i++)
        checks[i].status = status == ETCD_OK
                               ? read_check(opened->session, &reply->replies[i], sent_ns, &checks[i].grant)
                               : etcd_session_status(status);
    if (status == ETCD_OK)
        etcd_reply_free(reply);
}

/* ---- putting the own key ---- */

/* What a request to put the own key has found. */
struct found {
    const struct etcd_epoch *epoch;
    const char *owner;
    size_t first; /* of the replies; before it comes that of the release */
    struct etcd_put_result *put;
    bool wrong_epoch;
};

static void read_found(void *ctx, const struct etcd_reply *reply) {
    struct found *found = ctx;
    struct etcd_put_result *put = found->put;
    const struct etcd_reply *replies = reply->replies + found->first;
    *put = (struct etcd_put_result){.place.read_revision = reply->revision};
    if (reply->succeeded) {
        put->place.revision = reply->revision;
        put->place.lease = found->epoch->lease;
        if (replies[1].kv_count > 1)
            etcd_store_copy_key(put->place.predecessor, replies[1].kvs[1].key);
        return;
    }
    if (replies[0].kv_count == 0) {
        found->wrong_epoch = replies[1].kv_count == 0 || replies[1].kvs[0].version != found->epoch->version;
        return;
    }
    const struct etcd_kv *kv = &replies[0].kvs[0];
    snprintf(put->owner, sizeof put->owner, "%.*s", (int)kv->value.size, (const char *)kv->value.data);
    if (strcmp(put->owner, found->owner) == 0) { /* put by an attempt whose reply was lost */
        put->place.revision = kv->create_revision;
        put->place.lease = kv->lease;
    }
}

/* `*retry`: the epoch is over, or its lease. */
static enum etcd_status put_in_epoch(struct etcd_store *store, const struct lock_attempt *attempt,
                                     const struct etcd_epoch *epoch, struct etcd_put_result *put,
                                     bool *retry) {
    const struct lock_grant *grant = &attempt->grant;
    char name[ETCD_KEY_SIZE], lock[ETCD_KEY_SIZE], released[ETCD_KEY_SIZE];
    struct etcd_op then[3], otherwise[3];
    struct owner_delete del;
    size_t n = 0;
    etcd_store_name_key(store, name, grant->key, grant->owner);
    etcd_store_name_lock(store, lock, grant->key);
    if (attempt->releasing[0]) {
        etcd_store_name_key(store, released, grant->key, attempt->releasing);
        make_owner_delete(&del, released, attempt->releasing);
        then[n] = otherwise[n] = (struct etcd_op){ETCD_TXN, .txn = del.txn};
        n++;
    }
    struct found found = {.epoch = epoch, .owner = grant->owner, .first = n, .put = put};
    then[n] = (struct etcd_op){
        ETCD_PUT, .put = {.key = etcd_text(name), .value = etcd_text(grant->owner), .lease = epoch->lease}};
    otherwise[n++] = (struct etcd_op){ETCD_RANGE, .range = {.key = etcd_text(name)}};
    then[n] = etcd_store_newest_keys(lock, 0, 2);
    otherwise[n++] = (struct etcd_op){ETCD_RANGE, .range = {.key = etcd_text(epoch->key), .keys_only = true}};
    struct etcd_compare compares[] = {
        etcd_session_compare(epoch),
        {.key = etcd_text(name), .target = ETCD_CREATE_REVISION, .relation = ETCD_EQUAL, .number = 0}};
    if (store->queues && !attempt->waits) {
        compares[1].key = etcd_text(lock);
        compares[1].prefix = true;
    }
    const struct etcd_txn txn = {.compares = compares,
                                 .compare_count = 2,
                                 .then = then,
                                 .then_count = n,
                                 .otherwise = otherwise,
                                 .otherwise_count = n};
    enum etcd_status status = etcd_batch_do(store->batch, &txn, &attempt->limit, read_found, &found);
    *retry = status == ETCD_NOT_FOUND /* the lease */ || (status == ETCD_OK && found.wrong_epoch);
    return status;
}

enum lock_status etcd_store_put(struct etcd_store *store, const struct lock_attempt *attempt,
                                struct etcd_put_result *put) {
    for (int tries = 0; tries < TRIES; tries++) {
        struct etcd_epoch epoch;
        bool retry;
        enum lock_status status = etcd_session_get_epoch(store->session, &epoch, &attempt->limit);
        if (status != LOCK_OK)
            return status;
        enum etcd_status done = put_in_epoch(store, attempt, &epoch, put, &retry);
        if (retry || done == ETCD_UNKNOWN)
            etcd_session_doubt_epoch(store->session, &epoch);
        if (!retry)
            return etcd_session_status(done);
    }
    return LOCK_UNAVAILABLE;
}
