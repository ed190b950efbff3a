/* The endpoints of a client: a channel to each member, and the choice of one. Not for users. */
#ifndef LOCK_LIBETCD_TRANSPORT_ENDPOINTS_H
#define LOCK_LIBETCD_TRANSPORT_ENDPOINTS_H

#include <grpc/grpc.h>

#include "lock/libetcd/etcd.h"

enum {
    ETCD_ENDPOINTS_MAX = 16,
    ETCD_TARGET_SIZE = 272,
    ETCD_FAIR_MS = 300, /* a member that had less time to answer is not taken for silent */
};

struct etcd_endpoint {
    char target[ETCD_TARGET_SIZE];
    grpc_channel *channel;
    _Atomic int64_t shunned_until_ns; /* it did not answer: others are preferred */
};

struct etcd_endpoints {
    size_t count;
    _Atomic size_t current; /* the one in use; it stays as long as it answers */
    struct etcd_endpoint each[ETCD_ENDPOINTS_MAX];
};

/* Nothing connects before the first pick. False and `error`: the configuration is wrong. To be closed in any
 * case. */
bool etcd_endpoints_open(struct etcd_endpoints *endpoints, const struct etcd_config *config, char *error,
                         size_t error_size);
void etcd_endpoints_close(struct etcd_endpoints *endpoints);

/* A connected endpoint, counted from 0; -1: none is connected, and all of them are connecting. Does not
 * block.
 */
int etcd_endpoints_pick(struct etcd_endpoints *endpoints);
/* True: it is connected. False: it is connecting. */
bool etcd_endpoint_is_ready(struct etcd_endpoint *endpoint);
/* It failed: the next pick prefers another one. `silent`: it did not answer at all, and all picks of the next
 * seconds prefer others. */
void etcd_endpoints_fail(struct etcd_endpoints *endpoints, int at, bool silent);
/* It was silent lately, and another one is connected. */
bool etcd_endpoints_should_leave(struct etcd_endpoints *endpoints, int at);

#endif
