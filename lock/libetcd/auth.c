/* Logins. One login is in flight at a time: it is slow for the server, and an older token must not replace a
 * newer one. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/waiter.h"
#include "lock/libetcd/etcd_client.h"

size_t etcd_auth_metadata(struct etcd_auth *auth, bool leader, grpc_metadata metadata[ETCD_METADATA_MAX],
                          uint64_t *number) {
    size_t count = 0;
    if (leader)
        metadata[count++] = (grpc_metadata){.key = grpc_slice_from_static_string("hasleader"),
                                            .value = grpc_slice_from_static_string("true")};
    pthread_mutex_lock(&auth->mutex);
    *number = auth->token_number;
    if (auth->token)
        metadata[count++] = (grpc_metadata){.key = grpc_slice_from_static_string("token"),
                                            .value = grpc_slice_from_copied_string(auth->token)};
    pthread_mutex_unlock(&auth->mutex);
    return count;
}

/* ---- with the mutex held ---- */

static bool auth_needs_login(const struct etcd_auth *auth, uint64_t refused) {
    return auth->user && auth->token_number == refused;
}

static enum etcd_status auth_store_token(struct etcd_auth *auth, char *token) {
    free(auth->token);
    auth->token = token;
    auth->token_number++;
    return ETCD_OK;
}

static enum etcd_status auth_read_answer(struct etcd_auth *auth, grpc_byte_buffer *buffer) {
    struct etcd_answer answer;
    if (!etcd_answer_read(&answer, buffer))
        return ETCD_FAILED;
    const Pb__AuthenticateResponse *response =
        etcd_answer_unpack(&answer, &pb__authenticate_response__descriptor);
    char *token = response ? strdup(response->token) : NULL;
    enum etcd_status status = !response ? ETCD_FAILED : !token ? ETCD_NOMEM : auth_store_token(auth, token);
    etcd_answer_clear(&answer);
    return status;
}

/* The loop calls it, without the mutex. */
static void auth_on_login(struct etcd_unary *unary) {
    struct etcd *etcd = (struct etcd *)((char *)unary - offsetof(struct etcd, auth.login));
    struct etcd_auth *auth = &etcd->auth;
    struct etcd_verdict verdict = unary->verdict;
    pthread_mutex_lock(&auth->mutex);
    bool fair = clock_now_ns() - auth->began_ns >= (int64_t)ETCD_FAIR_MS * 1000000;
    if (verdict.elsewhere)
        etcd_endpoints_fail(&etcd->endpoints, auth->endpoint, verdict.silent && fair);
    if (verdict.status == ETCD_FAILED && strstr(unary->text, "not enabled"))
        verdict.status = auth_store_token(auth, NULL); /* the server has no users, and needs no token */
    else if (verdict.status == ETCD_OK)
        verdict.status = auth_read_answer(auth, unary->answer);
    verdict.harmless = true;
    verdict.new_token = false;
    auth->verdict = verdict;
    snprintf(auth->error, sizeof auth->error, "%s",
             verdict.status == ETCD_FAILED && !*unary->text ? "the answer makes no sense" : unary->text);
    auth->logins++;
    auth->logging_in = false;
    pthread_cond_broadcast(&auth->login_ended);
    etcd_loop_wake(&etcd->loop); /* before etcd_unary_free() lets etcd_close() go on */
    etcd_unary_free(unary);
    pthread_mutex_unlock(&auth->mutex);
}

static void auth_start_login(struct etcd *etcd, int endpoint, int64_t deadline_ns) {
    struct etcd_auth *auth = &etcd->auth;
    Pb__AuthenticateRequest request = PB__AUTHENTICATE_REQUEST__INIT;
    request.name = auth->user;
    request.password = auth->password;
    grpc_slice packed = etcd_message_pack(&request.base);
    auth->logging_in = true;
    auth->endpoint = endpoint;
    auth->began_ns = clock_now_ns();
    auth->login = (struct etcd_unary){.on_done = auth_on_login};
    etcd_unary_prepare(&auth->login, &etcd->loop, etcd->endpoints.each[endpoint].channel,
                       "/etcdserverpb.Auth/Authenticate", packed, deadline_ns);
    __tsan_release(&auth->login.tag);
    grpc_call_start_batch(auth->login.call, auth->login.ops, ETCD_UNARY_OPS, &auth->login.tag, NULL);
    grpc_slice_unref(packed);
}

/* ---- logins ---- */

bool etcd_auth_begin_login(struct etcd *etcd, uint64_t refused, int endpoint, int64_t deadline_ns) {
    struct etcd_auth *auth = &etcd->auth;
    pthread_mutex_lock(&auth->mutex);
    bool needs = auth_needs_login(auth, refused);
    if (needs && !auth->logging_in)
        auth_start_login(etcd, endpoint, deadline_ns);
    pthread_mutex_unlock(&auth->mutex);
    return needs;
}

struct etcd_verdict etcd_auth_log_in(struct etcd *etcd, uint64_t refused, int endpoint, int64_t deadline_ns,
                                     int64_t wait_until_ns, char error[ETCD_ERROR_SIZE]) {
    struct etcd_auth *auth = &etcd->auth;
    struct etcd_verdict verdict = {.status = ETCD_OK};
    bool in_time = true;
    pthread_mutex_lock(&auth->mutex);
    const bool joins = auth->logging_in;
    const uint64_t logins = auth->logins;
    if (!joins && auth_needs_login(auth, refused))
        auth_start_login(etcd, endpoint, deadline_ns);
    while (auth_needs_login(auth, refused) && auth->logins == logins && in_time)
        in_time = cond_wait_until(&auth->login_ended, &auth->mutex, joins ? wait_until_ns : INT64_MAX);
    if (auth_needs_login(auth, refused)) {
        const bool ended = auth->logins != logins;
        verdict = ended ? auth->verdict : (struct etcd_verdict){ETCD_TIMEOUT, .harmless = true};
        verdict.silent = verdict.silent && !joins;
        snprintf(error, ETCD_ERROR_SIZE, "%s", ended ? auth->error : "another thread's login takes too long");
    }
    pthread_mutex_unlock(&auth->mutex);
    return verdict;
}
