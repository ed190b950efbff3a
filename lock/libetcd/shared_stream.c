/* A shared stream: opens it, sends and receives on it, and opens another one when it breaks. */
#include <grpc/byte_buffer.h>
#include <grpc/support/alloc.h>
#include <stdlib.h>

#include "lock/libetcd/etcd_client.h"

enum {
    CONNECT_POLL_MS = 5, /* while no member is connected */
    LOGIN_POLL_MS = 200,
    LOGIN_LIMIT_MS = 5000,
    PAUSE_MIN_MS = 20, /* between two streams that break at once; it doubles each time */
    PAUSE_DOUBLINGS = 5,
    STEADY_MS = 1000, /* a stream that held for so long was no failure */
};

struct etcd_shared_stream_message {
    STAILQ_ENTRY(etcd_shared_stream_message) next;
    grpc_byte_buffer *buffer;
};

#define SHARED_OF(part, member)                                                                              \
    ((struct etcd_shared_stream *)((char *)(part)-offsetof(struct etcd_shared_stream, member)))

static int64_t in_ms(int64_t now_ns, int ms) {
    return now_ns + (int64_t)ms * 1000000;
}

/* ---- with the mutex held ---- */

static void stream_start_batch(struct etcd_shared_stream *shared, const grpc_op *ops, size_t count,
                               struct etcd_tag *tag) {
    __tsan_release(tag);
    grpc_call_start_batch(shared->call, ops, count, tag, NULL);
}

static void stream_receive(struct etcd_shared_stream *shared) {
    const grpc_op next = {.op = GRPC_OP_RECV_MESSAGE, .data.recv_message.recv_message = &shared->incoming};
    stream_start_batch(shared, &next, 1, &shared->received);
}

/* No other message is in flight. */
static void stream_send_first(struct etcd_shared_stream *shared) {
    const grpc_op sending = {.op = GRPC_OP_SEND_MESSAGE,
                             .data.send_message.send_message = STAILQ_FIRST(&shared->unsent)->buffer};
    shared->pending++;
    stream_start_batch(shared, &sending, 1, &shared->sent);
}

static void stream_drop_first(struct etcd_shared_stream *shared) {
    struct etcd_shared_stream_message *message = STAILQ_FIRST(&shared->unsent);
    STAILQ_REMOVE_HEAD(&shared->unsent, next);
    grpc_byte_buffer_destroy(message->buffer);
    free(message);
}

/* Opens a stream if a member is connected and no login is needed. Returns when to try again; INT64_MAX: the
 * stream is open. */
static int64_t stream_open(struct etcd_shared_stream *shared, int64_t now_ns) {
    struct etcd *etcd = shared->etcd;
    if (now_ns < shared->retry_ns)
        return shared->retry_ns;
    int endpoint = etcd_endpoints_pick(&etcd->endpoints);
    if (endpoint < 0)
        return in_ms(now_ns, CONNECT_POLL_MS);
    if (etcd_auth_begin_login(etcd, shared->refused_token, endpoint, in_ms(now_ns, LOGIN_LIMIT_MS)))
        return in_ms(now_ns, LOGIN_POLL_MS); /* the end of the login wakes the loop before */
    grpc_metadata metadata[ETCD_METADATA_MAX];
    size_t count = etcd_auth_metadata(&etcd->auth, true, metadata, &shared->token_number);
    const grpc_op ops[] = {
        {.op = GRPC_OP_SEND_INITIAL_METADATA,
         .data.send_initial_metadata = {.count = count, .metadata = metadata}},
        {.op = GRPC_OP_RECV_INITIAL_METADATA,
         .data.recv_initial_metadata.recv_initial_metadata = &shared->initial},
        {.op = GRPC_OP_RECV_STATUS_ON_CLIENT,
         .data.recv_status_on_client = {.trailing_metadata = &shared->trailing,
                                        .status = &shared->code,
                                        .status_details = &shared->details}},
    };
    grpc_metadata_array_init(&shared->initial);
    grpc_metadata_array_init(&shared->trailing);
    shared->details = grpc_empty_slice();
    shared->endpoint = endpoint;
    shared->opened_ns = now_ns;
    shared->call = etcd_loop_new_call(&etcd->loop, etcd->endpoints.each[endpoint].channel, shared->kind->path,
                                      INT64_MAX);
    shared->broken = shared->over = false;
    shared->pending = 2; /* the whole call, and the first message to receive */
    stream_start_batch(shared, ops, sizeof ops / sizeof *ops, &shared->ended);
    stream_receive(shared);
    for (size_t i = 0; i < count; i++)
        grpc_slice_unref(metadata[i].value);
    shared->kind->on_open(shared);
    return INT64_MAX;
}

/* Frees the stream after its last batch, and decides when to open another one. */
static void stream_end(struct etcd_shared_stream *shared) {
    int64_t now_ns = clock_now_ns();
    /* The stream is still needed when a server ends it without an error. */
    int code = shared->code == GRPC_STATUS_OK ? GRPC_STATUS_UNAVAILABLE : (int)shared->code;
    char *text = grpc_slice_to_c_string(shared->details);
    struct etcd_verdict verdict = etcd_status_judge(code, text);
    gpr_free(text);
    while (!STAILQ_EMPTY(&shared->unsent))
        stream_drop_first(shared);
    grpc_call_unref(shared->call);
    shared->call = NULL;
    grpc_metadata_array_destroy(&shared->initial);
    grpc_metadata_array_destroy(&shared->trailing);
    grpc_slice_unref(shared->details);
    if (verdict.new_token)
        shared->refused_token = shared->token_number;
    etcd_endpoints_fail(&shared->etcd->endpoints, shared->endpoint, verdict.silent);
    /* The first retry is immediate. Messages alone do not make a stream good: a server may answer and hang
     * up, again and again. */
    if (now_ns >= in_ms(shared->opened_ns, STEADY_MS))
        shared->fails = 0;
    int doublings = shared->fails <= PAUSE_DOUBLINGS ? shared->fails - 1 : PAUSE_DOUBLINGS;
    shared->retry_ns = shared->fails == 0 ? now_ns : in_ms(now_ns, PAUSE_MIN_MS << doublings);
    shared->fails++;
    shared->ticker.next_ns = 0;
    shared->kind->on_broken(shared);
    pthread_cond_broadcast(&shared->changed);
}

/* A batch is done. With the last one the stream has ended. */
static void stream_settle(struct etcd_shared_stream *shared) {
    if (--shared->pending == 0)
        stream_end(shared);
}

/* ---- the loop calls these ---- */

static void stream_on_received(struct etcd_tag *tag, bool ok) {
    struct etcd_shared_stream *shared = SHARED_OF(tag, received);
    struct etcd_answer answer;
    bool goes_on = ok && etcd_answer_read(&answer, shared->incoming);
    grpc_byte_buffer_destroy(shared->incoming);
    shared->incoming = NULL;
    pthread_mutex_lock(&shared->mutex);
    if (goes_on) {
        if (!shared->broken && !shared->stopping)
            shared->kind->on_message(shared, &answer);
        etcd_answer_clear(&answer);
        stream_receive(shared);
    } else {
        stream_settle(shared); /* stream_on_ended() follows */
    }
    pthread_mutex_unlock(&shared->mutex);
}

static void stream_on_sent(struct etcd_tag *tag, bool ok) {
    struct etcd_shared_stream *shared = SHARED_OF(tag, sent);
    pthread_mutex_lock(&shared->mutex);
    stream_drop_first(shared);
    if (ok && !shared->over && !STAILQ_EMPTY(&shared->unsent))
        stream_send_first(shared);
    stream_settle(shared);
    pthread_mutex_unlock(&shared->mutex);
}

static void stream_on_ended(struct etcd_tag *tag, bool ok) {
    struct etcd_shared_stream *shared = SHARED_OF(tag, ended);
    (void)ok;
    pthread_mutex_lock(&shared->mutex);
    shared->over = true;
    stream_settle(shared);
    pthread_mutex_unlock(&shared->mutex);
}

static int64_t stream_tick(struct etcd_ticker *ticker, int64_t now_ns) {
    struct etcd_shared_stream *shared = SHARED_OF(ticker, ticker);
    int64_t next_ns = INT64_MAX, open_ns = INT64_MAX;
    pthread_mutex_lock(&shared->mutex);
    /* A member that left another call without an answer will not answer here either. */
    if (!shared->stopping && etcd_shared_stream_is_open(shared) &&
        etcd_endpoints_should_leave(&shared->etcd->endpoints, shared->endpoint))
        etcd_shared_stream_break(shared);
    if (!shared->stopping && !shared->call && shared->wanted > 0)
        open_ns = stream_open(shared, now_ns);
    if (!shared->stopping && shared->kind->tick)
        next_ns = shared->kind->tick(shared, now_ns);
    pthread_mutex_unlock(&shared->mutex);
    return open_ns < next_ns ? open_ns : next_ns;
}

/* ---- the interface ---- */

struct etcd_shared_stream *etcd_shared_stream_new(const struct etcd_shared_stream_kind *kind,
                                                  struct etcd *etcd) {
    struct etcd_shared_stream *shared = calloc(1, kind->size);
    if (!shared)
        return NULL;
    shared->kind = kind;
    shared->etcd = etcd;
    shared->ticker = (struct etcd_ticker){.tick = stream_tick, .next_ns = INT64_MAX};
    shared->received.done = stream_on_received;
    shared->ended.done = stream_on_ended;
    shared->sent.done = stream_on_sent;
    STAILQ_INIT(&shared->unsent);
    pthread_mutex_init(&shared->mutex, NULL);
    pthread_cond_init(&shared->changed, NULL);
    etcd_loop_add(&etcd->loop, &shared->ticker);
    return shared;
}

void etcd_shared_stream_stop(struct etcd_shared_stream *shared) {
    pthread_mutex_lock(&shared->mutex);
    shared->stopping = true;
    if (shared->call)
        grpc_call_cancel(shared->call, NULL);
    while (shared->call || shared->calling)
        pthread_cond_wait(&shared->changed, &shared->mutex);
    pthread_mutex_unlock(&shared->mutex);
}

void etcd_shared_stream_free(struct etcd_shared_stream *shared) {
    if (!shared)
        return;
    shared->kind->destroy(shared);
    pthread_cond_destroy(&shared->changed);
    pthread_mutex_destroy(&shared->mutex);
    free(shared);
}

bool etcd_shared_stream_is_open(const struct etcd_shared_stream *shared) {
    return shared->call && !shared->broken;
}

void etcd_shared_stream_send(struct etcd_shared_stream *shared, const ProtobufCMessage *message) {
    struct etcd_shared_stream_message *queued = calloc(1, sizeof *queued);
    if (!queued) {
        etcd_shared_stream_break(shared); /* the user must not take the message for sent */
        return;
    }
    grpc_slice packed = etcd_message_pack(message);
    queued->buffer = grpc_raw_byte_buffer_create(&packed, 1);
    grpc_slice_unref(packed);
    STAILQ_INSERT_TAIL(&shared->unsent, queued, next);
    if (STAILQ_FIRST(&shared->unsent) == queued && !shared->over)
        stream_send_first(shared);
}

void etcd_shared_stream_break(struct etcd_shared_stream *shared) {
    shared->broken = true;
    grpc_call_cancel(shared->call, NULL);
}

void etcd_shared_stream_enter_user(struct etcd_shared_stream *shared, const void *object) {
    shared->calling = object;
    pthread_mutex_unlock(&shared->mutex);
}

void etcd_shared_stream_leave_user(struct etcd_shared_stream *shared) {
    pthread_mutex_lock(&shared->mutex);
    shared->calling = NULL;
    pthread_cond_broadcast(&shared->changed);
}

void etcd_shared_stream_quiesce(struct etcd_shared_stream *shared, const void *object) {
    while (shared->calling == object && !pthread_equal(shared->etcd->loop.thread, pthread_self()))
        pthread_cond_wait(&shared->changed, &shared->mutex);
}
