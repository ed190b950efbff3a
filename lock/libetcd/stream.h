/* A call that goes on: messages both ways until one side ends it. Not for users. */
#ifndef LOCK_LIBETCD_STREAM_H
#define LOCK_LIBETCD_STREAM_H

#include "lock/libetcd/client.h"

/* Both from the loop. */
struct etcd_stream_user {
    void (*on_message)(struct etcd_stream_user *user, struct etcd_answer *answer);
    /* The last of it; the stream is freed then. */
    void (*on_end)(struct etcd_stream_user *user, const struct etcd_verdict *verdict, const char *text);
};

struct etcd_stream;

/* To the member at `endpoint`, which is connected. Does not block. NULL when out of memory. */
struct etcd_stream *etcd_stream_open(struct etcd *etcd, int endpoint, const char *path,
                                     struct etcd_stream_user *user);
/* Messages leave in the order of these calls. From any thread, as long as the stream has not ended. */
void etcd_stream_send(struct etcd_stream *stream, const ProtobufCMessage *message);
/* It ends soon. The same threads. */
void etcd_stream_cancel(struct etcd_stream *stream);

/* A token of which number is sent with it. */
uint64_t etcd_stream_token(const struct etcd_stream *stream);

#endif
