#include "lock/etcd/store.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NAMES = 4 };

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

void etcd_owner_delete_make(struct etcd_owner_delete *delete, const char *name, const char *owner) {
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
    struct etcd_owner_delete delete;
    char name[ETCD_KEY_SIZE];
    bool existed;
    etcd_store_name_key(store, name, key, owner);
    etcd_owner_delete_make(&delete, name, owner);
    enum etcd_status status = etcd_batch_do(store->batch, &delete.txn, limit, read_deleted, &existed);
    return status != ETCD_OK ? etcd_session_status(status) : existed ? LOCK_OK : LOCK_NOT_OWNER;
}

enum lock_status etcd_store_release(void *opened, const char *key, const char *owner) {
    struct etcd_store *store = opened;
    const struct lock_limit limit = etcd_session_limit(store->session);
    return etcd_store_delete(store, key, owner, &limit);
}

enum lock_status etcd_store_withdraw(void *opened, const char *key, const char *owner, int64_t until_ns) {
    struct etcd_store *store = opened;
    const struct lock_limit limit = {.until_ns = until_ns};
    char watched[ETCD_KEY_SIZE];
    etcd_store_name_lock(store, watched, key);
    etcd_watches_drop(store->watches, watched, owner);
    enum lock_status status = etcd_session_end_doubt(store->session, &limit);
    return status == LOCK_OK ? etcd_store_delete(store, key, owner, &limit) : status;
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
void etcd_store_check(void *opened, struct lock_check checks[], size_t count) {
    struct etcd_store *store = opened;
    char names[LOCK_CHECKS_MAX][ETCD_KEY_SIZE];
    struct etcd_op ops[LOCK_CHECKS_MAX];
    for (size_t i = 0; i < count; i++) {
        etcd_store_name_key(store, names[i], checks[i].grant.key, checks[i].grant.owner);
        ops[i] = (struct etcd_op){ETCD_RANGE, .range = {.key = etcd_text(names[i]), .keys_only = true}};
    }
    const struct etcd_txn all = {.then = ops, .then_count = count};
    struct etcd_call call = etcd_session_call(store->session);
    call.idempotent = true;
    int64_t sent_ns = lock_env_now_ns(etcd_session_env(store->session));
    struct etcd_reply *reply;
    enum etcd_status status = etcd_txn(etcd_session_client(store->session), &all, &call, &reply);
    for (size_t i = 0; i < count; i++)
        checks[i].status = status == ETCD_OK
                               ? read_check(store->session, &reply->replies[i], sent_ns, &checks[i].grant)
                               : etcd_session_status(status);
    if (status == ETCD_OK)
        etcd_reply_free(reply);
}
