/* What a lock in etcd consists of: the session (etcd_session.c), batches of transactions (txn_batch.c),
 * watches (predecessor_watch.c), and the keys of owners (etcd_queue.c), which the variants queue and
 * fixed-key share. Not for users. */
#ifndef LOCK_ETCD_ETCD_STORE_H
#define LOCK_ETCD_ETCD_STORE_H

#include "lock/core/backend.h"
#include "lock/libetcd/etcd.h"

/* ---- etcd_session.c: the client, and the lease of this process ----
 *
 * The session keeps one lease alive as long as the lock is open, and every key that the lock puts is attached
 * to it. A process that dies, or is paused for longer than the lease, loses the lease and all its keys at
 * once.
 *
 * A request that was sent and not answered can be carried out any time later, for example by a member that
 * was paused. So every put compares the version of an epoch key, which this process alone writes. After a put
 * that is in doubt the session raises the epoch before the next put, and before the lock says that nothing is
 * left: etcd refuses a late put then. */

enum { ETCD_KEY_SIZE = 5 + LOCK_KEY_MAX + 1 + LOCK_OWNER_SIZE };

/* A lease, and the version of its epoch key. */
struct etcd_epoch {
    int64_t lease, version;
    char key[ETCD_KEY_SIZE];
};

struct etcd_session {
    const struct lock_env *env;
    struct etcd *etcd;

    /* Private to etcd_session.c. */
    int64_t ttl_ms, every_ms, lease_ttl_s, timeout_ns;
    pthread_mutex_t mutex;        /* protects what follows; not held during requests */
    pthread_cond_t repaired;      /* `repairs` has grown */
    bool repairing;               /* a thread gets a lease or raises the epoch */
    uint64_t repairs;             /* repairs that have ended */
    enum lock_status last_repair; /* the status of the last one */
    bool doubt;                   /* a put in this epoch was refused, or may still be in flight */
    struct etcd_epoch epoch;
    struct etcd_keep *keep; /* NULL: no lease yet */
};

/* The open and close of a struct lock_backend; `*store` is a struct etcd_session. Grants that are held when
 * it is closed expire with the lease. */
enum lock_status etcd_session_open(const struct lock_url *url, const struct lock_env *env, void **store,
                                   char *error, size_t error_size);
void etcd_session_close(void *store);

/* Options for one request that starts now, and is limited by the timeout alone. Counts the request
 * (lock_metrics.requests). */
struct etcd_call etcd_session_call(const struct etcd_session *session);

/* A caller's limit, and when it was first seen cancelled (0: not yet). It must live as long as the request.
 */
struct etcd_call_limit {
    struct lock_limit limit;
    int64_t cancelled_ns;
};
/* As etcd_session_call(), but the request also ends with the limit. A request that is cancelled waits for its
 * reply for another etcd_session_grace_ns, since the store may be about to answer. */
struct etcd_call etcd_session_call_within(const struct etcd_session *session,
                                          struct etcd_call_limit *call_limit);
extern const int64_t etcd_session_grace_ns;
/* True: the grace time after a cancellation is over. For etcd_call.gives_up; `ctx` is a struct
 * etcd_call_limit. */
bool etcd_session_gives_up(void *ctx);
/* True: a request is worth beginning. It is not cancelled, and there is enough time left for a reply. */
bool etcd_session_may_call(const struct etcd_session *session, const struct lock_limit *limit);
/* The limit of a request whose caller has none: the timeout. */
struct lock_limit etcd_session_limit(const struct etcd_session *session);

enum lock_status etcd_session_status(enum etcd_status status);

/* Returns the current lease and epoch. Gets a new lease if there is none or it is lost, and raises the epoch
 * if it is in doubt. Blocks. LOCK_OK, LOCK_UNAVAILABLE, LOCK_NOMEM. */
enum lock_status etcd_session_get_epoch(struct etcd_session *session, struct etcd_epoch *epoch,
                                        const struct lock_limit *limit);
/* The compare for a put in that epoch. */
struct etcd_compare etcd_session_compare(const struct etcd_epoch *epoch);
/* A put in that epoch was refused, or its outcome is unknown. Does not block. */
void etcd_session_doubt_epoch(struct etcd_session *session, const struct etcd_epoch *epoch);
/* Raises the epoch if it is in doubt. Blocks. LOCK_OK: from now on no put that was in doubt will be carried
 * out. */
enum lock_status etcd_session_end_doubt(struct etcd_session *session, const struct lock_limit *limit);

/* Sets the deadline of a grant that was requested at `sent_ns` and has its key on `lease`: one time to live
 * later, but before the lease may be gone. LOCK_UNKNOWN: the lease may be gone now. */
enum lock_status etcd_session_set_deadline(struct etcd_session *session, int64_t lease, int64_t sent_ns,
                                           struct lock_grant *grant);

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
