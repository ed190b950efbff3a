/* The members as the client knows them: a channel to each, and which one is asked. Not for users. */
#ifndef LOCK_LIBETCD_ENDPOINTS_H
#define LOCK_LIBETCD_ENDPOINTS_H

#include <grpc/grpc.h>

#include "lock/libetcd/etcd.h"

enum { ETCD_ENDPOINTS_MAX = 16, ETCD_TARGET_SIZE = 272 };

struct etcd_endpoint {
    char target[ETCD_TARGET_SIZE];
    grpc_channel *channel;
    _Atomic int64_t shunned_until_ns; /* it did not answer: others are asked if there are any */
};

struct etcd_endpoints {
    size_t count;
    _Atomic size_t current; /* who was asked last; stays as long as it answers */
    struct etcd_endpoint each[ETCD_ENDPOINTS_MAX];
};

/* Of an etcd_config. Nothing is connected before someone is picked. On failure ETCD_CONFIG and `error`; to be
 * closed in any case. */
enum etcd_status etcd_endpoints_open(struct etcd_endpoints *endpoints, const struct etcd_config *config,
                                     char *error, size_t error_size);
void etcd_endpoints_close(struct etcd_endpoints *endpoints);

/* One that is connected, counted from 0; -1: none is, and all are being connected to. Does not block. */
int etcd_endpoints_pick(struct etcd_endpoints *endpoints);
/* The same for one alone. */
bool etcd_endpoint_is_ready(struct etcd_endpoint *endpoint);
/* It failed: another one is to be asked next; for some time, where it did not answer at all (`silent`). */
void etcd_endpoints_fail(struct etcd_endpoints *endpoints, int at, bool silent);
/* It did not answer lately, and there is another one. */
bool etcd_endpoints_shun(struct etcd_endpoints *endpoints, int at);

#endif
