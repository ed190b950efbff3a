/* A blocking call of the cluster: it chooses members, repeats what may be repeated, and knows when the
 * outcome is unknown. Not for users. */
#ifndef LOCK_LIBETCD_CALLS_RPC_H
#define LOCK_LIBETCD_CALLS_RPC_H

#include "lock/libetcd/etcd.h"
#include "lock/libetcd/wire/answer.h"

struct etcd_method {
    const char *path;
    const ProtobufCMessageDescriptor *response;
    size_t result_size; /* room for a result in the answer */
    size_t only_member; /* its endpoint, counted from 1, and no other is asked; 0: any */
    bool reads;         /* changes nothing, so it may be asked again of any member */
    bool leaderless;    /* also answered by members that know no leader */
    bool waits;         /* may rightly take until the deadline: a silent member is not at fault */
};

/* Calls `method` with `request`, and blocks until the end. On ETCD_OK `*answer` has the message, and goes to
 * etcd_answer_free(); `answer` is NULL if it is not wanted. */
enum etcd_status etcd_rpc(struct etcd *etcd, const struct etcd_method *method,
                          const ProtobufCMessage *request, const struct etcd_call *call,
                          struct etcd_answer **answer);

/* Writes `text` into the call's `error`, if it has one. */
void etcd_call_explain(const struct etcd_call *call, const char *text);
/* The status of a call whose answer cannot be unpacked, or not for want of memory: ETCD_FAILED; of a write
 * ETCD_UNKNOWN, since the server may have done it. */
enum etcd_status etcd_rpc_unreadable(const struct etcd_method *method, const struct etcd_call *call);

#endif
