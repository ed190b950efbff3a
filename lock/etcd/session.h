/* What the locks in etcd share: the client, and the lease of this process. Not for users.
 *
 * All that a lock writes hangs on one lease, which is kept alive as long as the lock is open. A process that
 * dies, or is paused for longer, loses it, and with it everything at once. */
#ifndef LOCK_ETCD_SESSION_H
#define LOCK_ETCD_SESSION_H

#include "lock/core/backend.h"
#include "lock/libetcd/etcd.h"

/* etcd takes 128 operations in a transaction, those of each that is nested in it counted for themselves. */
enum { ETCD_KEY_SIZE = 5 + LOCK_KEY_MAX + 1 + LOCK_OWNER_SIZE, ETCD_TOGETHER_MAX = 64 };

struct etcd_session;

/* lock_backend's open and close, for stores that are a struct etcd_session. */
enum lock_status etcd_session_open(const struct lock_url *url, const struct lock_env *env, void **store,
                                   char *error, size_t error_size);
void etcd_session_close(void *store);

struct etcd *etcd_session_client(struct etcd_session *session);
const struct lock_env *etcd_session_env(const struct etcd_session *session);
/* For calls from now on that have no limit but this. */
struct etcd_call etcd_session_call(const struct etcd_session *session);

/* A caller, who has a limit to its patience, and when it was first seen cancelled. It stays where it is as
 * long as the call. */
struct etcd_patience {
    struct lock_limit limit;
    int64_t cancelled_ns;
};
/* For a call from now on that ends with the limit, or when any call does. */
struct etcd_call etcd_session_call_within(const struct etcd_session *session, struct etcd_patience *patience);
/* Is it worth to begin a call: not cancelled, and there is time left for an answer to come? */
bool etcd_session_may_call(const struct etcd_session *session, const struct lock_limit *limit);
/* It was cancelled some time ago: what such a call is asked. */
bool etcd_session_gives_up(void *patience);
/* The limit of calls that have none of their own. */
struct lock_limit etcd_session_limit(const struct etcd_session *session);
/* Who is cancelled waits so long for the answer of a store that is about to give one. */
extern const int64_t etcd_session_grace_ns;

enum lock_status etcd_session_status(enum etcd_status status);

/* What a write that must not come late goes out with. A request that was sent and not answered can be carried
 * out any time later: by a member that was paused, say. So each that puts a key compares the version of a key
 * that this process alone writes, and it is raised before the next, and before it is said that nothing is
 * left, where one was given up as unknown: what comes after that is refused. */
struct etcd_epoch {
    int64_t lease, version;
    char key[ETCD_KEY_SIZE];
};

/* The lease and its epoch as they are now; a new lease where there is none, or it is lost. Blocks. LOCK_OK,
 * LOCK_UNAVAILABLE, LOCK_NOMEM. */
enum lock_status etcd_session_begin(struct etcd_session *session, struct etcd_epoch *epoch,
                                    const struct lock_limit *limit);
/* To be among the compares of a write. */
struct etcd_compare etcd_session_compare(const struct etcd_epoch *epoch);
/* A write with that epoch is not known to be done, or was refused. etcd_session_begin() raises the epoch
 * before it gives out another, and gets another lease where this one is gone. Does not block. */
void etcd_session_doubt(struct etcd_session *session, const struct etcd_epoch *epoch);
/* LOCK_OK: what was doubted and not done is not done any more. So before it is said that nothing is left.
 * Blocks. */
enum lock_status etcd_session_settle(struct etcd_session *session, const struct lock_limit *limit);

/* The deadline of a grant that was asked for at `sent_ns` and hangs on `lease`: its time to live after that,
 * but not when the lease may be gone. LOCK_UNKNOWN: it may be gone now; so the layer takes back what there
 * is. */
enum lock_status etcd_session_grant(struct etcd_session *session, int64_t lease, int64_t sent_ns,
                                    struct lock_grant *grant);
/* Moves it, if there is still a key of the revision that is the grant's fence: `name`, or with `prefix` one
 * that begins with it. LOCK_NOT_OWNER: there is not; LOCK_UNAVAILABLE. */
enum lock_status etcd_session_extend(struct etcd_session *session, const char *name, bool prefix,
                                     struct lock_grant *grant);
/* The backend's verify_many: what extend answers for each of up to LOCK_CHECKS_MAX grants, with one request.
 * `name` writes the name of a grant's key. */
void etcd_session_verify(struct etcd_session *session, struct lock_check checks[], size_t count, bool prefix,
                         void (*name)(char out[ETCD_KEY_SIZE], const struct lock_grant *grant));

#endif
