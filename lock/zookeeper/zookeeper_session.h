/* A session with an ensemble of ZooKeeper, and its calls. Not for users. */
#ifndef LOCK_ZOOKEEPER_ZOOKEEPER_SESSION_H
#define LOCK_ZOOKEEPER_ZOOKEEPER_SESSION_H

#define THREADED /* the variant of the C client that its header is read for */
#include <sys/queue.h>
#include <zookeeper/zookeeper.h>

#include "lock/core/backend.h"

/* ---- zookeeper_calls.c: requests that are sent together, and the watches that wake waiters ----
 *
 * The C client's thread answers the requests later. */

/* A node's name is OWNER-SEQUENCE; the sequence has ten digits, or eleven characters once it overflows. */
enum { ZOOKEEPER_NAME_SIZE = LOCK_OWNER_SIZE + 12, ZOOKEEPER_REQUESTS_MAX = 16, ZOOKEEPER_HEARTBEATS = 5 };

enum zookeeper_verb {
    ZOOKEEPER_SYNC,       /* later reads see all that is written by now, whichever server answers */
    ZOOKEEPER_CREATE,     /* a persistent node */
    ZOOKEEPER_CONTAINER,  /* a node that the server removes some time after its last child */
    ZOOKEEPER_QUEUE,      /* an ephemeral sequential node; `path` is its name without the sequence */
    ZOOKEEPER_FIND_PLACE, /* reads the place of `owner` among the children of `path` */
    ZOOKEEPER_WATCH,      /* wakes `owner`, a waiter for `key`, once the node `path` is deleted */
    ZOOKEEPER_DELETE,
};

struct zookeeper_request {
    enum zookeeper_verb verb;
    const char *path, *key, *owner; /* `path` is absolute */
};

enum zookeeper_result {
    ZOOKEEPER_LOST, /* there was no reply: it may have been carried out */
    ZOOKEEPER_DONE,
    ZOOKEEPER_NO_NODE,  /* FIND_PLACE, QUEUE: the parent does not exist */
    ZOOKEEPER_NOT_DONE, /* it was refused, or not sent */
};

struct zookeeper_reply {
    enum zookeeper_result result;
    int64_t czxid;                  /* QUEUE: the node's */
    char name[ZOOKEEPER_NAME_SIZE]; /* QUEUE: the node's; FIND_PLACE: the owner's node's, "": it has none */
    char predecessor[ZOOKEEPER_NAME_SIZE]; /* FIND_PLACE: the node right before it; "": it is the first */
};

/* A session with the ensemble. Private to the two files. */
struct zookeeper_session {
    const struct lock_env *env;
    char *servers; /* for error texts too */
    int64_t ttl_ms;
    pthread_t thread;
    pthread_mutex_t mutex;                            /* of all below; queueing a request does not block */
    pthread_cond_t changed;                           /* what the thread, or a call, waits for */
    zhandle_t *handle;                                /* the thread opens and closes it; NULL: none */
    LIST_HEAD(zookeeper_calls, zookeeper_call) calls; /* in flight */
    LIST_HEAD(zookeeper_watches, zookeeper_watch) watches;
    bool stop, expire;
    bool connected, over;
    bool born; /* was connected: the server has the session */
    bool heartbeat_in_flight;
    uint64_t number;                        /* counted from 1: each new session has the next */
    int64_t give_up_ns;                     /* CLOCK_MONOTONIC: replaced if it is not connected before */
    int64_t timeout_ns;                     /* T */
    int64_t heard_ns[ZOOKEEPER_HEARTBEATS]; /* when the last answered heartbeats were sent, newest first */
    int64_t heartbeat_at_ns;                /* CLOCK_MONOTONIC: the next one is due */
};

struct zookeeper_slot {
    struct zookeeper_call *call;
    struct zookeeper_watch *watch; /* of WATCH */
    bool answered;
    char owner[LOCK_OWNER_SIZE]; /* of FIND_PLACE */
    struct zookeeper_reply reply;
};

/* Requests that were sent together. The thread that waits for the call frees it, or, if none does, the last
 * answer. */
struct zookeeper_call {
    LIST_ENTRY(zookeeper_call) in_flight;
    struct zookeeper_session *session;
    pthread_cond_t done;
    int open; /* how many requests have no answer */
    bool waited_for, no_memory;
    /* Called with the mutex held once all is answered; or NULL. */
    void (*on_answered)(const struct zookeeper_call *call, bool done);
    int64_t sent_ns;
    struct zookeeper_slot slots[ZOOKEEPER_REQUESTS_MAX];
};

/* All of these are called with the mutex held, and do not block. */

/* A call of `count` requests, which must be sent at once. NULL when out of memory. */
struct zookeeper_call *zookeeper_call_new(struct zookeeper_session *session, int count);
void zookeeper_call_free(struct zookeeper_call *call);
/* Sends the requests in this order. Answers may come before it returns, and the last one frees a call that no
 * thread waits for. */
void zookeeper_call_send(struct zookeeper_call *call, const struct zookeeper_request *requests, int count);
/* Call it when the handle was closed: answers LOST to the requests in flight, and frees the watches. */
void zookeeper_session_drop_calls(struct zookeeper_session *session);

/* ---- zookeeper_session.c: reads the address, connects, keeps the session alive, and replaces it ---- */

enum {
    ZOOKEEPER_ROOT_SIZE = 264,
    ZOOKEEPER_LEVELS_MAX = 9,                                           /* of the root */
    ZOOKEEPER_SERVERS_SIZE = 4 * sizeof((struct lock_url *)0)->address, /* each may get a port */
};

/* Reads HOST[:PORT],HOST[:PORT]...[/CHROOT], as it stands in the URL of a lock. `servers` gets all of them
 * with their ports, `root` is CHROOT/lock. False: `what` says what is not valid, and where. */
bool zookeeper_address_read(const char *address, char servers[ZOOKEEPER_SERVERS_SIZE],
                            char root[ZOOKEEPER_ROOT_SIZE], char *what, size_t size);

/* Begins to connect; does not block. Has a thread of its own, and two of the C client. `env` must outlive it;
 * all waiters are woken when a session is over. `servers` is HOST:PORT,HOST:PORT, and is copied. NULL when
 * out of memory, or of threads. */
struct zookeeper_session *zookeeper_session_open(const char *servers, int64_t ttl_ms,
                                                 const struct lock_env *env);
/* Frees the session; no thread may be inside a call. If `owning` is the number of the current session, its
 * nodes stay until it expires; otherwise (0: there are no nodes) it ends now. Waits for up to a tenth of a
 * second for replies in flight, and until the C client has closed. */
void zookeeper_session_close(struct zookeeper_session *session, uint64_t owning);

/* CLOCK_MONOTONIC: until when a call that begins now may wait. */
int64_t zookeeper_session_until_ns(const struct zookeeper_session *session);

/* Sends requests, which the server carries out in this order, and waits for the replies until the limit is
 * over. `*number` is the session that they are for, counted from 1; 0: the current one, whose number it
 * becomes. LOCK_OK: all were answered. LOCK_UNAVAILABLE, LOCK_NOMEM: none was carried out, or will be.
 * LOCK_NOT_OWNER: that session is over, and with it all that it owned. LOCK_UNKNOWN: some replies are lost;
 * `replies` says which. */
enum lock_status zookeeper_session_call(struct zookeeper_session *session, uint64_t *number,
                                        const struct zookeeper_request *requests, int count,
                                        struct zookeeper_reply *replies, const struct lock_limit *limit);

/* The deadline of a grant that was asked for at `sent_ns`: its time to live later, but not after the session
 * may end. 0: the session is over, or no heartbeat was answered for so long that it may soon be. */
int64_t zookeeper_session_deadline_ns(struct zookeeper_session *session, uint64_t number, int64_t sent_ns);

#endif
