/* A shared stream: a client has one stream for all its watches, and another one for all its keepalives. When
 * a stream breaks, the client opens another one, at another member if it can. Not for users. */
#ifndef LOCK_LIBETCD_SHARED_STREAM_H
#define LOCK_LIBETCD_SHARED_STREAM_H

#include "lock/libetcd/etcd_client.h"

struct etcd_shared_stream;

/* What a stream carries. The loop calls all but destroy(), with the mutex held. */
struct etcd_shared_stream_kind {
    const char *path;
    size_t size; /* size of the kind's struct, which begins with the shared stream */
    void (*on_open)(struct etcd_shared_stream *shared); /* nothing has been sent on the stream yet */
    void (*on_broken)(struct etcd_shared_stream *shared);
    /* May release the mutex meanwhile. */
    void (*on_message)(struct etcd_shared_stream *shared, struct etcd_answer *answer);
    /* Does what is due, and returns when to call it next. May be NULL. May release the mutex meanwhile. */
    int64_t (*tick)(struct etcd_shared_stream *shared, int64_t now_ns);
    void (*destroy)(struct etcd_shared_stream *shared); /* frees the data of the kind */
};

extern const struct etcd_shared_stream_kind etcd_watch_stream_kind, etcd_keepalive_stream_kind;

struct etcd_shared_stream {
    const struct etcd_shared_stream_kind *kind;
    struct etcd *etcd;
    struct etcd_ticker ticker;
    pthread_mutex_t mutex;  /* protects what follows, and the data of the kind */
    pthread_cond_t changed; /* the stream, or a callback to the user, has ended */
    const void *calling;    /* the watch or keepalive whose callback is running */
    size_t wanted;          /* watches or keepalives that need the stream; the kind counts them */
    bool stopping;
    int endpoint;           /* of the stream */
    uint64_t token_number;  /* the token that the stream was opened with */
    uint64_t refused_token; /* not to be used again; 0: none */
    int64_t retry_ns;       /* open no stream before then */
    int64_t opened_ns;      /* when the newest stream was opened */
    int fails;              /* streams that have failed since one last held for a while */

    /* The stream. Private to shared_stream.c. */
    grpc_call *call;                       /* NULL: there is no stream */
    bool broken;                           /* it is cancelled, and about to end */
    bool over;                             /* the server has ended it: send nothing any more */
    int pending;                           /* batches in flight */
    struct etcd_tag received, ended, sent; /* at most one batch of each is in flight */
    grpc_metadata_array initial, trailing;
    grpc_byte_buffer *incoming;
    grpc_status_code code;
    grpc_slice details;
    struct etcd_shared_stream_message *first, **last; /* to be sent; the first one is in flight */
};

/* Returns the kind's struct, zeroed but for its beginning, and adds its ticker to the loop. NULL: out of
 * memory. */
struct etcd_shared_stream *etcd_shared_stream_new(const struct etcd_shared_stream_kind *kind,
                                                  struct etcd *etcd);
/* Ends the stream, and blocks until it and the last callback have ended. Not from the loop. */
void etcd_shared_stream_stop(struct etcd_shared_stream *shared);
/* After the loop has ended. NULL does nothing. */
void etcd_shared_stream_free(struct etcd_shared_stream *shared);

/* ---- with the mutex held ---- */

/* True: there is a stream that takes messages. */
bool etcd_shared_stream_is_open(const struct etcd_shared_stream *shared);
/* Sends a message on the stream, which must exist. Messages leave in the order of these calls. */
void etcd_shared_stream_send(struct etcd_shared_stream *shared, const ProtobufCMessage *message);
/* Leaves the stream, which must exist, for another one. The kind hears no more of the old stream but
 * on_broken(). */
void etcd_shared_stream_break(struct etcd_shared_stream *shared);

/* The loop calls these two before and after the user's callback for `object`, a watch or keepalive: the first
 * releases the mutex, the second locks it again. */
void etcd_shared_stream_enter_user(struct etcd_shared_stream *shared, const void *object);
void etcd_shared_stream_leave_user(struct etcd_shared_stream *shared);
/* Blocks until no callback for `object` is running. Called by the loop it returns at once. */
void etcd_shared_stream_quiesce(struct etcd_shared_stream *shared, const void *object);

#endif
