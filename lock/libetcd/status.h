/* What an answer of a server means. Not for users. */
#ifndef LOCK_LIBETCD_STATUS_H
#define LOCK_LIBETCD_STATUS_H

#include "lock/libetcd/etcd.h"

struct etcd_verdict {
    enum etcd_status status;
    bool harmless;  /* the server has surely done nothing */
    bool elsewhere; /* another member may do better */
    bool silent;    /* this one did not answer at all */
    bool new_token; /* so would another token */
};

/* Of gRPC's status code and the text with it. */
struct etcd_verdict etcd_status_judge(int code, const char *text);

#endif
