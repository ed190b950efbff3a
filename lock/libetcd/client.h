/* A client: what a struct etcd consists of. Not for users. */
#ifndef LOCK_LIBETCD_CLIENT_H
#define LOCK_LIBETCD_CLIENT_H

#include "lock/libetcd/calls/rpc.h"
#include "lock/libetcd/calls/shared_stream.h"

struct etcd {
    struct etcd_transport transport;
    struct etcd_auth auth;
    struct etcd_shared_stream *watches, *keepalives;
    int64_t timeout_ns;                                               /* of calls without a deadline */
    void (*on_error)(void *ctx, const char *member, const char *why); /* may be NULL */
    void *ctx;
};

/* Of watch.c and of keepalive.c. */
extern const struct etcd_shared_stream_kind etcd_watch_stream_kind, etcd_keepalive_stream_kind;

#endif
