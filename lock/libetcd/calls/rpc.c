#include "lock/libetcd/calls/rpc.h"

#include <errno.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "lock/libetcd/client.h"

enum {
    CONNECT_POLL_MS = 2, /* while no member is connected */
    PAUSE_MS = 20,       /* after each member has failed once */
    LAST_MS = 3 * PAUSE_MS,
    GIVE_UP_POLL_MS = 10,
    REFUSED_TOKENS_MAX = 8,
};

void etcd_call_explain(const struct etcd_call *call, const char *text) {
    if (call && call->error)
        snprintf(call->error, call->error_size, "%s", text);
}

enum etcd_status etcd_rpc_unreadable(const struct etcd_method *method, const struct etcd_call *call) {
    etcd_call_explain(call, "the answer makes no sense");
    return method->reads ? ETCD_FAILED : ETCD_UNKNOWN;
}

/* ---- one attempt, at one member ---- */

struct attempt {
    struct etcd_unary unary;
    sem_t done; /* the waiting thread may free the attempt before sem_post() returns in the loop */
    /* Orders the loop's writes before the waiting thread's reads. The semaphore does too, but
     * ThreadSanitizer does not know sem_clockwait(). */
    _Atomic bool is_done;
};

static void on_done(struct etcd_unary *unary) {
    struct attempt *attempt = (struct attempt *)unary;
    atomic_store(&attempt->is_done, true);
    sem_post(&attempt->done);
}

static bool gives_up(const struct etcd_call *call) {
    return call->gives_up && call->gives_up(call->ctx);
}

/* When the caller gives up, the attempt is cancelled and ends soon. */
static void wait_for_end(struct attempt *attempt, const struct etcd_call *call) {
    bool polls = call->gives_up;
    for (bool done = false; !done;) {
        int64_t until_ns = etcd_loop_now_ns() + (int64_t)GIVE_UP_POLL_MS * 1000000;
        const struct timespec until = {.tv_sec = until_ns / 1000000000, .tv_nsec = until_ns % 1000000000};
        done =
            (polls ? sem_clockwait(&attempt->done, CLOCK_MONOTONIC, &until) : sem_wait(&attempt->done)) == 0;
        if (!done && polls && errno == ETIMEDOUT && gives_up(call)) {
            etcd_unary_cancel(&attempt->unary);
            polls = false;
        }
    }
    atomic_load(&attempt->is_done);
}

/* `token`: receives the number of the token that was sent; NULL: send none. */
static struct etcd_verdict attempt(struct etcd *etcd, const struct etcd_method *method, int endpoint,
                                   grpc_slice request, int64_t deadline_ns, uint64_t *token,
                                   const struct etcd_call *call, struct etcd_answer *answer) {
    grpc_metadata metadata[2];
    size_t count = etcd_auth_metadata(&etcd->auth, !method->leaderless, metadata, token);
    struct attempt attempt = {.unary = {.on_done = on_done}};
    sem_init(&attempt.done, 0, 0);
    etcd_unary_start(&attempt.unary, &etcd->transport, endpoint, method->path, request, metadata, count,
                     deadline_ns);
    wait_for_end(&attempt, call);
    struct etcd_verdict verdict = etcd_status_judge(attempt.unary.code, attempt.unary.text);
    etcd_call_explain(call, attempt.unary.text);
    if (verdict.status == ETCD_OK && !etcd_answer_read(answer, attempt.unary.answer)) {
        verdict = (struct etcd_verdict){.status = ETCD_FAILED};
        etcd_call_explain(call, "the answer is empty");
    }
    etcd_unary_free(&attempt.unary);
    etcd_auth_metadata_free(metadata, count);
    sem_destroy(&attempt.done);
    return verdict;
}

/* ---- until it is answered ---- */

static void pause_ms(int ms) {
    struct timespec time = {.tv_nsec = (long)ms * 1000000};
    clock_nanosleep(CLOCK_MONOTONIC, 0, &time, NULL);
}

/* Explains why a member is not connected. Only a call makes gRPC tell the reason, and it fails at once; if
 * the member is connected by now, the call changes nothing. */
static void explain_unreachable(struct etcd *etcd, int endpoint, const struct etcd_call *call) {
    static const struct etcd_method get_status = {
        .path = "/etcdserverpb.Maintenance/Status", .reads = true, .leaderless = true};
    char text[ETCD_ERROR_SIZE] = "", whole[ETCD_ERROR_SIZE + 32];
    const struct etcd_call inner = {.error = text, .error_size = sizeof text};
    struct etcd_answer answer;
    int64_t deadline_ns = etcd_loop_now_ns() + (int64_t)CONNECT_POLL_MS * 1000000;
    struct etcd_verdict verdict =
        attempt(etcd, &get_status, endpoint, grpc_empty_slice(), deadline_ns, NULL, &inner, &answer);
    if (verdict.status == ETCD_OK)
        etcd_answer_clear(&answer);
    bool known = verdict.status == ETCD_UNAVAILABLE && *text;
    snprintf(whole, sizeof whole, "no member can be reached%s%s", known ? ": " : "", known ? text : "");
    etcd_call_explain(call, whole);
}

/* One blocking call. */
struct course {
    struct etcd *etcd;
    const struct etcd_method *method;
    const struct etcd_call *call;
    int64_t deadline_ns;
    int endpoint; /* asked last; -1: no member was connected */
    bool repeats; /* may be asked again whatever happened before */
    bool unknown; /* an earlier attempt may have been done */
    size_t fails;
    uint64_t refused_token; /* 0: none */
    int refused_tokens;
    int64_t began_ns; /* the last attempt */
};

/* Waits until a member is connected. ETCD_OK and the endpoint; ETCD_UNAVAILABLE, ETCD_CANCELLED,
 * ETCD_TIMEOUT. */
static enum etcd_status find_member(struct course *course) {
    struct etcd_transport *transport = &course->etcd->transport;
    int only = (int)course->method->only_member - 1;
    for (;;) {
        if (only < 0)
            course->endpoint = etcd_endpoints_pick(&transport->endpoints);
        else
            course->endpoint = etcd_endpoint_is_ready(&transport->endpoints.each[only]) ? only : -1;
        if (course->endpoint >= 0)
            return ETCD_OK;
        if (atomic_load(&transport->closing))
            return ETCD_CANCELLED;
        if (gives_up(course->call))
            return ETCD_TIMEOUT;
        if (etcd_loop_now_ns() >= course->deadline_ns) {
            explain_unreachable(course->etcd,
                                only < 0 ? (int)atomic_load(&transport->endpoints.current) : only,
                                course->call);
            return ETCD_UNAVAILABLE;
        }
        pause_ms(CONNECT_POLL_MS);
    }
}

/* The deadline of one attempt. A call that may be repeated gives each member 1 s in the first round, then 2,
 * 4, …, but at most half of the time that is left, so that a member that hangs is not the last one. */
static int64_t attempt_deadline_ns(const struct course *course, bool repeats) {
    size_t members = course->etcd->transport.endpoints.count;
    int64_t left_ns = course->deadline_ns - course->began_ns;
    if (!repeats || members < 2 || left_ns <= 0)
        return course->deadline_ns;
    size_t rounds = course->fails / members;
    int64_t limit_ns = 1000000000L << (rounds < 10 ? rounds : 10);
    return course->began_ns + (left_ns / 2 < limit_ns ? left_ns / 2 : limit_ns);
}

/* After an attempt that failed. ETCD_OK: ask again; anything else ends the call. `waits`: the member may
 * rightly be silent until the deadline. */
static enum etcd_status go_on(struct course *course, const struct etcd_verdict *verdict, bool waits,
                              uint64_t token) {
    struct etcd_transport *transport = &course->etcd->transport;
    if (atomic_load(&transport->closing))
        return ETCD_CANCELLED;
    if (verdict->new_token && course->etcd->auth.user && course->refused_tokens++ < REFUSED_TOKENS_MAX) {
        course->refused_token = token;
        return ETCD_OK;
    }
    course->unknown = course->unknown || !verdict->harmless;
    if (gives_up(course->call))
        return ETCD_TIMEOUT;
    bool at_fault = !(verdict->silent && waits);
    bool stuck = verdict->silent && at_fault &&
                 etcd_loop_now_ns() - course->began_ns >= (int64_t)ETCD_FAIR_MS * 1000000;
    if (verdict->elsewhere && at_fault)
        etcd_endpoints_fail(&transport->endpoints, course->endpoint, stuck);
    if (stuck)
        etcd_transport_wake(transport); /* the streams leave the member too */
    int64_t left_ns = course->deadline_ns - etcd_loop_now_ns();
    if (!verdict->elsewhere || !(verdict->harmless || course->repeats) || left_ns <= 0)
        return verdict->status;
    if (++course->fails % transport->endpoints.count > 0)
        return ETCD_OK;
    /* If the earlier attempts did nothing, a write that begins in the last moments would only end unknown. */
    if (left_ns < (int64_t)LAST_MS * 1000000)
        return verdict->status;
    pause_ms(PAUSE_MS);
    return ETCD_OK;
}

/* The status of a call that an attempt with `status` ended. */
static enum etcd_status conclude(const struct course *course, enum etcd_status status) {
    static const char scheme[] = "dns:///";
    const struct etcd_method *method = course->method;
    const struct etcd *etcd = course->etcd;
    const struct etcd_endpoints *endpoints = &etcd->transport.endpoints;
    size_t at = course->endpoint >= 0 ? (size_t)course->endpoint : atomic_load(&endpoints->current);
    /* These say nothing about an earlier attempt. */
    bool vague = status == ETCD_UNAVAILABLE || status == ETCD_TIMEOUT || status == ETCD_DENIED ||
                 status == ETCD_EXHAUSTED || status == ETCD_FAILED;
    /* The member knows the deadline too, and its answer may come first. */
    bool waited = method->waits && etcd_loop_now_ns() + (int64_t)LAST_MS * 1000000 >= course->deadline_ns;
    bool at_fault = vague && !waited && !gives_up(course->call);
    if (at_fault && etcd->on_error)
        etcd->on_error(etcd->ctx, endpoints->each[at].target + sizeof scheme - 1,
                       status == ETCD_TIMEOUT ? "no answer came in time" : course->call->error);
    return course->unknown && !method->reads && vague ? ETCD_UNKNOWN : status;
}

static enum etcd_status run(struct course *course, grpc_slice request, struct etcd_answer *answer) {
    struct etcd *etcd = course->etcd;
    for (;;) {
        uint64_t token = 0;
        enum etcd_status status = find_member(course);
        if (status != ETCD_OK)
            return conclude(course, status);
        course->began_ns = etcd_loop_now_ns();
        struct etcd_verdict verdict =
            etcd_auth_log_in(&etcd->auth, course->refused_token, course->endpoint,
                             attempt_deadline_ns(course, true), course->deadline_ns, course->call->error);
        const bool asks = verdict.status == ETCD_OK;
        if (asks)
            verdict = attempt(etcd, course->method, course->endpoint, request,
                              attempt_deadline_ns(course, course->repeats), &token, course->call, answer);
        if (verdict.status == ETCD_OK)
            return ETCD_OK;
        status = go_on(course, &verdict, asks && course->method->waits, token);
        if (status != ETCD_OK)
            return conclude(course, status);
    }
}

static enum etcd_status unpack(const struct etcd_method *method, const struct etcd_call *call,
                               struct etcd_answer *made, struct etcd_answer **answer) {
    if (answer && (made->message = etcd_answer_unpack(made, method->response))) {
        *answer = made;
        return ETCD_OK;
    }
    etcd_answer_clear(made);
    return answer ? etcd_rpc_unreadable(method, call) : ETCD_OK;
}

enum etcd_status etcd_rpc(struct etcd *etcd, const struct etcd_method *method,
                          const ProtobufCMessage *request, const struct etcd_call *call,
                          struct etcd_answer **answer) {
    struct etcd_answer *made = calloc(1, sizeof *made + method->result_size);
    if (!made)
        return ETCD_NOMEM;
    etcd_transport_enter(&etcd->transport);
    grpc_slice packed = etcd_message_pack(request);
    if (call && call->on_read)
        call->on_read(call->ctx);
    char text[ETCD_ERROR_SIZE] = ""; /* the caller's text stays as it is if a later attempt succeeds */
    struct etcd_call inner = call ? *call : (struct etcd_call){0};
    inner.error = text;
    inner.error_size = sizeof text;
    struct course course = {.etcd = etcd,
                            .method = method,
                            .call = &inner,
                            .endpoint = -1,
                            .repeats = method->reads || inner.idempotent,
                            .deadline_ns = inner.deadline_ns ? inner.deadline_ns
                                                             : etcd_loop_now_ns() + etcd->timeout_ns};
    enum etcd_status status = run(&course, packed, made);
    if (status == ETCD_OK)
        status = unpack(method, call, made, answer);
    else
        etcd_call_explain(call, status == ETCD_CANCELLED ? "the client is being closed" : text);
    if (status != ETCD_OK || !answer)
        free(made);
    grpc_slice_unref(packed);
    etcd_transport_leave(&etcd->transport);
    return status;
}
