#include "lock/libetcd/v3lock.h"

#include "lock/libetcd/etcd_client.h"

enum etcd_status etcd_lock(struct etcd *etcd, struct etcd_bytes name, int64_t lease,
                           const struct etcd_call *call, struct etcd_bytes **key, int64_t *revision) {
    static const struct etcd_method lock = {.path = "/v3lockpb.Lock/Lock",
                                            .response = &pb__lock_response__descriptor,
                                            .result_size = sizeof(struct etcd_bytes),
                                            .waits = true};
    Pb__LockRequest request = PB__LOCK_REQUEST__INIT;
    request.name = etcd_bytes_pack(name);
    request.lease = lease;
    struct etcd_answer *answer;
    enum etcd_status status = etcd_rpc(etcd, &lock, &request.base, call, &answer);
    if (status != ETCD_OK)
        return status;
    const Pb__LockResponse *response = answer->message;
    *key = (void *)answer->result;
    **key = etcd_bytes_unpack(response->key);
    *revision = response->header ? response->header->revision : 0;
    return ETCD_OK;
}

void etcd_lock_key_free(struct etcd_bytes *key) {
    etcd_answer_free_result(key);
}

enum etcd_status etcd_unlock(struct etcd *etcd, struct etcd_bytes key, const struct etcd_call *call) {
    static const struct etcd_method unlock = {.path = "/v3lockpb.Lock/Unlock"};
    Pb__UnlockRequest request = PB__UNLOCK_REQUEST__INIT;
    request.key = etcd_bytes_pack(key);
    return etcd_rpc(etcd, &unlock, &request.base, call, NULL);
}
