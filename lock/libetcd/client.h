/* A client: what a struct etcd consists of. Not for users. */
#ifndef LOCK_LIBETCD_CLIENT_H
#define LOCK_LIBETCD_CLIENT_H

#include "lock/libetcd/calls/rpc.h"

struct etcd {
    struct etcd_transport transport;
    struct etcd_auth auth;
    struct etcd_rpc rpc;
    struct etcd_watch_stream *watch_stream;
    struct etcd_keepalive_stream *keepalive_stream;
};

#endif
