/* A stream that many share, and that is opened again with another member whenever it breaks. Not for users.
 */
#ifndef LOCK_LIBETCD_HUB_H
#define LOCK_LIBETCD_HUB_H

#include "lock/libetcd/stream.h"

struct etcd_hub;

/* What it carries. All from the loop, with the mutex held unless said. */
struct etcd_hub_kind {
    const char *path;
    bool (*is_wanted)(const struct etcd_hub *hub);
    void (*on_open)(struct etcd_hub *hub); /* nothing has been sent on it yet */
    void (*on_broken)(struct etcd_hub *hub);
    void (*on_message)(struct etcd_hub *hub, struct etcd_answer *answer); /* the mutex is not held */
    /* What is due; returns when something is again. May give the mutex up meanwhile. */
    int64_t (*tick)(struct etcd_hub *hub, int64_t now_ns);
};

struct etcd_hub {
    const struct etcd_hub_kind *kind;
    struct etcd *etcd;
    struct etcd_ticker ticker;
    struct etcd_stream_user user;
    pthread_mutex_t mutex; /* for what follows, and for what belongs to the kind */
    pthread_cond_t gone;
    struct etcd_stream *stream; /* NULL: none */
    bool broken;                /* the stream has been given up, and is about to end */
    bool stopping;
    int endpoint;           /* the stream's */
    uint64_t refused_token; /* not to be sent again; 0: none was */
    int64_t retry_ns;       /* no stream is opened before */
    int64_t opened_ns;      /* the stream, or the one before */
    int fails;              /* since one last held for a while */
};

void etcd_hub_init(struct etcd_hub *hub, struct etcd *etcd, const struct etcd_hub_kind *kind);
/* Ends the stream, and waits until it has. Not from the loop. */
void etcd_hub_stop(struct etcd_hub *hub);
void etcd_hub_destroy(struct etcd_hub *hub);

/* Gives the stream up; another one is opened. With the mutex held, and a stream. Nothing comes from it any
 * more, but on_broken(). */
void etcd_hub_break(struct etcd_hub *hub);
/* With the mutex: a stream that can be sent to, or NULL. */
struct etcd_stream *etcd_hub_stream(const struct etcd_hub *hub);

/* There is something to do for it. From any thread, with or without the mutex. */
void etcd_hub_wake(struct etcd_hub *hub);

#endif
