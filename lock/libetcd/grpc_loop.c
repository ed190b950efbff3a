/* The loop, which is the one thread of a client; unary calls; and what gRPC's statuses mean. */
#include <grpc/byte_buffer.h>
#include <grpc/status.h>
#include <grpc/support/alloc.h>
#include <grpc/support/time.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>

#include "base/waiter.h"
#include "lock/libetcd/etcd_client.h"

#ifdef __SANITIZE_THREAD__
void __tsan_acquire(void *tag);
#else
#define __tsan_acquire(tag) ((void)(tag))
#endif

/* ---- the thread ---- */

/* Runs the tickers that are due. Returns when the next one is due. */
static int64_t loop_tick(struct etcd_loop *loop) {
    int64_t now_ns = clock_now_ns(), next_ns = INT64_MAX;
    for (struct etcd_ticker *ticker = loop->tickers; ticker; ticker = ticker->next) {
        if (ticker->next_ns <= now_ns)
            ticker->next_ns = ticker->tick(ticker, now_ns);
        if (ticker->next_ns < next_ns)
            next_ns = ticker->next_ns;
    }
    return next_ns;
}

static void *loop_run(void *arg) {
    struct etcd_loop *loop = arg;
    for (;;) {
        int64_t next_ns = loop_tick(loop);
        grpc_event event =
            grpc_completion_queue_next(loop->queue, gpr_time_from_nanos(next_ns, GPR_CLOCK_MONOTONIC), NULL);
        if (event.type == GRPC_QUEUE_SHUTDOWN)
            return NULL;
        if (event.type == GRPC_OP_COMPLETE) {
            struct etcd_tag *tag = event.tag;
            __tsan_acquire(tag);
            tag->done(tag, event.success != 0);
        }
    }
}

static void loop_on_wake(struct etcd_tag *tag, bool ok) {
    struct etcd_loop *loop = (struct etcd_loop *)((char *)tag - offsetof(struct etcd_loop, wake));
    (void)ok;
    atomic_store(&loop->waking, false); /* before the tickers run, so that later changes wake them again */
    for (struct etcd_ticker *ticker = loop->tickers; ticker; ticker = ticker->next)
        ticker->next_ns = 0;
}

/* Only operations post to a completion queue. The wait for a channel's next state, with a deadline in the
 * past, is an operation that ends at once. */
void etcd_loop_wake(struct etcd_loop *loop) {
    if (atomic_exchange(&loop->waking, true))
        return;
    grpc_connectivity_state state = grpc_channel_check_connectivity_state(loop->wake_channel, 0);
    grpc_channel_watch_connectivity_state(loop->wake_channel, state, gpr_time_0(GPR_CLOCK_MONOTONIC),
                                          loop->queue, &loop->wake);
}

/* ---- its life ---- */

void etcd_loop_open(struct etcd_loop *loop) {
    *loop =
        (struct etcd_loop){.queue = grpc_completion_queue_create_for_next(NULL), .wake.done = loop_on_wake};
    pthread_mutex_init(&loop->mutex, NULL);
    pthread_cond_init(&loop->idle, NULL);
}

void etcd_loop_add(struct etcd_loop *loop, struct etcd_ticker *ticker) {
    ticker->next = loop->tickers;
    loop->tickers = ticker;
}

bool etcd_loop_start(struct etcd_loop *loop) {
    loop->started = thread_start(&loop->thread, loop_run, loop);
    return loop->started;
}

void etcd_loop_cancel_calls(struct etcd_loop *loop) {
    pthread_mutex_lock(&loop->mutex);
    atomic_store(&loop->closing, true);
    for (struct etcd_unary *unary = LIST_FIRST(&loop->unaries); unary; unary = LIST_NEXT(unary, in_flight))
        grpc_call_cancel(unary->call, NULL);
    while (loop->blocked > 0 || !LIST_EMPTY(&loop->unaries))
        pthread_cond_wait(&loop->idle, &loop->mutex);
    pthread_mutex_unlock(&loop->mutex);
}

void etcd_loop_stop(struct etcd_loop *loop) {
    grpc_completion_queue_shutdown(loop->queue);
    if (loop->started)
        pthread_join(loop->thread, NULL);
}

void etcd_loop_close(struct etcd_loop *loop) {
    grpc_completion_queue_destroy(loop->queue);
    pthread_cond_destroy(&loop->idle);
    pthread_mutex_destroy(&loop->mutex);
}

/* ---- statuses ---- */

/* The verdict on a call is that of the first entry that has its status code, and whose text is a part of the
 * status's text. The texts are etcd's own (rpctypes), the same since 3.0. */
static const struct {
    int code;
    const char *text;
    struct etcd_verdict verdict;
} known[] = {
    /* The server answers these before it does anything. */
    {GRPC_STATUS_UNAVAILABLE, "no leader", {ETCD_UNAVAILABLE, .harmless = true, .elsewhere = true}},
    {GRPC_STATUS_UNAVAILABLE, "not capable", {ETCD_UNAVAILABLE, .harmless = true, .elsewhere = true}},
    {GRPC_STATUS_UNAVAILABLE, "for learner", {ETCD_UNAVAILABLE, .harmless = true, .elsewhere = true}},
    {GRPC_STATUS_UNAUTHENTICATED, "", {ETCD_DENIED, .harmless = true, .new_token = true}},
    {GRPC_STATUS_INVALID_ARGUMENT,
     "revision of auth store",
     {ETCD_DENIED, .harmless = true, .new_token = true}},
    {GRPC_STATUS_INVALID_ARGUMENT, "authentication failed", {ETCD_DENIED, .harmless = true}},
    {GRPC_STATUS_INVALID_ARGUMENT, "user name is empty", {ETCD_DENIED, .harmless = true, .new_token = true}},
    {GRPC_STATUS_INVALID_ARGUMENT, "", {ETCD_INVALID, .harmless = true}},
    {GRPC_STATUS_PERMISSION_DENIED, "", {ETCD_DENIED, .harmless = true}},
    {GRPC_STATUS_NOT_FOUND, "", {ETCD_NOT_FOUND, .harmless = true}},
    {GRPC_STATUS_FAILED_PRECONDITION, "lease already exists", {ETCD_EXISTS, .harmless = true}},
    {GRPC_STATUS_FAILED_PRECONDITION, "", {ETCD_FAILED, .harmless = true}},
    {GRPC_STATUS_OUT_OF_RANGE, "compacted", {ETCD_COMPACTED, .harmless = true}},
    {GRPC_STATUS_OUT_OF_RANGE, "future revision", {ETCD_FUTURE, .harmless = true}},
    {GRPC_STATUS_OUT_OF_RANGE, "", {ETCD_INVALID, .harmless = true}},
    /* The server's gRPC refuses a request that is far too large; etcd itself refuses one that is a little too
     * large, as an invalid argument. */
    {GRPC_STATUS_RESOURCE_EXHAUSTED, "message larger than max", {ETCD_INVALID, .harmless = true}},
    {GRPC_STATUS_RESOURCE_EXHAUSTED, "", {ETCD_EXHAUSTED, .harmless = true}},
    /* The lock service drops the codes of the calls that it makes itself. */
    {GRPC_STATUS_UNKNOWN, "requested lease not found", {ETCD_NOT_FOUND, .harmless = true}},
    {GRPC_STATUS_UNKNOWN, "permission denied", {ETCD_DENIED, .harmless = true}},
    {GRPC_STATUS_UNIMPLEMENTED, "", {ETCD_FAILED, .harmless = true}},
    {GRPC_STATUS_DATA_LOSS, "", {ETCD_FAILED, .harmless = true}},
    {GRPC_STATUS_DEADLINE_EXCEEDED, "", {ETCD_TIMEOUT, .elsewhere = true, .silent = true}},
};

struct etcd_verdict etcd_status_judge(int code, const char *text) {
    if (code == GRPC_STATUS_OK)
        return (struct etcd_verdict){.status = ETCD_OK};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        if (known[i].code == code && strstr(text, known[i].text))
            return known[i].verdict;
    }
    /* Unavailable, or a connection error, which comes under several codes: the server may have done it. */
    return (struct etcd_verdict){ETCD_UNAVAILABLE, .elsewhere = true};
}

/* ---- calls ---- */

grpc_call *etcd_loop_new_call(struct etcd_loop *loop, grpc_channel *channel, const char *path,
                              int64_t deadline_ns) {
    return grpc_channel_create_call(channel, NULL, GRPC_PROPAGATE_DEFAULTS, loop->queue,
                                    grpc_slice_from_static_string(path), NULL,
                                    gpr_time_from_nanos(deadline_ns, GPR_CLOCK_MONOTONIC), NULL);
}

static void unary_on_batch(struct etcd_tag *tag, bool ok) {
    struct etcd_unary *unary = (struct etcd_unary *)((char *)tag - offsetof(struct etcd_unary, tag));
    (void)ok; /* a batch that receives the status cannot fail */
    unary->text = grpc_slice_to_c_string(unary->details);
    unary->verdict = etcd_status_judge((int)unary->code, unary->text);
    unary->on_done(unary);
}

void etcd_unary_prepare(struct etcd_unary *unary, struct etcd_loop *loop, grpc_channel *channel,
                        const char *path, grpc_slice request, int64_t deadline_ns) {
    unary->loop = loop;
    unary->tag.done = unary_on_batch;
    unary->details = grpc_empty_slice();
    grpc_metadata_array_init(&unary->initial);
    grpc_metadata_array_init(&unary->trailing);
    unary->request = grpc_raw_byte_buffer_create(&request, 1);
    unary->call = etcd_loop_new_call(loop, channel, path, deadline_ns);
    const grpc_op ops[ETCD_UNARY_OPS] = {
        {.op = GRPC_OP_SEND_INITIAL_METADATA,
         .data.send_initial_metadata = {.count = unary->metadata_count, .metadata = unary->metadata}},
        {.op = GRPC_OP_SEND_MESSAGE, .data.send_message.send_message = unary->request},
        {.op = GRPC_OP_SEND_CLOSE_FROM_CLIENT},
        {.op = GRPC_OP_RECV_INITIAL_METADATA,
         .data.recv_initial_metadata.recv_initial_metadata = &unary->initial},
        {.op = GRPC_OP_RECV_MESSAGE, .data.recv_message.recv_message = &unary->answer},
        {.op = GRPC_OP_RECV_STATUS_ON_CLIENT,
         .data.recv_status_on_client = {.trailing_metadata = &unary->trailing,
                                        .status = &unary->code,
                                        .status_details = &unary->details}},
    };
    memcpy(unary->ops, ops, sizeof ops);
    pthread_mutex_lock(&loop->mutex);
    LIST_INSERT_HEAD(&loop->unaries, unary, in_flight);
    pthread_mutex_unlock(&loop->mutex);
    /* etcd_loop_cancel_calls() may have missed this call. A call that is cancelled before it is started ends
     * as soon as it is. */
    if (atomic_load(&loop->closing))
        grpc_call_cancel(unary->call, NULL);
}

void etcd_unary_free(struct etcd_unary *unary) {
    struct etcd_loop *loop = unary->loop;
    pthread_mutex_lock(&loop->mutex);
    LIST_REMOVE(unary, in_flight);
    if (LIST_EMPTY(&loop->unaries))
        pthread_cond_broadcast(&loop->idle);
    pthread_mutex_unlock(&loop->mutex);
    grpc_call_unref(unary->call);
    grpc_byte_buffer_destroy(unary->request);
    grpc_byte_buffer_destroy(unary->answer);
    grpc_metadata_array_destroy(&unary->initial);
    grpc_metadata_array_destroy(&unary->trailing);
    grpc_slice_unref(unary->details);
    for (size_t i = 0; i < unary->metadata_count; i++)
        grpc_slice_unref(unary->metadata[i].value);
    gpr_free(unary->text);
}
