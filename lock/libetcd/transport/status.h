/* What gRPC's status of a call means for its caller. Not for users. */
#ifndef LOCK_LIBETCD_TRANSPORT_STATUS_H
#define LOCK_LIBETCD_TRANSPORT_STATUS_H

#include "lock/libetcd/etcd.h"

struct etcd_verdict {
    enum etcd_status status;
    bool harmless;  /* the server did nothing */
    bool elsewhere; /* another member may succeed */
    bool silent;    /* the member did not answer at all */
    bool new_token; /* the call may succeed with another token */
};

/* Of gRPC's status code and its text. */
struct etcd_verdict etcd_status_judge(int code, const char *text);

#endif
