#include "lock/etcd/store.h"

#include <stdlib.h>

void etcd_store_close(void *store) {
    struct etcd_store *opened = store;
    etcd_session_close(opened->session);
    etcd_watches_free(opened->watches);
    etcd_batch_free(opened->batch);
    free(opened);
}

enum lock_status etcd_store_open(const struct lock_url *url, const struct lock_env *env, bool prefix,
                                 void **store, char *error, size_t error_size) {
    void *session;
    enum lock_status status = etcd_session_open(url, env, &session, error, error_size);
    if (status != LOCK_OK)
        return status;
    struct etcd_store *opened = calloc(1, sizeof *opened);
    if (!opened) {
        etcd_session_close(session);
        return LOCK_NOMEM;
    }
    *opened = (struct etcd_store){session, etcd_batch_new(session), etcd_watches_new(session, prefix)};
    if (!opened->batch || !opened->watches) {
        etcd_store_close(opened);
        return LOCK_NOMEM;
    }
    *store = opened;
    return LOCK_OK;
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

enum lock_status etcd_store_delete(struct etcd_store *store, const char *name, const char *owner,
                                   const struct lock_limit *limit) {
    struct etcd_owner_delete delete;
    bool existed;
    etcd_owner_delete_make(&delete, name, owner);
    enum etcd_status status = etcd_batch_do(store->batch, &delete.txn, limit, read_deleted, &existed);
    return status != ETCD_OK ? etcd_session_status(status) : existed ? LOCK_OK : LOCK_NOT_OWNER;
}
