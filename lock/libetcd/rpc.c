/* A call until it is answered: which member is asked, what is asked again, and what is not known. */
#include <errno.h>
#include <grpc/byte_buffer.h>
#include <grpc/byte_buffer_reader.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "lock/libetcd/unary.h"

/* While no member is connected, or after each has failed once. */
enum { LOOK_MS = 2, PAUSE_MS = 20, LAST_MS = 3 * PAUSE_MS, TOKENS_MAX = 8 };

/* Between two questions whether the caller gives up. */
enum { GIVE_UP_MS = 10 };

/* A member that had less than this to answer has not shown that it is stuck. */
static const int64_t fair_ns = 300000000;

void etcd_call_explain(const struct etcd_call *call, const char *text) {
    if (call && call->error)
        snprintf(call->error, call->error_size, "%s", text);
}

enum etcd_status etcd_call_no_sense(const struct etcd_method *method, const struct etcd_call *call) {
    etcd_call_explain(call, "the answer makes no sense");
    return method->reads ? ETCD_FAILED : ETCD_UNKNOWN;
}

grpc_slice etcd_pack(const ProtobufCMessage *message) {
    grpc_slice slice = grpc_slice_malloc(protobuf_c_message_get_packed_size(message));
    protobuf_c_message_pack(message, GRPC_SLICE_START_PTR(slice));
    return slice;
}

/* ---- answers ---- */

bool etcd_answer_read(struct etcd_answer *answer, grpc_byte_buffer *buffer) {
    grpc_byte_buffer_reader reader;
    if (!buffer || !grpc_byte_buffer_reader_init(&reader, buffer))
        return false;
    answer->slice = grpc_byte_buffer_reader_readall(&reader);
    grpc_byte_buffer_reader_destroy(&reader);
    answer->data = GRPC_SLICE_START_PTR(answer->slice);
    answer->size = GRPC_SLICE_LENGTH(answer->slice);
    etcd_arena_init(&answer->arena);
    return true;
}

void *etcd_answer_unpack(struct etcd_answer *answer, const ProtobufCMessageDescriptor *descriptor) {
    return protobuf_c_message_unpack(descriptor, &answer->arena.allocator, answer->size, answer->data);
}

void etcd_answer_free(struct etcd_answer *answer) {
    etcd_arena_free(&answer->arena);
    grpc_slice_unref(answer->slice);
}

/* ---- one try ---- */

struct try {
    struct etcd_unary unary;
    sem_t done; /* the thread that waits may free it while the one that posts is not yet back */
    /* What is written before the post is read after it: the semaphore sees to that as well, but thread
     * sanitizers do not know sem_clockwait(). */
    _Atomic bool is_done;
};

static void on_done(struct etcd_unary *unary) {
    struct try *try = (struct try *)unary;
    atomic_store(&try->is_done, true);
    sem_post(&try->done);
}

static bool gives_up(const struct etcd_call *call) {
    return call->gives_up && call->gives_up(call->ctx);
}

/* Who gives up meanwhile cancels it, and then it ends soon. */
static void wait_for_end(struct try *try, const struct etcd_call *call) {
    bool asks = call->gives_up;
    for (bool done = false; !done;) {
        int64_t until_ns = etcd_loop_now_ns() + (int64_t)GIVE_UP_MS * 1000000;
        const struct timespec until = {.tv_sec = until_ns / 1000000000, .tv_nsec = until_ns % 1000000000};
        done = (asks ? sem_clockwait(&try->done, CLOCK_MONOTONIC, &until) : sem_wait(&try->done)) == 0;
        if (!done && asks && errno == ETIMEDOUT && gives_up(call)) {
            grpc_call_cancel(try->unary.call, NULL);
            asks = false;
        }
    }
    atomic_load(&try->is_done);
}

/* What one member says. */
static struct etcd_verdict ask(struct etcd *etcd, const struct etcd_method *method, int endpoint,
                               grpc_slice request, int64_t deadline_ns, uint64_t *token,
                               const struct etcd_call *call, struct etcd_answer *answer) {
    grpc_metadata metadata[2] = {
        {.key = grpc_slice_from_static_string("hasleader"), .value = grpc_slice_from_static_string("true")}};
    size_t leader = method->leaderless ? 0 : 1;
    size_t tokens = method->anonymous ? 0 : etcd_auth_metadata(etcd, &metadata[leader], token);
    struct try try = {.unary = {.on_done = on_done}};
    sem_init(&try.done, 0, 0);
    struct etcd_verdict verdict = {ETCD_CANCELLED, .harmless = true};
    if (!etcd_unary_start(&try.unary, etcd, endpoint, method->path, request, metadata, leader + tokens,
                          deadline_ns))
        goto free_try;
    wait_for_end(&try, call);
    verdict = etcd_status_judge(try.unary.code, try.unary.text);
    etcd_call_explain(call, try.unary.text);
    if (verdict.status == ETCD_OK && !etcd_answer_read(answer, try.unary.answer)) {
        verdict = (struct etcd_verdict){.status = ETCD_FAILED};
        etcd_call_explain(call, "the answer is empty");
    }
    etcd_unary_free(&try.unary);
free_try:
    if (tokens)
        grpc_slice_unref(metadata[leader].value);
    sem_destroy(&try.done);
    return verdict;
}

/* ---- until it is answered ---- */

static bool is_closing(struct etcd *etcd) {
    pthread_mutex_lock(&etcd->mutex);
    bool closing = etcd->closing;
    pthread_mutex_unlock(&etcd->mutex);
    return closing;
}

static void pause_ms(int ms) {
    struct timespec time = {.tv_nsec = (long)ms * 1000000};
    clock_nanosleep(CLOCK_MONOTONIC, 0, &time, NULL);
}

/* What gRPC says of a member that is not connected: a call of it fails at once, with the reason. Should it be
 * connected by now nothing is changed by it. */
static void explain_unreachable(struct etcd *etcd, int endpoint, const struct etcd_call *call) {
    static const struct etcd_method look = {
        .path = "/etcdserverpb.Maintenance/Status", .reads = true, .leaderless = true, .anonymous = true};
    char text[ETCD_ERROR_SIZE] = "", whole[ETCD_ERROR_SIZE + 32];
    const struct etcd_call asking = {.error = text, .error_size = sizeof text};
    struct etcd_answer answer;
    uint64_t token;
    if (endpoint < 0)
        endpoint = (int)atomic_load(&etcd->endpoints.current);
    struct etcd_verdict verdict =
        ask(etcd, &look, endpoint, grpc_empty_slice(), etcd_loop_now_ns() + (int64_t)LOOK_MS * 1000000,
            &token, &asking, &answer);
    if (verdict.status == ETCD_OK)
        etcd_answer_free(&answer);
    bool known = verdict.status == ETCD_UNAVAILABLE && *text;
    snprintf(whole, sizeof whole, "no member can be reached%s%s", known ? ": " : "", known ? text : "");
    etcd_call_explain(call, whole);
}

/* Waits until a member is connected. ETCD_OK and `*at`; ETCD_UNAVAILABLE, ETCD_CANCELLED. */
static enum etcd_status find_member(struct etcd *etcd, int endpoint, int64_t deadline_ns, int *at,
                                    const struct etcd_call *call) {
    for (;;) {
        if (endpoint < 0)
            *at = etcd_endpoints_pick(&etcd->endpoints);
        else
            *at = etcd_endpoint_is_ready(&etcd->endpoints.each[endpoint]) ? endpoint : -1;
        if (*at >= 0)
            return ETCD_OK;
        if (is_closing(etcd))
            return ETCD_CANCELLED;
        if (gives_up(call))
            return ETCD_TIMEOUT;
        if (etcd_loop_now_ns() >= deadline_ns) {
            explain_unreachable(etcd, endpoint, call);
            return ETCD_UNAVAILABLE;
        }
        pause_ms(LOOK_MS);
    }
}

struct course {
    bool repeats; /* may be asked again whatever came of it */
    bool waits;   /* as its method does */
    bool unknown; /* an earlier try may have been done */
    size_t fails;
    int tokens;       /* that were refused; what gets them wants none */
    int64_t began_ns; /* the last try */
    int64_t deadline_ns;
};

/* What repeats has a second for each member, then two, four, …, but half of the time that is left, so that
 * one that hangs is not the last. */
static int64_t try_until(const struct etcd *etcd, const struct course *course) {
    int64_t left_ns = course->deadline_ns - course->began_ns;
    if (!course->repeats || etcd->endpoints.count < 2 || left_ns <= 0)
        return course->deadline_ns;
    size_t rounds = course->fails / etcd->endpoints.count;
    int64_t patience_ns = 1000000000L << (rounds < 10 ? rounds : 10);
    return course->began_ns + (left_ns / 2 < patience_ns ? left_ns / 2 : patience_ns);
}

/* After a try that did not succeed: ETCD_OK, ask again; or how it ends. */
static enum etcd_status go_on(struct etcd *etcd, struct course *course, const struct etcd_verdict *verdict,
                              int at, uint64_t token, const struct etcd_call *call) {
    if (is_closing(etcd))
        return ETCD_CANCELLED;
    if (verdict->new_token && etcd->user && course->tokens++ < TOKENS_MAX)
        return etcd_auth_renew(etcd, token, course->deadline_ns, call);
    course->unknown = course->unknown || !verdict->harmless;
    if (gives_up(call))
        return ETCD_TIMEOUT;
    bool waited = verdict->silent && course->waits; /* which says nothing of the member */
    bool silent = verdict->silent && !waited && etcd_loop_now_ns() - course->began_ns >= fair_ns;
    if (verdict->elsewhere && !waited)
        etcd_endpoints_fail(&etcd->endpoints, at, silent);
    if (silent) /* streams leave it too */
        etcd_loop_wake(etcd->loop, etcd->endpoints.each[0].channel);
    int64_t left_ns = course->deadline_ns - etcd_loop_now_ns();
    if (!verdict->elsewhere || !(verdict->harmless || course->repeats) || left_ns <= 0)
        return verdict->status;
    if (++course->fails % etcd->endpoints.count > 0)
        return ETCD_OK;
    /* A write that is begun when the time is all but up ends unknown, where all the tries before did nothing.
     */
    if (left_ns < (int64_t)LAST_MS * 1000000)
        return verdict->status;
    pause_ms(PAUSE_MS);
    return ETCD_OK;
}

/* `at`: the member that was asked last; -1: none was connected. */
static void tell(const struct etcd *etcd, int at, const char *why) {
    static const char scheme[] = "dns:///";
    size_t which = at >= 0 ? (size_t)at : atomic_load(&etcd->endpoints.current);
    if (etcd->on_error)
        etcd->on_error(etcd->ctx, etcd->endpoints.each[which].target + sizeof scheme - 1, why);
}

static enum etcd_status ask_until(struct etcd *etcd, const struct etcd_method *method, int endpoint,
                                  grpc_slice request, const struct etcd_call *call,
                                  struct etcd_answer *answer) {
    struct course course = {.repeats = method->reads || call->idempotent,
                            .waits = method->waits,
                            .tokens = method->anonymous ? TOKENS_MAX : 0,
                            .deadline_ns = call->deadline_ns ? call->deadline_ns
                                                             : etcd_loop_now_ns() + etcd->timeout_ns};
    enum etcd_status status = ETCD_OK;
    int at = -1;
    while (status == ETCD_OK) {
        uint64_t token = 0;
        status = find_member(etcd, endpoint, course.deadline_ns, &at, call);
        if (status == ETCD_OK && !method->anonymous)
            status = etcd_auth_renew(etcd, 0, course.deadline_ns, call);
        if (status != ETCD_OK)
            break;
        course.began_ns = etcd_loop_now_ns();
        struct etcd_verdict verdict =
            ask(etcd, method, at, request, try_until(etcd, &course), &token, call, answer);
        if (verdict.status == ETCD_OK)
            return ETCD_OK;
        status = go_on(etcd, &course, &verdict, at, token, call);
    }
    /* What ended it says nothing of an earlier try. */
    bool vague = status == ETCD_UNAVAILABLE || status == ETCD_TIMEOUT || status == ETCD_DENIED ||
                 status == ETCD_EXHAUSTED || status == ETCD_FAILED;
    /* The member knows the deadline, too, and its word may come first. */
    bool waited = course.waits && etcd_loop_now_ns() + (int64_t)LAST_MS * 1000000 >= course.deadline_ns;
    if (vague && !waited && !gives_up(call)) /* those are no fault of the member */
        tell(etcd, at, status == ETCD_TIMEOUT ? "no answer came in time" : call->error);
    return course.unknown && !method->reads && vague ? ETCD_UNKNOWN : status;
}

enum etcd_status etcd_rpc(struct etcd *etcd, const struct etcd_method *method, int endpoint,
                          const ProtobufCMessage *request, const struct etcd_call *call,
                          struct etcd_answer *answer) {
    pthread_mutex_lock(&etcd->mutex);
    etcd->blocked++;
    pthread_mutex_unlock(&etcd->mutex);
    grpc_slice packed = etcd_pack(request);
    if (call && call->on_read)
        call->on_read(call->ctx);
    char text[ETCD_ERROR_SIZE] = ""; /* of the last try: the caller's stays as it is if one succeeds */
    struct etcd_call asking = call ? *call : (struct etcd_call){0};
    asking.error = text;
    asking.error_size = sizeof text;
    enum etcd_status status = ask_until(etcd, method, endpoint, packed, &asking, answer);
    if (status != ETCD_OK)
        etcd_call_explain(call, status == ETCD_CANCELLED ? "the client is being closed" : text);
    grpc_slice_unref(packed);
    pthread_mutex_lock(&etcd->mutex);
    if (--etcd->blocked == 0)
        pthread_cond_broadcast(&etcd->quiet);
    pthread_mutex_unlock(&etcd->mutex);
    return status;
}

enum etcd_status etcd_rpc_unpack(struct etcd *etcd, const struct etcd_method *method, int endpoint,
                                 const ProtobufCMessage *request, const struct etcd_call *call,
                                 const ProtobufCMessageDescriptor *descriptor, struct etcd_answer *answer,
                                 void **response) {
    struct etcd_answer unwanted;
    enum etcd_status status = etcd_rpc(etcd, method, endpoint, request, call, answer ? answer : &unwanted);
    if (status != ETCD_OK)
        return status;
    if (!answer) {
        etcd_answer_free(&unwanted);
        return ETCD_OK;
    }
    void *message = etcd_answer_unpack(answer, descriptor);
    if (!message) {
        etcd_answer_free(answer);
        return etcd_call_no_sense(method, call);
    }
    *response = message;
    return ETCD_OK;
}

void etcd_rpc_close(struct etcd *etcd) {
    pthread_mutex_lock(&etcd->mutex);
    etcd->closing = true;
    pthread_cond_broadcast(&etcd->authenticated);
    for (struct etcd_unary *unary = etcd->calls; unary; unary = unary->next)
        grpc_call_cancel(unary->call, NULL);
    while (etcd->blocked > 0 || etcd->calls)
        pthread_cond_wait(&etcd->quiet, &etcd->mutex);
    pthread_mutex_unlock(&etcd->mutex);
}
