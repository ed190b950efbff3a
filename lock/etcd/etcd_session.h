/* The session of a lock in etcd: the client, and the lease of this process. Not for users.
 *
 * The session keeps one lease alive as long as the lock is open, and every key that the lock puts is attached
 * to it. A process that dies, or is paused for longer than the lease, loses the lease and all its keys at
 * once.
 *
 * A request that was sent and not answered can be carried out any time later, for example by a member that
 * was paused. So every put compares the version of an epoch key, which this process alone writes. After a put
 * that is in doubt the session raises the epoch before the next put, and before the lock says that nothing is
 * left: etcd refuses a late put then. */
#ifndef LOCK_ETCD_ETCD_SESSION_H
#define LOCK_ETCD_ETCD_SESSION_H

#include "lock/core/backend.h"
#include "lock/libetcd/etcd.h"

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

/* ---- requests ---- */

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

/* ---- the lease, and its epoch ---- */

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

/* ---- grants ---- */

/* Sets the deadline of a grant that was requested at `sent_ns` and has its key on `lease`: one time to live
 * later, but before the lease may be gone. LOCK_UNKNOWN: the lease may be gone now. */
enum lock_status etcd_session_set_deadline(struct etcd_session *session, int64_t lease, int64_t sent_ns,
                                           struct lock_grant *grant);

#endif
