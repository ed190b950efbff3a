/* Who the members are, and how they are. */
#include <stdio.h>
#include <stdlib.h>

#include "etcd.pb-c.h"
#include "lock/libetcd/client.h"

/* What is given out, and the memory it points into. */
struct held {
    struct etcd_members members; /* first */
    struct etcd_answer answer;
};

static void fill_member(struct etcd_member *member, const Pb__Member *from) {
    *member = (struct etcd_member){.id = from->id,
                                   .name = from->name,
                                   .peer_urls = (const char **)from->peer_urls,
                                   .client_urls = (const char **)from->client_urls,
                                   .peer_url_count = from->n_peer_urls,
                                   .client_url_count = from->n_client_urls,
                                   .is_learner = from->is_learner};
}

enum etcd_status etcd_member_list(struct etcd *etcd, const struct etcd_call *call,
                                  struct etcd_members **members) {
    static const struct etcd_method list = {
        .path = "/etcdserverpb.Cluster/MemberList", .reads = true, .leaderless = true};
    Pb__MemberListRequest request = PB__MEMBER_LIST_REQUEST__INIT;
    const Pb__MemberListResponse *response;
    struct held *held = calloc(1, sizeof *held);
    if (!held)
        return ETCD_NOMEM;
    enum etcd_status status =
        etcd_rpc_unpack(etcd, &list, -1, &request.base, call, &pb__member_list_response__descriptor,
                        &held->answer, (void **)&response);
    if (status != ETCD_OK) {
        free(held);
        return status;
    }
    held->members.members =
        etcd_arena_array(&held->answer.arena, response->n_members, sizeof *held->members.members);
    if (!held->members.members) {
        etcd_members_free(&held->members);
        return ETCD_NOMEM;
    }
    held->members.count = response->n_members;
    for (size_t i = 0; i < response->n_members; i++)
        fill_member(&held->members.members[i], response->members[i]);
    *members = &held->members;
    return ETCD_OK;
}

void etcd_members_free(struct etcd_members *members) {
    struct held *held = (struct held *)members;
    if (!held)
        return;
    etcd_answer_free(&held->answer);
    free(held);
}

enum etcd_status etcd_member_look(struct etcd *etcd, size_t endpoint, const struct etcd_call *call,
                                  struct etcd_member_status *out) {
    static const struct etcd_method look = {
        .path = "/etcdserverpb.Maintenance/Status", .reads = true, .leaderless = true};
    Pb__StatusRequest request = PB__STATUS_REQUEST__INIT;
    struct etcd_answer answer;
    const Pb__StatusResponse *response;
    if (endpoint >= etcd->endpoints.count) {
        etcd_call_explain(call, "there is no such endpoint");
        return ETCD_INVALID;
    }
    enum etcd_status status = etcd_rpc_unpack(etcd, &look, (int)endpoint, &request.base, call,
                                              &pb__status_response__descriptor, &answer, (void **)&response);
    if (status != ETCD_OK)
        return status;
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
    etcd_answer_free(&answer);
    return ETCD_OK;
}

size_t etcd_endpoint_count(const struct etcd *etcd) {
    return etcd->endpoints.count;
}
