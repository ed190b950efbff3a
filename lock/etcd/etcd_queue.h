/* What a lock in etcd consists of besides its session: the keys of owners (etcd_queue.c), batches of
 * transactions (txn_batch.c), and watches (predecessor_watch.c). The variants queue and fixed-key share it.
 * Not for users. */
#ifndef LOCK_ETCD_ETCD_QUEUE_H
#define LOCK_ETCD_ETCD_QUEUE_H

#include "lock/etcd/etcd_session.h"

/* ---- txn_batch.c: many threads' transactions in one request ---- */

struct etcd_batch;

/* NULL: out of memory. `session` outlives the batch. */
struct etcd_batch *etcd_batch_new(struct etcd_session *session);
/* No thread may be inside a call. NULL does nothing. */
void etcd_batch_free(struct etcd_batch *batch);

/* Sends a transaction, alone or together with those of other threads. Blocks until there is a reply, or the
 * limit is over: ETCD_UNKNOWN, or ETCD_UNAVAILABLE if it was not sent. On ETCD_OK, and not otherwise, the
 * thread that sent the request has called `read` with the transaction's reply; `read` must not block. Two
 * transactions at a time should not write the same key: etcd refuses them together, and then each is sent
 * alone. */
enum etcd_status etcd_batch_do(struct etcd_batch *batch, const struct etcd_txn *txn,
                               const struct lock_limit *limit,
                               void (*read)(void *ctx, const struct etcd_reply *reply), void *ctx);

/* ---- predecessor_watch.c: how a waiter learns that its predecessor's key is gone ---- */

struct etcd_watches;

/* An owner's place in the queue of its lock. */
struct etcd_place {
    int64_t revision, lease; /* of its own key; 0: it has none */
    /* The key whose deletion it waits for ("": it does not wait), and the store's revision when that was
     * read. */
    char predecessor[ETCD_KEY_SIZE];
    int64_t read_revision;
};

/* `prefix`: the watched names are prefixes of keys; otherwise they are keys. `session` must outlive the
 * watches, but its client is closed first. NULL: out of memory. */
struct etcd_watches *etcd_watches_new(struct etcd_session *session, bool prefix);
/* NULL does nothing. */
void etcd_watches_free(struct etcd_watches *watches);

/* From now on the attempt's owner waits, and is woken when its predecessor's key is deleted. Returns
 * LOCK_BUSY, and sets the attempt's `retry_ns` in case it is not woken. */
enum lock_status etcd_watches_wait(struct etcd_watches *watches, const char *name,
                                   struct lock_attempt *attempt, const struct etcd_place *place);
/* `owner` waits no more. Does nothing if it did not wait. */
void etcd_watches_drop(struct etcd_watches *watches, const char *name, const char *owner);

/* ---- etcd_queue.c: the keys of owners ---- */

struct etcd_store {
    struct etcd_session *session;
    struct etcd_batch *batch;
    struct etcd_watches *watches;
    bool queues; /* variant queue: one key for each owner; otherwise one for each lock */
};

/* Stores the name that is watched for a lock: its key, or, with `queues`, the prefix of all its keys. (No
 * other lock's keys have that prefix: a lock's key contains no space.) Returns its length. */
int etcd_store_name_lock(const struct etcd_store *store, char out[ETCD_KEY_SIZE], const char *key);

struct etcd_put_result {
    struct etcd_place place;     /* its revision is 0: the key was not put, and does not exist */
    char owner[LOCK_OWNER_SIZE]; /* the owner of a key that had the name already; "": none. If it is the own
                                    one only the predecessor is missing in `place` */
};
/* Puts the attempt's key, unless one of that name exists; with `queues` and without `attempt->waits` only if
 * the lock has no keys. The same request deletes the key of `attempt->releasing`. (If the request is carried
 * out late the epoch stops the put, and the compare of the owner makes the delete harmless.) */
enum lock_status etcd_store_put(struct etcd_store *store, const struct lock_attempt *attempt,
                                struct etcd_put_result *result);

/* These are functions of a struct lock_backend; `*store` is a struct etcd_store. */
enum lock_status etcd_store_open(const struct lock_url *url, const struct lock_env *env, void **store,
                                 char *error, size_t error_size);
void etcd_store_close(void *store);
enum lock_status etcd_store_release(void *store, const char *key, const char *owner);
enum lock_status etcd_store_withdraw(void *store, const char *key, const char *owner, int64_t until_ns);
void etcd_store_check(void *store, struct lock_check checks[], size_t count);

#endif
