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

void etcd_store_copy_key(char out[ETCD_KEY_SIZE], struct etcd_bytes key);
/* Reads the newest keys of a lock; only those put before `before_revision`, unless that is 0. */
struct etcd_op etcd_store_newest_keys(const char *lock, int64_t before_revision, int64_t limit);

struct etcd_put_result {
    struct etcd_place place;     /* its revision is 0: it was not put, and does not exist */
    char owner[LOCK_OWNER_SIZE]; /* whose key had the name already; "": none. If it is the own one only the
                                    predecessor is missing in `place` */
};
/* Puts the attempt's key, unless one of that name exists; with `queues` and without `attempt->waits` only if
 * the lock has no keys. With the same request it deletes the key of `attempt->releasing`. (If the request is
 * carried out late the epoch stops the put, and the compare of the owner makes the delete harmless.) */
enum lock_status etcd_store_put(struct etcd_store *store, const struct lock_attempt *attempt,
                                struct etcd_put_result *put);
/* Deletes the owner's key. LOCK_NOT_OWNER: it does not exist, or has another owner. */
enum lock_status etcd_store_delete(struct etcd_store *store, const char *key, const char *owner,
                                   const struct lock_limit *limit);

/* lock_backend's release, withdraw and check. */
enum lock_status etcd_store_release(void *store, const char *key, const char *owner);
enum lock_status etcd_store_withdraw(void *store, const char *key, const char *owner, int64_t until_ns);
void etcd_store_check(void *store, struct lock_check checks[], size_t count);

#endif
