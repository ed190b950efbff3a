/* Leases, but for keeping them alive: that is keep.c. */
#include <stdlib.h>

#include "lock/libetcd/client.h"
#include "lock/libetcd/message.h"

enum etcd_status etcd_lease_grant(struct etcd *etcd, int64_t ttl_s, int64_t id, const struct etcd_call *call,
                                  int64_t *granted_id, int64_t *granted_ttl_s) {
    static const struct etcd_method grant = {.path = "/etcdserverpb.Lease/LeaseGrant"};
    Pb__LeaseGrantRequest request = PB__LEASE_GRANT_REQUEST__INIT;
    request.ttl = ttl_s;
    request.id = id;
    struct etcd_answer answer;
    const Pb__LeaseGrantResponse *response;
    enum etcd_status status =
        etcd_rpc_unpack(etcd, &grant, -1, &request.base, call, &pb__lease_grant_response__descriptor, &answer,
                        (void **)&response);
    if (status != ETCD_OK)
        return status;
    if (granted_id)
        *granted_id = response->id;
    if (granted_ttl_s)
        *granted_ttl_s = response->ttl;
    etcd_answer_free(&answer);
    return ETCD_OK;
}

enum etcd_status etcd_lease_revoke(struct etcd *etcd, int64_t id, const struct etcd_call *call) {
    static const struct etcd_method revoke = {.path = "/etcdserverpb.Lease/LeaseRevoke"};
    Pb__LeaseRevokeRequest request = PB__LEASE_REVOKE_REQUEST__INIT;
    request.id = id;
    return etcd_rpc_unpack(etcd, &revoke, -1, &request.base, call, NULL, NULL, NULL);
}

/* What is given out, and the memory it points into. */
struct held {
    struct etcd_lease_info info; /* first */
    struct etcd_answer answer;
};

enum etcd_status etcd_lease_look(struct etcd *etcd, int64_t id, bool keys, const struct etcd_call *call,
                                 struct etcd_lease_info **info) {
    static const struct etcd_method look = {.path = "/etcdserverpb.Lease/LeaseTimeToLive", .reads = true};
    Pb__LeaseTimeToLiveRequest request = PB__LEASE_TIME_TO_LIVE_REQUEST__INIT;
    request.id = id;
    request.keys = keys;
    const Pb__LeaseTimeToLiveResponse *response;
    struct held *held = calloc(1, sizeof *held);
    if (!held)
        return ETCD_NOMEM;
    enum etcd_status status =
        etcd_rpc_unpack(etcd, &look, -1, &request.base, call, &pb__lease_time_to_live_response__descriptor,
                        &held->answer, (void **)&response);
    if (status != ETCD_OK) {
        free(held);
        return status;
    }
    /* Whole seconds, towards 0, so also of one that lives. -1 is no such lease, too. */
    status = response->ttl < 0 ? ETCD_NOT_FOUND : ETCD_OK;
    if (status == ETCD_NOT_FOUND)
        etcd_call_explain(call, "there is no such lease");
    held->info.keys = etcd_arena_array(&held->answer.arena, response->n_keys, sizeof *held->info.keys);
    if (status == ETCD_OK && !held->info.keys)
        status = ETCD_NOMEM;
    if (status != ETCD_OK) {
        etcd_lease_info_free(&held->info);
        return status;
    }
    /* A leader that is new and has not begun to count says three hundred years. */
    held->info.ttl_s = response->ttl < response->granted_ttl ? response->ttl : response->granted_ttl;
    held->info.granted_ttl_s = response->granted_ttl;
    held->info.key_count = response->n_keys;
    for (size_t i = 0; i < response->n_keys; i++)
        held->info.keys[i] = etcd_message_from_bytes(response->keys[i]);
    *info = &held->info;
    return ETCD_OK;
}

void etcd_lease_info_free(struct etcd_lease_info *info) {
    struct held *held = (struct held *)info;
    if (!held)
        return;
    etcd_answer_free(&held->answer);
    free(held);
}
