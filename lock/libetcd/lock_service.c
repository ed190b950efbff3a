/* The server's own lock service, v3lock. */
#include <stdlib.h>

#include "lock/libetcd/client.h"
#include "lock/libetcd/message.h"

/* What is given out, and the memory it points into. */
struct held {
    struct etcd_bytes key; /* first */
    struct etcd_answer answer;
};

enum etcd_status etcd_lock(struct etcd *etcd, struct etcd_bytes name, int64_t lease,
                           const struct etcd_call *call, struct etcd_bytes **key, int64_t *revision) {
    static const struct etcd_method lock = {.path = "/v3lockpb.Lock/Lock", .waits = true};
    Pb__LockRequest request = PB__LOCK_REQUEST__INIT;
    request.name = etcd_message_bytes(name);
    request.lease = lease;
    const Pb__LockResponse *response;
    struct held *held = calloc(1, sizeof *held);
    if (!held)
        return ETCD_NOMEM;
    enum etcd_status status =
        etcd_rpc_unpack(etcd, &lock, -1, &request.base, call, &pb__lock_response__descriptor, &held->answer,
                        (void **)&response);
    if (status != ETCD_OK) {
        free(held);
        return status;
    }
    held->key = etcd_message_from_bytes(response->key);
    *revision = response->header ? response->header->revision : 0;
    *key = &held->key;
    return ETCD_OK;
}

void etcd_lock_key_free(struct etcd_bytes *key) {
    struct held *held = (struct held *)key;
    if (!held)
        return;
    etcd_answer_free(&held->answer);
    free(held);
}

enum etcd_status etcd_unlock(struct etcd *etcd, struct etcd_bytes key, const struct etcd_call *call) {
    static const struct etcd_method unlock = {.path = "/v3lockpb.Lock/Unlock"};
    Pb__UnlockRequest request = PB__UNLOCK_REQUEST__INIT;
    request.key = etcd_message_bytes(key);
    return etcd_rpc_unpack(etcd, &unlock, -1, &request.base, call, NULL, NULL, NULL);
}
