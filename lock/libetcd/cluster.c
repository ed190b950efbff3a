/* The cluster: its members, and the state of one of them. */
#include <stdio.h>

#include "etcd.pb-c.h"
#include "lock/libetcd/client.h"

enum etcd_status etcd_member_list(struct etcd *etcd, const struct etcd_call *call,
                                  struct etcd_members **members) {
    static const struct etcd_method list = {.path = "/etcdserverpb.Cluster/MemberList",
                                            .response = &pb__member_list_response__descriptor,
                                            .result_size = sizeof(struct etcd_members),
                                            .reads = true,
                                            .leaderless = true};
    Pb__MemberListRequest request = PB__MEMBER_LIST_REQUEST__INIT;
    struct etcd_answer *answer;
    enum etcd_status status = etcd_rpc(etcd, &list, &request.base, call, &answer);
    if (status != ETCD_OK)
        return status;
    const Pb__MemberListResponse *response = answer->message;
    struct etcd_members *made = (void *)answer->result;
    made->members = etcd_arena_array(&answer->arena, response->n_members, sizeof *made->members);
    if (!made->members) {
        etcd_answer_free(answer);
        return ETCD_NOMEM;
    }
    for (; made->count < response->n_members; made->count++) {
        const Pb__Member *from = response->members[made->count];
        made->members[made->count] = (struct etcd_member){.id = from->id,
                                                          .name = from->name,
                                                          .peer_urls = (const char **)from->peer_urls,
                                                          .client_urls = (const char **)from->client_urls,
                                                          .peer_url_count = from->n_peer_urls,
                                                          .client_url_count = from->n_client_urls,
                                                          .is_learner = from->is_learner};
    }
    *members = made;
    return ETCD_OK;
}

void etcd_members_free(struct etcd_members *members) {
    etcd_answer_free_result(members);
}

enum etcd_status etcd_member_status(struct etcd *etcd, size_t endpoint, const struct etcd_call *call,
                                    struct etcd_member_status *out) {
    const struct etcd_method get_status = {.path = "/etcdserverpb.Maintenance/Status",
                                           .response = &pb__status_response__descriptor,
                                           .only_member = endpoint + 1,
                                           .reads = true,
                                           .leaderless = true};
    Pb__StatusRequest request = PB__STATUS_REQUEST__INIT;
    struct etcd_answer *answer;
    if (endpoint >= etcd->transport.endpoints.count) {
        etcd_call_explain(call, "there is no such endpoint");
        return ETCD_INVALID;
    }
    enum etcd_status status = etcd_rpc(etcd, &get_status, &request.base, call, &answer);
    if (status != ETCD_OK)
        return status;
    const Pb__StatusResponse *response = answer->message;
    *out = (struct etcd_member_status){.leader_id = response->leader,
                                       .raft_term = response->raft_term,
                                       .raft_index = response->raft_index,
                                       .raft_applied_index = response->raft_applied_index,
                                       .db_size = response->db_size,
                                       .db_size_in_use = response->db_size_in_use,
                                       .is_learner = response->is_learner};
    if (response->header) {
        out->member_id = response->header->member_id;
        out->revision = response->header->revision;
    }
    snprintf(out->version, sizeof out->version, "%s", response->version);
    etcd_answer_free(answer);
    return ETCD_OK;
}

size_t etcd_endpoint_count(const struct etcd *etcd) {
    return etcd->transport.endpoints.count;
}
