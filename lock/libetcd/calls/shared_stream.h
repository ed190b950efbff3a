/* A shared stream: one stream of a client for all its watches, another one for all its keepalives. When it
 * breaks, it is opened again with another member. Not for users. */
#ifndef LOCK_LIBETCD_CALLS_SHARED_STREAM_H
#define LOCK_LIBETCD_CALLS_SHARED_STREAM_H

#include "lock/libetcd/calls/auth.h"
#include "lock/libetcd/transport/stream.h"

struct etcd_shared_stream;

/* What the stream carries. All from the loop, with the mutex held. */
struct etcd_shared_stream_kind {
    const char *path;
    bool (*is_wanted)(const struct etcd_shared_stream *shared);
    void (*on_open)(struct etcd_shared_stream *shared); /* nothing has been sent on it yet */
    void (*on_broken)(struct etcd_shared_stream *shared);
    /* May release the mutex meanwhile. */
    void (*on_message)(struct etcd_shared_stream *shared, struct etcd_answer *answer);
    /* Does what is due, and returns when to call it next. May be NULL. May release the mutex meanwhile. */
    int64_t (*tick)(struct etcd_shared_stream *shared, int64_t now_ns);
};

struct etcd_shared_stream {
    const struct etcd_shared_stream_kind *kind;
    struct etcd_transport *transport;
    struct etcd_auth *auth;
    struct etcd_ticker ticker;
    struct etcd_stream_user user;
    pthread_mutex_t mutex; /* for what follows, and for the data of the kind */
    pthread_cond_t gone;
    struct etcd_stream *stream; /* NULL: none */
    bool broken;                /* the stream is cancelled, and about to end */
    bool stopping;
    int endpoint;           /* of the stream */
    uint64_t token_number;  /* the token that the stream was opened with */
    uint64_t refused_token; /* not to be used again; 0: none */
    int64_t retry_ns;       /* open no stream before then */
    int64_t opened_ns;      /* when the stream, or the one before, was opened */
    int fails;              /* since a stream last held for a while */
};

void etcd_shared_stream_init(struct etcd_shared_stream *shared, struct etcd_transport *transport,
                             struct etcd_auth *auth, const struct etcd_shared_stream_kind *kind);
/* Ends the stream, and waits until it has ended. Not from the loop. */
void etcd_shared_stream_stop(struct etcd_shared_stream *shared);
void etcd_shared_stream_destroy(struct etcd_shared_stream *shared);

/* Leaves the stream, which must exist, for another one. With the mutex held. Of the old stream only
 * on_broken() follows. */
void etcd_shared_stream_break(struct etcd_shared_stream *shared);
/* With the mutex held: the stream that takes messages, or NULL. */
struct etcd_stream *etcd_shared_stream_get(const struct etcd_shared_stream *shared);

#endif
