/* One call of one member, with one answer. Not for users. */
#ifndef LOCK_LIBETCD_UNARY_H
#define LOCK_LIBETCD_UNARY_H

#include "lock/libetcd/client.h"

struct etcd_unary {
    /* From the loop, when it has been answered or has failed: what is below is set. */
    void (*on_done)(struct etcd_unary *unary);
    grpc_status_code code;
    char text[ETCD_ERROR_SIZE];
    grpc_byte_buffer *answer; /* NULL: none */

    /* Of unary.c. */
    struct etcd_tag tag;
    struct etcd *etcd;
    struct etcd_unary *next;
    grpc_call *call;
    grpc_byte_buffer *request;
    grpc_metadata_array initial, trailing;
    grpc_slice details;
};

/* Begins it. The member at `endpoint` is connected; `request` is not kept. `on_done` is set, the rest is not.
 * False: the client closes, and nothing was begun. After on_done() etcd_unary_free() must be called. */
bool etcd_unary_start(struct etcd_unary *unary, struct etcd *etcd, int endpoint, const char *path,
                      grpc_slice request, grpc_metadata *metadata, size_t metadata_count,
                      int64_t deadline_ns);
void etcd_unary_free(struct etcd_unary *unary);

#endif
