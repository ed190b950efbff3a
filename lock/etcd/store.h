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

/* A transaction that deletes a key if its value is `owner`. Its pointers go into the struct: do not copy it.
 * `name` and `owner` must outlive it. */
struct etcd_owner_delete {
    struct etcd_compare is_owner;
    struct etcd_op del;
    struct etcd_txn txn;
};
void etcd_owner_delete_make(struct etcd_owner_delete *delete, const char *name, const char *owner);
/* Does that. LOCK_NOT_OWNER: the key does not exist, or has another owner. */
enum lock_status etcd_store_delete(struct etcd_store *store, const char *name, const char *owner,
                                   const struct lock_limit *limit);

#endif
