#include "lock/libetcd/calls/auth.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "etcd.pb-c.h"
#include "lock/libetcd/wire/answer.h"

static bool copy(char **out, const char *text) {
    *out = text ? strdup(text) : NULL;
    return *out || !text;
}

bool etcd_auth_open(struct etcd_auth *auth, struct etcd_transport *transport, const char *user,
                    const char *password) {
    auth->transport = transport;
    pthread_mutex_init(&auth->mutex, NULL);
    pthread_cond_init(&auth->login_ended, NULL);
    return copy(&auth->user, user) && copy(&auth->password, password);
}

void etcd_auth_close(struct etcd_auth *auth) {
    free(auth->token);
    free(auth->password);
    free(auth->user);
    pthread_cond_destroy(&auth->login_ended);
    pthread_mutex_destroy(&auth->mutex);
}

size_t etcd_auth_metadata(struct etcd_auth *auth, bool leader, grpc_metadata metadata[2], uint64_t *number) {
    size_t count = 0;
    if (leader)
        metadata[count++] = (grpc_metadata){.key = grpc_slice_from_static_string("hasleader"),
                                            .value = grpc_slice_from_static_string("true")};
    if (!number)
        return count;
    pthread_mutex_lock(&auth->mutex);
    *number = auth->token_number;
    if (auth->token)
        metadata[count++] = (grpc_metadata){.key = grpc_slice_from_static_string("token"),
                                            .value = grpc_slice_from_copied_string(auth->token)};
    pthread_mutex_unlock(&auth->mutex);
    return count;
}

void etcd_auth_metadata_free(const grpc_metadata *metadata, size_t count) {
    for (size_t i = 0; i < count; i++)
        grpc_slice_unref(metadata[i].value);
}

/* ---- with the mutex held ---- */

static bool needs_login(const struct etcd_auth *auth, uint64_t refused) {
    return auth->user && auth->token_number == refused;
}

static enum etcd_status store_token(struct etcd_auth *auth, char *token) {
    free(auth->token);
    auth->token = token;
    auth->token_number++;
    return ETCD_OK;
}

static enum etcd_status store_answer(struct etcd_auth *auth, grpc_byte_buffer *buffer) {
    struct etcd_answer answer;
    if (!etcd_answer_read(&answer, buffer))
        return ETCD_FAILED;
    const Pb__AuthenticateResponse *response =
        etcd_answer_unpack(&answer, &pb__authenticate_response__descriptor);
    char *token = response ? strdup(response->token) : NULL;
    enum etcd_status status = !response ? ETCD_FAILED : !token ? ETCD_NOMEM : store_token(auth, token);
    etcd_answer_clear(&answer);
    return status;
}

static void on_done(struct etcd_unary *unary) {
    struct etcd_auth *auth = (struct etcd_auth *)((char *)unary - offsetof(struct etcd_auth, login));
    struct etcd_verdict verdict = etcd_status_judge((int)unary->code, unary->text);
    pthread_mutex_lock(&auth->mutex);
    bool fair = etcd_loop_now_ns() - auth->began_ns >= (int64_t)ETCD_FAIR_MS * 1000000;
    if (verdict.elsewhere)
        etcd_endpoints_fail(&auth->transport->endpoints, auth->endpoint, verdict.silent && fair);
    if (verdict.status == ETCD_FAILED && strstr(unary->text, "not enabled"))
        verdict.status = store_token(auth, NULL); /* the server has no users, and needs no token */
    else if (verdict.status == ETCD_OK)
        verdict.status = store_answer(auth, unary->answer);
    verdict.harmless = true;
    verdict.new_token = false;
    auth->verdict = verdict;
    snprintf(auth->error, sizeof auth->error, "%s",
             verdict.status == ETCD_FAILED && !*unary->text ? "the answer makes no sense" : unary->text);
    auth->logins++;
    auth->logging_in = false;
    pthread_cond_broadcast(&auth->login_ended);
    etcd_transport_wake(auth->transport); /* before etcd_unary_free() lets etcd_close() go on */
    etcd_unary_free(unary);
    pthread_mutex_unlock(&auth->mutex);
}

/* One login at a time: it is slow for the server, and an older token must not replace a newer one. */
static void begin_login(struct etcd_auth *auth, int endpoint, int64_t deadline_ns) {
    Pb__AuthenticateRequest request = PB__AUTHENTICATE_REQUEST__INIT;
    request.name = auth->user;
    request.password = auth->password;
    grpc_slice packed = etcd_message_pack(&request.base);
    auth->logging_in = true;
    auth->endpoint = endpoint;
    auth->began_ns = etcd_loop_now_ns();
    auth->login = (struct etcd_unary){.on_done = on_done};
    etcd_unary_start(&auth->login, auth->transport, endpoint, "/etcdserverpb.Auth/Authenticate", packed, NULL,
                     0, deadline_ns);
    grpc_slice_unref(packed);
}

/* ---- logins ---- */

bool etcd_auth_begin_login(struct etcd_auth *auth, uint64_t refused, int endpoint, int64_t deadline_ns) {
    pthread_mutex_lock(&auth->mutex);
    bool needs = needs_login(auth, refused);
    if (needs && !auth->logging_in)
        begin_login(auth, endpoint, deadline_ns);
    pthread_mutex_unlock(&auth->mutex);
    return needs;
}

struct etcd_verdict etcd_auth_log_in(struct etcd_auth *auth, uint64_t refused, int endpoint,
                                     int64_t deadline_ns, int64_t wait_until_ns,
                                     char error[ETCD_ERROR_SIZE]) {
    const struct timespec until = {.tv_sec = wait_until_ns / 1000000000,
                                   .tv_nsec = wait_until_ns % 1000000000};
    struct etcd_verdict verdict = {.status = ETCD_OK};
    int result = 0;
    pthread_mutex_lock(&auth->mutex);
    const bool joins = auth->logging_in;
    const uint64_t logins = auth->logins;
    if (!joins && needs_login(auth, refused))
        begin_login(auth, endpoint, deadline_ns);
    while (needs_login(auth, refused) && auth->logins == logins && result != ETIMEDOUT)
        result = joins ? pthread_cond_clockwait(&auth->login_ended, &auth->mutex, CLOCK_MONOTONIC, &until)
                       : pthread_cond_wait(&auth->login_ended, &auth->mutex);
    if (needs_login(auth, refused)) {
        const bool ended = auth->logins != logins;
        verdict = ended ? auth->verdict : (struct etcd_verdict){ETCD_TIMEOUT, .harmless = true};
        verdict.silent = verdict.silent && !joins;
        snprintf(error, ETCD_ERROR_SIZE, "%s", ended ? auth->error : "another thread's login takes too long");
    }
    pthread_mutex_unlock(&auth->mutex);
    return verdict;
}
