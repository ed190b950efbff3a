/* Requests to ZooKeeper, which are sent together and answered later by the C client's thread; and the watches
 * that wake waiters. Not for users. */
#ifndef LOCK_ZOOKEEPER_ZOOKEEPER_CALLS_H
#define LOCK_ZOOKEEPER_ZOOKEEPER_CALLS_H

#define THREADED /* the variant of the C client that its header is read for */
#include <sys/queue.h>
#include <zookeeper/zookeeper.h>

#include "lock/core/backend.h"

/* A node's name is OWNER-SEQUENCE; the sequence has ten digits, or eleven characters once it overflows. */
enum { ZOOKEEPER_NAME_SIZE = LOCK_OWNER_SIZE + 12, ZOOKEEPER_REQUESTS_MAX = 16 };

enum zookeeper_verb {
    ZOOKEEPER_SYNC,       /* what is read after it is as new as now, whichever server answers */
    ZOOKEEPER_CREATE,     /* a persistent node */
    ZOOKEEPER_CONTAINER,  /* a node that the server removes some time after its last child */
    ZOOKEEPER_QUEUE,      /* an ephemeral sequential node; `path` is its name without the sequence */
    ZOOKEEPER_FIND_PLACE, /* of `owner` among the children of `path` */
    ZOOKEEPER_WATCH,      /* wakes `owner`, a waiter for `key`, once `path` is gone */
    ZOOKEEPER_DELETE,
};

struct zookeeper_request {
    enum zookeeper_verb verb;
    const char *path, *key, *owner; /* the full path */
};

enum zookeeper_result {
    ZOOKEEPER_LOST, /* no reply */
    ZOOKEEPER_DONE,
    ZOOKEEPER_NO_NODE, /* FIND_PLACE, QUEUE: the parent does not exist */
    ZOOKEEPER_NOT_DONE,
};

struct zookeeper_reply {
    enum zookeeper_result result;
    int64_t czxid;                  /* QUEUE: the node's */
    char name[ZOOKEEPER_NAME_SIZE]; /* QUEUE: of the node; FIND_PLACE: of the owner's node, "": it has none */
    char predecessor[ZOOKEEPER_NAME_SIZE]; /* FIND_PLACE: the node right before it; "": it is the first */
};

/* The requests in flight and the watches of one session. */
struct zookeeper_requests {
    const struct lock_env *env;
    char *servers;         /* for error texts */
    pthread_mutex_t mutex; /* of all below, and of the session; queueing a request does not block */
    zhandle_t *handle;     /* NULL: none */
    LIST_HEAD(zookeeper_calls, zookeeper_call) calls; /* in flight */
    LIST_HEAD(zookeeper_watches, zookeeper_watch) watches;
};

struct zookeeper_slot {
    struct zookeeper_call *call;
    struct zookeeper_watch *watch; /* of WATCH */
    bool answered;
    char owner[LOCK_OWNER_SIZE]; /* of FIND_PLACE */
    struct zookeeper_reply reply;
};

/* Requests that were sent together. Freed by the thread that waits for it, or with its last answer if no
 * thread does. */
struct zookeeper_call {
    LIST_ENTRY(zookeeper_call) in_flight;
    struct zookeeper_requests *requests;
    pthread_cond_t done;
    int open; /* requests without an answer */
    bool waited_for, no_memory;
    /* Called with the mutex held once all is answered; or NULL. */
    void (*on_answered)(const struct zookeeper_call *call, bool done);
    void *ctx;
    int64_t sent_ns;
    struct zookeeper_slot slots[ZOOKEEPER_REQUESTS_MAX];
};

/* All are called with the mutex held. NULL when out of memory; `count` requests must follow at once. */
struct zookeeper_call *zookeeper_call_new(struct zookeeper_requests *requests, int count);
void zookeeper_call_free(struct zookeeper_call *call);
/* Sends the requests in this order. The answers may come before it returns, and the last one frees a call
 * that no thread waits for. */
void zookeeper_call_send(struct zookeeper_call *call, const struct zookeeper_request *requests, int count);
/* The handle is closed: requests without an answer are lost, and the watches are gone. */
void zookeeper_requests_drop_all(struct zookeeper_requests *requests);

#endif
