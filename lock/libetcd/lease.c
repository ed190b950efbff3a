/* Leases: grant, revoke, time to live. keepalive.c renews them. */
#include "etcd.pb-c.h"
#include "lock/libetcd/client.h"
#include "lock/libetcd/wire/key_range.h"

enum etcd_status etcd_lease_grant(struct etcd *etcd, int64_t ttl_s, int64_t id, const struct etcd_call *call,
                                  int64_t *granted_id, int64_t *granted_ttl_s) {
    static const struct etcd_method grant = {.path = "/etcdserverpb.Lease/LeaseGrant",
                                             .response = &pb__lease_grant_response__descriptor};
    Pb__LeaseGrantRequest request = PB__LEASE_GRANT_REQUEST__INIT;
    request.ttl = ttl_s;
    request.id = id;
    struct etcd_answer *answer;
    enum etcd_status status = etcd_rpc(etcd, &grant, &request.base, call, &answer);
    if (status != ETCD_OK)
        return status;
    const Pb__LeaseGrantResponse *response = answer->message;
    if (granted_id)
        *granted_id = response->id;
    if (granted_ttl_s)
        *granted_ttl_s = response->ttl;
    etcd_answer_free(answer);
    return ETCD_OK;
}

enum etcd_status etcd_lease_revoke(struct etcd *etcd, int64_t id, const struct etcd_call *call) {
    static const struct etcd_method revoke = {.path = "/etcdserverpb.Lease/LeaseRevoke"};
    Pb__LeaseRevokeRequest request = PB__LEASE_REVOKE_REQUEST__INIT;
    request.id = id;
    return etcd_rpc(etcd, &revoke, &request.base, call, NULL);
}

static enum etcd_status make_info(struct etcd_answer *answer, const struct etcd_call *call,
                                  struct etcd_lease_info **info) {
    const Pb__LeaseTimeToLiveResponse *response = answer->message;
    /* Whole seconds, rounded down: a live lease may have 0. A lease that does not exist has -1. */
    if (response->ttl < 0) {
        etcd_call_explain(call, "there is no such lease");
        return ETCD_NOT_FOUND;
    }
    struct etcd_lease_info *made = (void *)answer->result;
    made->keys = etcd_arena_array(&answer->arena, response->n_keys, sizeof *made->keys);
    if (!made->keys)
        return ETCD_NOMEM;
    for (; made->key_count < response->n_keys; made->key_count++)
        made->keys[made->key_count] = etcd_bytes_unpack(response->keys[made->key_count]);
    /* A new leader that has not begun to count yet answers three hundred years. */
    made->ttl_s = response->ttl < response->granted_ttl ? response->ttl : response->granted_ttl;
    made->granted_ttl_s = response->granted_ttl;
    *info = made;
    return ETCD_OK;
}

enum etcd_status etcd_lease_time_to_live(struct etcd *etcd, int64_t id, bool keys,
                                         const struct etcd_call *call, struct etcd_lease_info **info) {
    static const struct etcd_method time_to_live = {.path = "/etcdserverpb.Lease/LeaseTimeToLive",
                                                    .response = &pb__lease_time_to_live_response__descriptor,
                                                    .result_size = sizeof(struct etcd_lease_info),
                                                    .reads = true};
    Pb__LeaseTimeToLiveRequest request = PB__LEASE_TIME_TO_LIVE_REQUEST__INIT;
    request.id = id;
    request.keys = keys;
    struct etcd_answer *answer;
    enum etcd_status status = etcd_rpc(etcd, &time_to_live, &request.base, call, &answer);
    if (status != ETCD_OK)
        return status;
    status = make_info(answer, call, info);
    if (status != ETCD_OK)
        etcd_answer_free(answer);
    return status;
}

void etcd_lease_info_free(struct etcd_lease_info *info) {
    etcd_answer_free_result(info);
}
