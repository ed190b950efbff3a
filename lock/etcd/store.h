/* The session, the batch and the watches of a lock in etcd, the names of its keys, and what both variants do
 * alike. Not for users. */
#ifndef LOCK_ETCD_STORE_H
#define LOCK_ETCD_STORE_H

#include "lock/etcd/txn_batch.h"
#include "lock/etcd/watches.h"

struct etcd_store {
    struct etcd_session *session;
    struct etcd_batch *batch;
    struct etcd_watches *watches;
    bool queues; /* variant queue: a key for each owner; otherwise one for each lock */
};

/* lock_backend's open and close. */
enum lock_status etcd_store_open(const struct lock_url *url, const struct lock_env *env, void **store,
                                 char *error, size_t error_size);
void etcd_store_close(void *store);

/* The name that is watched for a lock: its key, or, with `queues`, what the names of all its keys begin with.
 * (No other lock's do: a lock's key contains no space.) Returns its length. */
int etcd_store_name_lock(const struct etcd_store *store, char out[ETCD_KEY_SIZE], const char *key);
/* The owner's key: "lock/KEY", or with `queues` "lock/KEY SESSION.N", see queue.c. */
void etcd_store_name_key(const struct etcd_store *store, char out[ETCD_KEY_SIZE], const char *key,
                         const char *owner);

/* A transaction that deletes a key if its value is `owner`. Its pointers go into the struct: do not copy it.
 * `name` and `owner` must outlive it. */
struct etcd_owner_delete {
    struct etcd_compare is_owner;
    struct etcd_op del;
    struct etcd_txn txn;
};
void etcd_owner_delete_make(struct etcd_owner_delete *delete, const char *name, const char *owner);
/* Does that for the owner's key. LOCK_NOT_OWNER: it does not exist, or has another owner. */
enum lock_status etcd_store_delete(struct etcd_store *store, const char *key, const char *owner,
                                   const struct lock_limit *limit);

/* lock_backend's release, withdraw and check. */
enum lock_status etcd_store_release(void *store, const char *key, const char *owner);
enum lock_status etcd_store_withdraw(void *store, const char *key, const char *owner, int64_t until_ns);
void etcd_store_check(void *store, struct lock_check checks[], size_t count);

#endif
