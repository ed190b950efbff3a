/* A session with ZooKeeper, and requests in it. Not for users. */
#ifndef LOCK_ZOOKEEPER_SESSION_H
#define LOCK_ZOOKEEPER_SESSION_H

#include "lock/core/backend.h"

/* The name of a node is OWNER-SEQUENCE; the sequence has ten digits, or eleven characters once it overflows.
 */
enum { ZOOKEEPER_NAME_SIZE = LOCK_OWNER_SIZE + 12, ZOOKEEPER_REQUESTS_MAX = 16 };

enum zookeeper_verb {
    ZOOKEEPER_SYNC,      /* what is read after it is no older than now, whichever server answers */
    ZOOKEEPER_MAKE,      /* a node that stays */
    ZOOKEEPER_CONTAINER, /* one that the server removes some time after its last child */
    ZOOKEEPER_QUEUE,     /* an ephemeral one, below `path`, with the next sequence */
    ZOOKEEPER_PLACE,     /* where `owner` is among the children of `path` */
    ZOOKEEPER_STAT,
    ZOOKEEPER_WATCH, /* wakes `owner`, who waits for `key`, once `path` is gone */
    ZOOKEEPER_DELETE,
};

struct zookeeper_request {
    enum zookeeper_verb verb;
    const char *path, *key, *owner; /* `path` in full */
};

enum zookeeper_result {
    ZOOKEEPER_LOST, /* no reply */
    ZOOKEEPER_DONE,
    ZOOKEEPER_NO_NODE, /* PLACE: the parent is not there; QUEUE: the same */
    ZOOKEEPER_NOT_DONE,
};

struct zookeeper_reply {
    enum zookeeper_result result;
    int64_t czxid;                    /* QUEUE, STAT: the node's */
    char name[ZOOKEEPER_NAME_SIZE];   /* QUEUE: of the node; PLACE: of the owner's, "": it has none */
    char before[ZOOKEEPER_NAME_SIZE]; /* PLACE: the one that stands right before it; "": it is the first */
};

struct zookeeper_session;

/* Has a thread that connects, keeps the session alive and replaces one that is over; the C client has two
 * more for each. `env` must outlive it; `env->wake` is called for everybody when a session is over. `servers`
 * is HOST:PORT,HOST:PORT. NULL when out of memory, or of threads. */
struct zookeeper_session *zookeeper_session_open(const char *servers, int64_t ttl_ms,
                                                 const struct lock_env *env);
/* Nobody may be in a call. `leave`: what it has in the store runs out with the session; otherwise it goes
 * now.
 */
void zookeeper_session_close(struct zookeeper_session *session, bool leave);

/* Which session it is: it counts up when one is over. 0 is none. */
uint64_t zookeeper_session_number(struct zookeeper_session *session);

/* CLOCK_MONOTONIC, until when a call that begins now may wait. */
int64_t zookeeper_session_until_ns(const struct zookeeper_session *session);

/* Sends requests, which are carried out in that order, and waits for the replies. `*number` is the session in
 * which they are to be made, or 0: whichever there is, and it is set then. LOCK_OK: all were answered;
 * LOCK_UNAVAILABLE, LOCK_NOMEM: none was, or will be, carried out; LOCK_NOT_OWNER: nor can it be, as that
 * session is over; LOCK_UNKNOWN: some replies are lost. `replies` says which. */
enum lock_status zookeeper_session_call(struct zookeeper_session *session, uint64_t *number,
                                        const struct zookeeper_request *requests, int count,
                                        struct zookeeper_reply *replies, const struct lock_limit *limit);

/* When a grant ends that was asked for at `sent_ns`: its time to live after that, and not later than the
 * session may. 0: the session is over, or was not heard of for so long that it may soon be. */
int64_t zookeeper_session_deadline_ns(struct zookeeper_session *session, uint64_t number, int64_t sent_ns);

#endif
