/* A unary call: one request to one member, one answer. Not for users. */
#ifndef LOCK_LIBETCD_TRANSPORT_UNARY_H
#define LOCK_LIBETCD_TRANSPORT_UNARY_H

#include "lock/libetcd/transport/transport.h"

struct etcd_unary {
    /* From the loop, when the call has been answered or has failed. It can read the next three members, and
     * must call etcd_unary_free() or leave that to another thread. */
    void (*on_done)(struct etcd_unary *unary);
    grpc_status_code code;
    char *text;               /* what the server says of it */
    grpc_byte_buffer *answer; /* NULL: none */

    /* Private to unary.c. */
    struct etcd_tag tag;
    struct etcd_transport *transport;
    struct etcd_unary *next;
    grpc_call *call;
    grpc_byte_buffer *request;
    grpc_metadata_array initial, trailing;
    grpc_slice details;
};

/* Starts a call to the member at `endpoint`, which is connected. The caller has set `on_done` and zeroed the
 * rest, and keeps `request` and `metadata`. If the client closes, the call is cancelled at once. */
void etcd_unary_start(struct etcd_unary *unary, struct etcd_transport *transport, int endpoint,
                      const char *path, grpc_slice request, grpc_metadata *metadata, size_t metadata_count,
                      int64_t deadline_ns);
/* It ends soon, with on_done(). */
void etcd_unary_cancel(struct etcd_unary *unary);
void etcd_unary_free(struct etcd_unary *unary);

/* Cancels all calls, also those that begin from now on. Waits until none is in flight and no thread is
 * blocked. */
void etcd_unary_close_all(struct etcd_transport *transport);

#endif
