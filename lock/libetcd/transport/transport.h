/* What all calls of a client share: its loop, its members, and what is in flight. Not for users. */
#ifndef LOCK_LIBETCD_TRANSPORT_TRANSPORT_H
#define LOCK_LIBETCD_TRANSPORT_TRANSPORT_H

#include "lock/libetcd/transport/endpoints.h"
#include "lock/libetcd/transport/loop.h"

struct etcd_transport {
    struct etcd_loop loop;
    struct etcd_endpoints endpoints;
    _Atomic bool closing;
    pthread_mutex_t mutex;      /* for what follows, and to set `closing` */
    pthread_cond_t idle;        /* nothing is in flight, and no thread is blocked */
    struct etcd_unary *unaries; /* in flight */
    size_t blocked;             /* threads inside a blocking call */
};

/* The loop is not started yet. False and `error`: the configuration is wrong. To be closed in any case. */
bool etcd_transport_open(struct etcd_transport *transport, const struct etcd_config *config, char *error,
                         size_t error_size);
void etcd_transport_close(struct etcd_transport *transport);

/* Around a blocking call. */
void etcd_transport_enter(struct etcd_transport *transport);
void etcd_transport_leave(struct etcd_transport *transport);
/* All tickers run soon. From any thread. */
void etcd_transport_wake(struct etcd_transport *transport);
/* A call without operations yet, to the member at `endpoint`, which is connected. */
grpc_call *etcd_transport_call(struct etcd_transport *transport, int endpoint, const char *path,
                               int64_t deadline_ns);

#endif
