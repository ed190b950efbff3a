/* A stream: a call with messages in both directions until one side ends it. Not for users. */
#ifndef LOCK_LIBETCD_TRANSPORT_STREAM_H
#define LOCK_LIBETCD_TRANSPORT_STREAM_H

#include "lock/libetcd/transport/status.h"
#include "lock/libetcd/transport/transport.h"
#include "lock/libetcd/wire/answer.h"

/* Both from the loop. */
struct etcd_stream_user {
    void (*on_message)(struct etcd_stream_user *user, struct etcd_answer *answer);
    /* The last call; the stream is freed after it. */
    void (*on_end)(struct etcd_stream_user *user, const struct etcd_verdict *verdict);
};

struct etcd_stream;

/* To the member at `endpoint`, which is connected. The caller keeps `metadata`. Does not block. NULL when out
 * of memory. */
struct etcd_stream *etcd_stream_open(struct etcd_transport *transport, int endpoint, const char *path,
                                     grpc_metadata *metadata, size_t metadata_count,
                                     struct etcd_stream_user *user);
/* Messages leave in the order of these calls. From any thread, until the stream has ended. */
void etcd_stream_send(struct etcd_stream *stream, const ProtobufCMessage *message);
/* The stream ends soon. From the same threads. */
void etcd_stream_cancel(struct etcd_stream *stream);

#endif
