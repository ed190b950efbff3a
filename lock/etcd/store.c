#include "lock/etcd/store.h"

#include <stdlib.h>

void etcd_store_close(void *opened) {
    struct etcd_store *store = opened;
    etcd_session_close(store->session);
    etcd_watches_free(store->watches);
    etcd_batch_free(store->batch);
    free(store);
}

enum lock_status etcd_store_open(const struct lock_url *url, const struct lock_env *env, bool prefix,
                                 void **opened, char *error, size_t error_size) {
    void *session;
    enum lock_status status = etcd_session_open(url, env, &session, error, error_size);
    if (status != LOCK_OK)
        return status;
    struct etcd_store *store = calloc(1, sizeof *store);
    if (!store) {
        etcd_session_close(session);
        return LOCK_NOMEM;
    }
    *store = (struct etcd_store){session, etcd_batch_new(session), etcd_watches_new(session, prefix)};
    if (!store->batch || !store->watches) {
        etcd_store_close(store);
        return LOCK_NOMEM;
    }
    *opened = store;
    return LOCK_OK;
}
