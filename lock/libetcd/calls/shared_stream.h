/* A shared stream: one stream of a client for all its watches, another one for all its keepalives. When it
 * breaks, it is opened again with another member. Not for users. */
#ifndef LOCK_LIBETCD_CALLS_SHARED_STREAM_H
#define LOCK_LIBETCD_CALLS_SHARED_STREAM_H

#include "lock/libetcd/calls/auth.h"
#include "lock/libetcd/wire/answer.h"

struct etcd_shared_stream;

/* What the stream carries. All but destroy() from the loop, with the mutex held. */
struct etcd_shared_stream_kind {
    const char *path;
    size_t size; /* of the kind's struct, which begins with the shared stream */
    void (*on_open)(struct etcd_shared_stream *shared); /* nothing has been sent on it yet */
    void (*on_broken)(struct etcd_shared_stream *shared);
    /* May release the mutex meanwhile. */
    void (*on_message)(struct etcd_shared_stream *shared, struct etcd_answer *answer);
    /* Does what is due, and returns when to call it next. May be NULL. May release the mutex meanwhile. */
    int64_t (*tick)(struct etcd_shared_stream *shared, int64_t now_ns);
    void (*destroy)(struct etcd_shared_stream *shared); /* frees the data of the kind */
};

struct etcd_shared_stream {
    const struct etcd_shared_stream_kind *kind;
    struct etcd_auth *auth;
    struct etcd_transport *transport;
    struct etcd_ticker ticker;
    pthread_mutex_t mutex;  /* for what follows, and for the data of the kind */
    pthread_cond_t changed; /* the stream has ended, or a callback */
    const void *calling;    /* the object whose callback is running */
    size_t wanted;          /* objects that need the stream, counted by the kind */
    bool stopping;
    int endpoint;           /* of the stream */
    uint64_t token_number;  /* the token that the stream was opened with */
    uint64_t refused_token; /* not to be used again; 0: none */
    int64_t retry_ns;       /* open no stream before then */
    int64_t opened_ns;      /* when the stream, or the one before, was opened */
    int fails;              /* since a stream last held for a while */

    /* The stream. Private to shared_stream.c. */
    grpc_call *call;                       /* NULL: there is no stream */
    bool broken;                           /* it is cancelled, and about to end */
    bool over;                             /* the server has ended it: send nothing any more */
    int pending;                           /* batches in flight */
    struct etcd_tag received, ended, sent; /* at most one batch of each */
    grpc_metadata_array initial, trailing;
    grpc_byte_buffer *incoming;
    grpc_status_code code;
    grpc_slice details;
    struct etcd_shared_stream_message *first, **last; /* to be sent; the first one is in flight */
};

/* The kind's struct, zeroed but for its beginning. Adds its ticker to the loop. NULL when out of memory. */
struct etcd_shared_stream *etcd_shared_stream_new(const struct etcd_shared_stream_kind *kind,
                                                  struct etcd_auth *auth);
/* Ends the stream, and waits until it and the last callback have ended. Not from the loop. */
void etcd_shared_stream_stop(struct etcd_shared_stream *shared);
/* After the loop has ended. `shared` may be NULL. */
void etcd_shared_stream_free(struct etcd_shared_stream *shared);

/* ---- with the mutex held ---- */

/* There is a stream that takes messages. */
bool etcd_shared_stream_is_open(const struct etcd_shared_stream *shared);
/* There must be a stream. Messages leave in the order of these calls. */
void etcd_shared_stream_send(struct etcd_shared_stream *shared, const ProtobufCMessage *message);
/* Leaves the stream, which must exist, for another one. Of the old stream only on_broken() follows. */
void etcd_shared_stream_break(struct etcd_shared_stream *shared);

/* Around a callback to the user for `object`, from the loop: the first releases the mutex, the second locks
 * it again. */
void etcd_shared_stream_enter_user(struct etcd_shared_stream *shared, const void *object);
void etcd_shared_stream_leave_user(struct etcd_shared_stream *shared);
/* Waits until no callback for `object` is running; from the loop itself it returns at once. */
void etcd_shared_stream_quiesce(struct etcd_shared_stream *shared, const void *object);

#endif
