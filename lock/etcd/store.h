/* The session, the batch and the watches of a lock in etcd, opened and closed together. Not for users. */
#ifndef LOCK_ETCD_STORE_H
#define LOCK_ETCD_STORE_H

#include "lock/etcd/txn_batch.h"
#include "lock/etcd/watches.h"

struct etcd_store {
    struct etcd_session *session;
    struct etcd_batch *batch;
    struct etcd_watches *watches;
};

/* lock_backend's open, but for `prefix`: see etcd_watches_new(). */
enum lock_status etcd_store_open(const struct lock_url *url, const struct lock_env *env, bool prefix,
                                 void **store, char *error, size_t error_size);
void etcd_store_close(void *store);

#endif
