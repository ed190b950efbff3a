/* The parts that all locks in etcd share: the client, and the lease of this process. Not for users.
 *
 * Every key that a lock writes is attached to one lease, which is kept alive as long as the lock is open. A
 * process that dies, or is paused for longer than the lease, loses the lease and all its keys at once. */
#ifndef LOCK_ETCD_SESSION_H
#define LOCK_ETCD_SESSION_H

#include "lock/core/backend.h"
#include "lock/libetcd/etcd.h"

/* etcd allows 128 operations in a transaction; those of a nested transaction count separately. */
enum { ETCD_KEY_SIZE = 5 + LOCK_KEY_MAX + 1 + LOCK_OWNER_SIZE, ETCD_TOGETHER_MAX = 64 };

struct etcd_session;

/* lock_backend's open and close; the store is a struct etcd_session. Grants that are held when it is closed
 * expire with the lease. */
enum lock_status etcd_session_open(const struct lock_url *url, const struct lock_env *env, void **store,
                                   char *error, size_t error_size);
void etcd_session_close(void *store);

struct etcd *etcd_session_client(struct etcd_session *session);
const struct lock_env *etcd_session_env(const struct etcd_session *session);

/* ---- requests ---- */

/* For one request from now on, with no limit but the timeout. Counts the request (lock_metrics.requests). */
struct etcd_call etcd_session_call(const struct etcd_session *session);

/* A caller's limit, and when it was first seen cancelled. It must exist as long as the request. */
struct etcd_call_limit {
    struct lock_limit limit;
    int64_t cancelled_ns;
};
/* As etcd_session_call(), but the request also ends with the limit. A request that is cancelled waits for its
 * reply for etcd_session_grace_ns: the store may be about to answer. */
struct etcd_call etcd_session_call_within(const struct etcd_session *session,
                                          struct etcd_call_limit *call_limit);
extern const int64_t etcd_session_grace_ns;
/* Is that time over? For etcd_call.gives_up; `ctx` is a struct etcd_call_limit. */
bool etcd_session_gives_up(void *ctx);
/* Is it worth beginning a request: not cancelled, and enough time left for a reply? */
bool etcd_session_may_call(const struct etcd_session *session, const struct lock_limit *limit);
/* For requests that have no limit of their own: the timeout. */
struct lock_limit etcd_session_limit(const struct etcd_session *session);

enum lock_status etcd_session_status(enum etcd_status status);

/* ---- the lease, and its epoch ---- */

/* A request that was sent and not answered can be carried out any time later, for example by a member that
 * was paused. So every request that puts a key compares the version of an epoch key, which this process alone
 * writes. After a put that is in doubt the epoch is raised, before the next put, and before the lock says
 * that nothing is left: a late put is refused then. */
struct etcd_epoch {
    int64_t lease, version;
    char key[ETCD_KEY_SIZE];
};

/* The current lease and epoch; gets a new lease if there is none or it is lost, and raises the epoch if it is
 * in doubt. Blocks. LOCK_OK, LOCK_UNAVAILABLE, LOCK_NOMEM. */
enum lock_status etcd_session_get_epoch(struct etcd_session *session, struct etcd_epoch *epoch,
                                        const struct lock_limit *limit);
/* The compare for a put in that epoch. */
struct etcd_compare etcd_session_compare(const struct etcd_epoch *epoch);
/* A put in that epoch was refused, or it is not known whether it was done. Does not block. */
void etcd_session_doubt_epoch(struct etcd_session *session, const struct etcd_epoch *epoch);
/* LOCK_OK: no put that was in doubt will be carried out from now on. Blocks. */
enum lock_status etcd_session_end_doubt(struct etcd_session *session, const struct lock_limit *limit);

/* ---- grants ---- */

/* The deadline of a grant that was asked for at `sent_ns`, with a key on `lease`: its time to live later, but
 * not after the lease may be gone. LOCK_UNKNOWN: the lease may be gone now. */
enum lock_status etcd_session_set_deadline(struct etcd_session *session, int64_t lease, int64_t sent_ns,
                                           struct lock_grant *grant);

#endif
