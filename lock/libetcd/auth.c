/* User and password: a token that is got once, sent with each call, and got anew when it is refused. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "etcd.pb-c.h"
#include "lock/libetcd/unary.h"

enum { PATIENCE_MS = 5000 };

static const struct etcd_method authenticate = {
    .path = "/etcdserverpb.Auth/Authenticate", .reads = true, .anonymous = true};

size_t etcd_auth_metadata(struct etcd *etcd, grpc_metadata *metadata, uint64_t *number) {
    pthread_mutex_lock(&etcd->mutex);
    size_t count = etcd->token ? 1 : 0;
    *number = etcd->token_number;
    if (count)
        *metadata = (grpc_metadata){.key = grpc_slice_from_static_string("token"),
                                    .value = grpc_slice_from_copied_string(etcd->token)};
    pthread_mutex_unlock(&etcd->mutex);
    return count;
}

static bool is_current(struct etcd *etcd, uint64_t number) {
    pthread_mutex_lock(&etcd->mutex);
    bool current = etcd->token_number == number;
    pthread_mutex_unlock(&etcd->mutex);
    return current;
}

static Pb__AuthenticateRequest make_request(struct etcd *etcd) {
    Pb__AuthenticateRequest request = PB__AUTHENTICATE_REQUEST__INIT;
    request.name = etcd->user;
    request.password = etcd->password;
    return request;
}

/* `token` NULL: none is needed. */
static bool store(struct etcd *etcd, const char *token) {
    char *copy = token ? strdup(token) : NULL;
    if (token && !copy)
        return false;
    pthread_mutex_lock(&etcd->mutex);
    free(etcd->token);
    etcd->token = copy;
    etcd->token_number++;
    pthread_mutex_unlock(&etcd->mutex);
    return true;
}

static enum etcd_status store_answer(struct etcd *etcd, struct etcd_answer *answer) {
    const Pb__AuthenticateResponse *response =
        etcd_answer_unpack(answer, &pb__authenticate_response__descriptor);
    return !response ? ETCD_FAILED : store(etcd, response->token) ? ETCD_OK : ETCD_NOMEM;
}

/* The server knows no users: then it wants no token. */
static bool is_off(enum etcd_status status, const char *text) {
    return status == ETCD_FAILED && strstr(text, "not enabled");
}

/* One login at a time, since it is slow for the server, and so that no older token comes after a newer one.
 * ETCD_OK and `*ours`: it is for this thread to get, and then to call end_login(). */
static enum etcd_status begin_login(struct etcd *etcd, uint64_t number, int64_t deadline_ns, bool *ours) {
    const struct timespec until = {.tv_sec = deadline_ns / 1000000000, .tv_nsec = deadline_ns % 1000000000};
    int over = 0;
    pthread_mutex_lock(&etcd->mutex);
    while (etcd->authenticating && etcd->token_number == number && !etcd->closing && over != ETIMEDOUT)
        over = pthread_cond_clockwait(&etcd->authenticated, &etcd->mutex, CLOCK_MONOTONIC, &until);
    *ours = !etcd->authenticating && etcd->token_number == number;
    enum etcd_status status = *ours || etcd->token_number != number ? ETCD_OK
                              : etcd->closing                       ? ETCD_CANCELLED
                                                                    : ETCD_TIMEOUT;
    if (*ours)
        etcd->authenticating = true;
    pthread_mutex_unlock(&etcd->mutex);
    return status;
}

static void end_login(struct etcd *etcd) {
    pthread_mutex_lock(&etcd->mutex);
    etcd->authenticating = false;
    pthread_cond_broadcast(&etcd->authenticated);
    pthread_mutex_unlock(&etcd->mutex);
    etcd_loop_wake(etcd->loop, etcd->endpoints.each[0].channel); /* before etcd_close() can go on */
}

static enum etcd_status login(struct etcd *etcd, int64_t deadline_ns, const struct etcd_call *call) {
    char error[ETCD_ERROR_SIZE] = "";
    const struct etcd_call asking = {.deadline_ns = deadline_ns, .error = error, .error_size = sizeof error};
    Pb__AuthenticateRequest request = make_request(etcd);
    struct etcd_answer answer;
    enum etcd_status status = etcd_rpc(etcd, &authenticate, -1, &request.base, &asking, &answer);
    if (is_off(status, error))
        return store(etcd, NULL) ? ETCD_OK : ETCD_NOMEM;
    if (status != ETCD_OK) {
        etcd_call_explain(call, error);
        return status;
    }
    status = store_answer(etcd, &answer);
    etcd_answer_free(&answer);
    return status;
}

enum etcd_status etcd_auth_renew(struct etcd *etcd, uint64_t number, int64_t deadline_ns,
                                 const struct etcd_call *call) {
    if (!etcd->user || !is_current(etcd, number))
        return ETCD_OK;
    bool ours = false;
    enum etcd_status status = begin_login(etcd, number, deadline_ns, &ours);
    if (ours) {
        status = login(etcd, deadline_ns, call);
        end_login(etcd);
    } else if (status == ETCD_TIMEOUT) {
        etcd_call_explain(call, "another thread waits for a token, too");
    }
    return status;
}

/* ---- from the loop ---- */

static void on_done(struct etcd_unary *unary) {
    struct etcd *etcd = unary->etcd;
    struct etcd_answer answer;
    struct etcd_verdict verdict = etcd_status_judge((int)unary->code, unary->text);
    if (is_off(verdict.status, unary->text)) {
        store(etcd, NULL);
    } else if (verdict.status == ETCD_OK && etcd_answer_read(&answer, unary->answer)) {
        store_answer(etcd, &answer);
        etcd_answer_free(&answer);
    }
    end_login(etcd);
    etcd_unary_free(unary);
    free(unary);
}

bool etcd_auth_poll(struct etcd *etcd, uint64_t number, int endpoint) {
    if (!etcd->user || !is_current(etcd, number))
        return true;
    pthread_mutex_lock(&etcd->mutex);
    bool begin = !etcd->authenticating;
    etcd->authenticating = true;
    pthread_mutex_unlock(&etcd->mutex);
    if (!begin)
        return false;
    struct etcd_unary *unary = calloc(1, sizeof *unary);
    if (!unary) {
        end_login(etcd);
        return false;
    }
    Pb__AuthenticateRequest request = make_request(etcd);
    grpc_slice packed = etcd_pack(&request.base);
    unary->on_done = on_done;
    if (!etcd_unary_start(unary, etcd, endpoint, authenticate.path, packed, NULL, 0,
                          etcd_loop_now_ns() + (int64_t)PATIENCE_MS * 1000000))
        free(unary);
    grpc_slice_unref(packed);
    return false;
}
