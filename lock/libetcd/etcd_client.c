/* Opens and closes a client, and asks the services of etcd that are not about keys, leases or watches: the
 * cluster, and v3lock. */
#include "lock/libetcd/etcd_client.h"

#include <grpc/support/log.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lock/libetcd/v3lock.h"

enum { TIMEOUT_MS = 5000, TIMEOUT_MAX_MS = 1000000000 };

const char *etcd_status_text(enum etcd_status status) {
    static const char *const texts[] = {
        [ETCD_OK] = "ok",
        [ETCD_UNKNOWN] = "unknown",
        [ETCD_UNAVAILABLE] = "unavailable",
        [ETCD_TIMEOUT] = "timed out",
        [ETCD_CANCELLED] = "cancelled",
        [ETCD_NOT_FOUND] = "not found",
        [ETCD_EXISTS] = "exists already",
        [ETCD_COMPACTED] = "compacted",
        [ETCD_FUTURE] = "in the future",
        [ETCD_DENIED] = "denied",
        [ETCD_INVALID] = "not valid",
        [ETCD_EXHAUSTED] = "exhausted",
        [ETCD_FAILED] = "failed",
        [ETCD_CONFIG] = "not a valid configuration",
        [ETCD_NOMEM] = "out of memory",
    };
    return (unsigned)status < ETCD_STATUSES ? texts[status] : "no status";
}

/* ---- open, close ---- */

/* gRPC logs every failed connection to standard error, which is wanted only if GRPC_VERBOSITY is set. */
static void client_silence_grpc(void) {
    if (!getenv("GRPC_VERBOSITY"))
        gpr_set_log_verbosity((gpr_log_severity)(GPR_LOG_SEVERITY_ERROR + 1));
}

/* Frees a client, also one that client_build() has left half built. */
static void client_free(struct etcd *etcd) {
    etcd_loop_stop(&etcd->loop);
    etcd_shared_stream_free(etcd->keepalives);
    etcd_shared_stream_free(etcd->watches);
    etcd_endpoints_close(&etcd->endpoints);
    etcd_loop_close(&etcd->loop);
    free(etcd->auth.token);
    free(etcd->auth.password);
    free(etcd->auth.user);
    pthread_cond_destroy(&etcd->auth.login_ended);
    pthread_mutex_destroy(&etcd->auth.mutex);
    free(etcd);
    grpc_shutdown_blocking();
}

static enum etcd_status client_build(struct etcd *etcd, const struct etcd_config *config, char *error,
                                     size_t error_size) {
    grpc_init();
    etcd_loop_open(&etcd->loop);
    pthread_mutex_init(&etcd->auth.mutex, NULL);
    pthread_cond_init(&etcd->auth.login_ended, NULL);
    if (!etcd_endpoints_open(&etcd->endpoints, config, error, error_size))
        return ETCD_CONFIG;
    etcd->loop.wake_channel = etcd->endpoints.each[0].channel;
    int64_t ms = config->timeout_ms <= 0 ? TIMEOUT_MS : config->timeout_ms;
    etcd->timeout_ns = (ms < TIMEOUT_MAX_MS ? ms : TIMEOUT_MAX_MS) * 1000000;
    etcd->on_error = config->on_error;
    etcd->ctx = config->ctx;
    if ((config->user && !(etcd->auth.user = strdup(config->user))) ||
        (config->password && !(etcd->auth.password = strdup(config->password))))
        return ETCD_NOMEM;
    etcd->keepalives = etcd_shared_stream_new(&etcd_keepalive_stream_kind, etcd);
    etcd->watches = etcd_shared_stream_new(&etcd_watch_stream_kind, etcd);
    return etcd->keepalives && etcd->watches && etcd_loop_start(&etcd->loop) ? ETCD_OK : ETCD_NOMEM;
}

enum etcd_status etcd_open(const struct etcd_config *config, struct etcd **etcd, char *error,
                           size_t error_size) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    if (!config->user != !config->password) {
        snprintf(error, error_size, "a user needs a password, and a password a user");
        return ETCD_CONFIG;
    }
    pthread_once(&once, client_silence_grpc);
    struct etcd *opened = calloc(1, sizeof *opened);
    /* gRPC's threads, and those that they start, inherit that this one takes no signals meanwhile. */
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    enum etcd_status status = opened ? client_build(opened, config, error, error_size) : ETCD_NOMEM;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (status == ETCD_OK) {
        *etcd = opened;
        return ETCD_OK;
    }
    if (status == ETCD_NOMEM)
        snprintf(error, error_size, "out of memory");
    if (opened)
        client_free(opened);
    return status;
}

void etcd_close(struct etcd *etcd) {
    if (!etcd)
        return;
    etcd_shared_stream_stop(etcd->keepalives);
    etcd_shared_stream_stop(etcd->watches);
    etcd_loop_cancel_calls(&etcd->loop);
    client_free(etcd);
}

/* ---- the cluster ---- */

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
    if (endpoint >= etcd->endpoints.count) {
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
    return etcd->endpoints.count;
}

/* ---- the lock service ---- */

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
