/* A blocking call: it finds a connected member, asks it, judges the answer, and asks again where that is
 * harmless. */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/waiter.h"
#include "lock/libetcd/etcd_client.h"

enum {
    CONNECT_POLL_MS = 2,    /* while no member is connected */
    PAUSE_MS = 20,          /* after each member has failed once */
    LAST_MS = 3 * PAUSE_MS, /* the last moments before the deadline */
    GIVE_UP_POLL_MS = 10,
    REFUSED_TOKENS_MAX = 8,
};

/* A call with all its attempts. */
struct rpc {
    struct etcd *etcd;
    const struct etcd_method *method;
    struct etcd_call call; /* a copy of the caller's options */
    int64_t deadline_ns;
    bool repeats; /* may be repeated whatever happened before */
    bool unknown; /* an earlier attempt may have been carried out */
    size_t fails;
    uint64_t refused_token; /* 0: none */
    int refused_tokens;
    struct etcd_answer *answer;

    /* The last attempt. */
    int endpoint; /* -1: no member was connected */
    int64_t began_ns;
    uint64_t token; /* the number of the token that it sent */
    struct etcd_unary unary;
    struct waiter done;         /* the loop wakes it */
    char text[ETCD_ERROR_SIZE]; /* why it failed; becomes the caller's `error` if the call fails */
};

void etcd_call_explain(const struct etcd_call *call, const char *text) {
    if (call && call->error)
        snprintf(call->error, call->error_size, "%s", text);
}

enum etcd_status etcd_rpc_unreadable(const struct etcd_method *method, const struct etcd_call *call) {
    etcd_call_explain(call, "the answer makes no sense");
    return method->reads ? ETCD_FAILED : ETCD_UNKNOWN;
}

static void rpc_pause_ms(int ms) {
    struct timespec time = {.tv_nsec = (long)ms * 1000000};
    clock_nanosleep(CLOCK_MONOTONIC, 0, &time, NULL);
}

static bool rpc_gives_up(const struct rpc *rpc) {
    return rpc->call.gives_up && rpc->call.gives_up(rpc->call.ctx);
}

/* ---- one attempt, at one member ---- */

static void rpc_on_done(struct etcd_unary *unary) {
    struct rpc *rpc = (struct rpc *)((char *)unary - offsetof(struct rpc, unary));
    waiter_wake(&rpc->done);
}

/* Waits for the attempt's end. `polls`: if the caller gives up, the attempt is cancelled, and ends soon. */
static struct etcd_verdict rpc_wait(struct rpc *rpc, bool polls) {
    while (waiter_wait(&rpc->done, polls ? clock_now_ns() + (int64_t)GIVE_UP_POLL_MS * 1000000 : INT64_MAX,
                       NULL) != WAITER_WOKEN) {
        if (polls && rpc_gives_up(rpc)) {
            grpc_call_cancel(rpc->unary.call, NULL);
            polls = false;
        }
    }
    snprintf(rpc->text, sizeof rpc->text, "%s", rpc->unary.text);
    return rpc->unary.verdict;
}

/* Explains why a member is not connected. Only a call makes gRPC tell the reason. The call fails at once; if
 * the member is connected by now, the call changes nothing. */
static void rpc_explain_unreachable(struct rpc *rpc, size_t endpoint) {
    rpc->unary = (struct etcd_unary){.on_done = rpc_on_done};
    etcd_unary_prepare(&rpc->unary, &rpc->etcd->loop, rpc->etcd->endpoints.each[endpoint].channel,
                       "/etcdserverpb.Maintenance/Status", grpc_empty_slice(),
                       clock_now_ns() + (int64_t)CONNECT_POLL_MS * 1000000);
    __tsan_release(&rpc->unary.tag);
    grpc_call_start_batch(rpc->unary.call, rpc->unary.ops, ETCD_UNARY_OPS, &rpc->unary.tag, NULL);
    bool known = rpc_wait(rpc, false).status == ETCD_UNAVAILABLE && *rpc->unary.text;
    snprintf(rpc->text, sizeof rpc->text, "no member can be reached%s%s", known ? ": " : "",
             known ? rpc->unary.text : "");
    etcd_unary_free(&rpc->unary);
}

/* Waits until a member is connected, and sets `endpoint`. ETCD_OK, ETCD_UNAVAILABLE, ETCD_CANCELLED,
 * ETCD_TIMEOUT. */
static enum etcd_status rpc_find_member(struct rpc *rpc) {
    struct etcd_endpoints *endpoints = &rpc->etcd->endpoints;
    int only = (int)rpc->method->only_member - 1;
    for (;;) {
        if (only < 0)
            rpc->endpoint = etcd_endpoints_pick(endpoints);
        else
            rpc->endpoint = etcd_endpoint_is_ready(&endpoints->each[only]) ? only : -1;
        if (rpc->endpoint >= 0)
            return ETCD_OK;
        if (atomic_load(&rpc->etcd->loop.closing))
            return ETCD_CANCELLED;
        if (rpc_gives_up(rpc))
            return ETCD_TIMEOUT;
        if (clock_now_ns() >= rpc->deadline_ns) {
            rpc_explain_unreachable(rpc, only < 0 ? atomic_load(&endpoints->current) : (size_t)only);
            return ETCD_UNAVAILABLE;
        }
        rpc_pause_ms(CONNECT_POLL_MS);
    }
}

/* The deadline of one attempt. A call that may be repeated gives each member 1 s in the first round, then 2,
 * 4, …, but at most half of the time that is left, so that a member that hangs is not the last one. */
static int64_t rpc_attempt_deadline_ns(const struct rpc *rpc, bool repeats) {
    size_t members = rpc->etcd->endpoints.count;
    int64_t left_ns = rpc->deadline_ns - rpc->began_ns;
    if (!repeats || members < 2 || left_ns <= 0)
        return rpc->deadline_ns;
    size_t rounds = rpc->fails / members;
    int64_t limit_ns = 1000000000L << (rounds < 10 ? rounds : 10);
    return rpc->began_ns + (left_ns / 2 < limit_ns ? left_ns / 2 : limit_ns);
}

/* Makes the attempt at `endpoint` ready to start. */
static void rpc_prepare(struct rpc *rpc, grpc_slice packed) {
    struct etcd_unary *unary = &rpc->unary;
    *unary = (struct etcd_unary){.on_done = rpc_on_done};
    unary->metadata_count =
        etcd_auth_metadata(&rpc->etcd->auth, !rpc->method->leaderless, unary->metadata, &rpc->token);
    etcd_unary_prepare(unary, &rpc->etcd->loop, rpc->etcd->endpoints.each[rpc->endpoint].channel,
                       rpc->method->path, packed, rpc_attempt_deadline_ns(rpc, rpc->repeats));
}

/* Waits for the attempt's end, and reads the answer. */
static struct etcd_verdict rpc_finish(struct rpc *rpc) {
    struct etcd_verdict verdict = rpc_wait(rpc, rpc->call.gives_up);
    if (verdict.status == ETCD_OK && !etcd_answer_read(rpc->answer, rpc->unary.answer)) {
        verdict = (struct etcd_verdict){.status = ETCD_FAILED};
        snprintf(rpc->text, sizeof rpc->text, "the answer is empty");
    }
    etcd_unary_free(&rpc->unary);
    return verdict;
}

/* ---- after an attempt ---- */

/* Decides after an attempt that failed. ETCD_OK: ask again; anything else ends the call. `waits`: the member
 * may rightly be silent until the deadline. */
static enum etcd_status rpc_go_on(struct rpc *rpc, const struct etcd_verdict *verdict, bool waits) {
    struct etcd *etcd = rpc->etcd;
    if (atomic_load(&etcd->loop.closing))
        return ETCD_CANCELLED;
    if (verdict->new_token && etcd->auth.user && rpc->refused_tokens++ < REFUSED_TOKENS_MAX) {
        rpc->refused_token = rpc->token;
        return ETCD_OK;
    }
    rpc->unknown = rpc->unknown || !verdict->harmless;
    if (rpc_gives_up(rpc))
        return ETCD_TIMEOUT;
    bool at_fault = !(verdict->silent && waits);
    bool stuck =
        verdict->silent && at_fault && clock_now_ns() - rpc->began_ns >= (int64_t)ETCD_FAIR_MS * 1000000;
    if (verdict->elsewhere && at_fault)
        etcd_endpoints_fail(&etcd->endpoints, rpc->endpoint, stuck);
    if (stuck)
        etcd_loop_wake(&etcd->loop); /* the streams leave the member too */
    int64_t left_ns = rpc->deadline_ns - clock_now_ns();
    if (!verdict->elsewhere || !(verdict->harmless || rpc->repeats) || left_ns <= 0)
        return verdict->status;
    if (++rpc->fails % etcd->endpoints.count > 0)
        return ETCD_OK;
    /* If the earlier attempts did nothing, a write that begins in the last moments would only end unknown. */
    if (left_ns < (int64_t)LAST_MS * 1000000)
        return verdict->status;
    rpc_pause_ms(PAUSE_MS);
    return ETCD_OK;
}

/* Returns the status of a call whose last attempt ended with `status`, and reports a member that is at fault
 * to the user. */
static enum etcd_status rpc_conclude(const struct rpc *rpc, enum etcd_status status) {
    const struct etcd *etcd = rpc->etcd;
    size_t at = rpc->endpoint >= 0 ? (size_t)rpc->endpoint : atomic_load(&etcd->endpoints.current);
    /* These statuses say nothing about an earlier attempt. */
    bool vague = status == ETCD_UNAVAILABLE || status == ETCD_TIMEOUT || status == ETCD_DENIED ||
                 status == ETCD_EXHAUSTED || status == ETCD_FAILED;
    /* The member knows the deadline too, and its answer may come first. */
    bool waited = rpc->method->waits && clock_now_ns() + (int64_t)LAST_MS * 1000000 >= rpc->deadline_ns;
    bool at_fault = vague && !waited && !rpc_gives_up(rpc);
    if (at_fault && etcd->on_error)
        etcd->on_error(etcd->ctx, etcd->endpoints.each[at].address,
                       status == ETCD_TIMEOUT ? "no answer came in time" : rpc->text);
    return rpc->unknown && !rpc->method->reads && vague ? ETCD_UNKNOWN : status;
}

/* Unpacks the answer for the caller, if it wants it. */
static enum etcd_status rpc_unpack(struct rpc *rpc, const struct etcd_call *call,
                                   struct etcd_answer **answer) {
    if (answer && (rpc->answer->message = etcd_answer_unpack(rpc->answer, rpc->method->response))) {
        *answer = rpc->answer;
        return ETCD_OK;
    }
    etcd_answer_clear(rpc->answer);
    return answer ? etcd_rpc_unreadable(rpc->method, call) : ETCD_OK;
}

/* ---- the call ---- */

enum etcd_status etcd_rpc(struct etcd *etcd, const struct etcd_method *method,
                          const ProtobufCMessage *request, const struct etcd_call *call,
                          struct etcd_answer **answer) {
    struct rpc rpc = {.etcd = etcd, .method = method, .endpoint = -1};
    enum etcd_status status;
    rpc.answer = calloc(1, sizeof *rpc.answer + method->result_size);
    if (!rpc.answer)
        return ETCD_NOMEM;
    pthread_mutex_lock(&etcd->loop.mutex);
    etcd->loop.blocked++;
    pthread_mutex_unlock(&etcd->loop.mutex);
    grpc_slice packed = etcd_message_pack(request);
    if (call && call->on_read)
        call->on_read(call->ctx);
    if (call)
        rpc.call = *call;
    rpc.repeats = method->reads || rpc.call.idempotent;
    rpc.deadline_ns = rpc.call.deadline_ns ? rpc.call.deadline_ns : clock_now_ns() + etcd->timeout_ns;
    waiter_init(&rpc.done);
    do {
        status = rpc_find_member(&rpc);
        if (status != ETCD_OK)
            break;
        rpc.token = 0;
        rpc.began_ns = clock_now_ns();
        struct etcd_verdict verdict =
            etcd_auth_log_in(etcd, rpc.refused_token, rpc.endpoint, rpc_attempt_deadline_ns(&rpc, true),
                             rpc.deadline_ns, rpc.text);
        const bool asks = verdict.status == ETCD_OK;
        if (asks) {
            rpc_prepare(&rpc, packed);
            __tsan_release(&rpc.unary.tag);
            grpc_call_start_batch(rpc.unary.call, rpc.unary.ops, ETCD_UNARY_OPS, &rpc.unary.tag, NULL);
            verdict = rpc_finish(&rpc);
        }
        if (verdict.status == ETCD_OK)
            break;
        status = rpc_go_on(&rpc, &verdict, asks && method->waits);
    } while (status == ETCD_OK);
    if (status == ETCD_OK) {
        status = rpc_unpack(&rpc, call, answer);
    } else {
        status = rpc_conclude(&rpc, status);
        /* The caller's text stays as it is if a later attempt succeeds. */
        etcd_call_explain(call, status == ETCD_CANCELLED ? "the client is being closed" : rpc.text);
    }
    if (status != ETCD_OK || !answer)
        free(rpc.answer);
    grpc_slice_unref(packed);
    waiter_destroy(&rpc.done);
    pthread_mutex_lock(&etcd->loop.mutex);
    if (--etcd->loop.blocked == 0)
        pthread_cond_broadcast(&etcd->loop.idle);
    pthread_mutex_unlock(&etcd->loop.mutex);
    return status;
}
