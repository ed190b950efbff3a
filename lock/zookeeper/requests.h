/* What the two files that know ZooKeeper's C client share: the session, and the requests in it. */
#ifndef LOCK_ZOOKEEPER_REQUESTS_H
#define LOCK_ZOOKEEPER_REQUESTS_H

#define THREADED /* which of its two libraries the header is for */
#include <zookeeper/zookeeper.h>

#include "lock/zookeeper/session.h"

enum { ZOOKEEPER_BEATS = 5 };

struct zookeeper_slot {
    struct zookeeper_call *call;
    struct zookeeper_watch *watch; /* of WATCH */
    bool answered;
    char owner[LOCK_OWNER_SIZE]; /* of PLACE */
    struct zookeeper_reply reply;
};

/* Requests that were sent together. Freed by who waits for it, or by its last answer if nobody does. */
struct zookeeper_call {
    struct zookeeper_call *newer, *older; /* of those that are not answered */
    struct zookeeper_session *session;
    pthread_cond_t done;
    int open; /* requests without an answer */
    bool waited_for, beats, no_memory;
    int64_t sent_ns; /* of a beat */
    struct zookeeper_slot slots[ZOOKEEPER_REQUESTS_MAX];
};

struct zookeeper_session {
    const struct lock_env *env;
    int64_t ttl_ms;
    char *servers;
    pthread_t thread;
    pthread_mutex_t mutex; /* of all below; requests are queued with it, which does not block */
    pthread_cond_t changed;
    bool stop, leave;
    zhandle_t *handle; /* made and closed by the thread alone; NULL: none */
    bool connected, over;
    bool born; /* has been connected: there is a session */
    bool beating;
    uint64_t number;
    int64_t give_up_ns;                /* CLOCK_MONOTONIC: if it is not connected before, it is made anew */
    int64_t timeout_ns;                /* T */
    int64_t heard_ns[ZOOKEEPER_BEATS]; /* when those that were answered were sent; the newest is the first */
    int64_t beat_at_ns;                /* CLOCK_MONOTONIC */
    struct zookeeper_call *calls;
    struct zookeeper_watch *watches;
};

/* All of these: with the mutex held. NULL when out of memory; `count` requests are to follow at once. */
struct zookeeper_call *zookeeper_call_new(struct zookeeper_session *session, int count);
void zookeeper_call_free(struct zookeeper_call *call);
/* In this order. The answers may come before this returns, and with the last one goes a call that nobody
 * waits for. */
void zookeeper_call_queue(struct zookeeper_call *call, const struct zookeeper_request *requests, int count);
/* When the handle is closed: what it has not answered is lost, and its watches are gone. */
void zookeeper_call_forget_all(struct zookeeper_session *session);
/* In zookeeper_session.c: a beat was answered, or lost. */
void zookeeper_session_end_beat(struct zookeeper_session *session, int64_t sent_ns, bool answered);

#endif
