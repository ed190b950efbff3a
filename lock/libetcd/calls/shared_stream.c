#include "lock/libetcd/calls/shared_stream.h"

enum {
    CONNECT_POLL_MS = 5, /* while no member is connected */
    LOGIN_POLL_MS = 200,
    LOGIN_LIMIT_MS = 5000,
    PAUSE_MIN_MS = 20, /* between two streams that break at once, doubled each time */
    PAUSE_DOUBLINGS = 5,
    STEADY_MS = 1000, /* a stream that held for so long was no failure */
};

static int64_t in_ms(int64_t now_ns, int ms) {
    return now_ns + (int64_t)ms * 1000000;
}

static struct etcd_stream *start_stream(struct etcd_shared_stream *shared) {
    grpc_metadata metadata[2] = {
        {.key = grpc_slice_from_static_string("hasleader"), .value = grpc_slice_from_static_string("true")}};
    size_t tokens = etcd_auth_metadata(shared->auth, &metadata[1], &shared->token_number);
    struct etcd_stream *stream = etcd_stream_open(shared->transport, shared->endpoint, shared->kind->path,
                                                  metadata, 1 + tokens, &shared->user);
    if (tokens)
        grpc_slice_unref(metadata[1].value);
    return stream;
}

/* With the mutex held. Returns when to try again; INT64_MAX: the stream is open. */
static int64_t open_stream(struct etcd_shared_stream *shared, int64_t now_ns) {
    if (now_ns < shared->retry_ns)
        return shared->retry_ns;
    int endpoint = etcd_endpoints_pick(&shared->transport->endpoints);
    if (endpoint < 0)
        return in_ms(now_ns, CONNECT_POLL_MS);
    if (etcd_auth_begin_login(shared->auth, shared->refused_token, endpoint, in_ms(now_ns, LOGIN_LIMIT_MS)))
        return in_ms(now_ns, LOGIN_POLL_MS); /* the end of the login wakes the loop before */
    shared->endpoint = endpoint;
    shared->opened_ns = now_ns;
    shared->stream = start_stream(shared);
    if (!shared->stream)
        return in_ms(now_ns, PAUSE_MIN_MS);
    shared->kind->on_open(shared);
    return INT64_MAX;
}

static int64_t tick(struct etcd_ticker *ticker, int64_t now_ns) {
    struct etcd_shared_stream *shared =
        (struct etcd_shared_stream *)((char *)ticker - offsetof(struct etcd_shared_stream, ticker));
    int64_t next_ns = INT64_MAX, open_ns = INT64_MAX;
    pthread_mutex_lock(&shared->mutex);
    /* A member that left another call without an answer will not answer here either. */
    if (!shared->stopping && etcd_shared_stream_get(shared) &&
        etcd_endpoints_should_leave(&shared->transport->endpoints, shared->endpoint))
        etcd_shared_stream_break(shared);
    if (!shared->stopping && !shared->stream && shared->kind->is_wanted(shared))
        open_ns = open_stream(shared, now_ns);
    if (!shared->stopping && shared->kind->tick)
        next_ns = shared->kind->tick(shared, now_ns);
    pthread_mutex_unlock(&shared->mutex);
    return open_ns < next_ns ? open_ns : next_ns;
}

static struct etcd_shared_stream *shared_of(struct etcd_stream_user *user) {
    return (struct etcd_shared_stream *)((char *)user - offsetof(struct etcd_shared_stream, user));
}

static void on_message(struct etcd_stream_user *user, struct etcd_answer *answer) {
    struct etcd_shared_stream *shared = shared_of(user);
    pthread_mutex_lock(&shared->mutex);
    if (!shared->broken && !shared->stopping)
        shared->kind->on_message(shared, answer);
    pthread_mutex_unlock(&shared->mutex);
}

static void on_end(struct etcd_stream_user *user, const struct etcd_verdict *verdict) {
    struct etcd_shared_stream *shared = shared_of(user);
    int64_t now_ns = etcd_loop_now_ns();
    pthread_mutex_lock(&shared->mutex);
    if (verdict->new_token)
        shared->refused_token = shared->token_number;
    shared->stream = NULL;
    shared->broken = false;
    etcd_endpoints_fail(&shared->transport->endpoints, shared->endpoint, verdict->silent);
    /* The first retry is immediate. Messages alone do not make a stream good: a server may answer and hang
     * up, again and again. */
    if (now_ns >= in_ms(shared->opened_ns, STEADY_MS))
        shared->fails = 0;
    int doublings = shared->fails <= PAUSE_DOUBLINGS ? shared->fails - 1 : PAUSE_DOUBLINGS;
    shared->retry_ns = shared->fails == 0 ? now_ns : in_ms(now_ns, PAUSE_MIN_MS << doublings);
    shared->fails++;
    shared->ticker.next_ns = 0;
    shared->kind->on_broken(shared);
    pthread_cond_broadcast(&shared->gone);
    pthread_mutex_unlock(&shared->mutex);
}

void etcd_shared_stream_init(struct etcd_shared_stream *shared, struct etcd_transport *transport,
                             struct etcd_auth *auth, const struct etcd_shared_stream_kind *kind) {
    *shared = (struct etcd_shared_stream){.kind = kind,
                                          .transport = transport,
                                          .auth = auth,
                                          .ticker = {.tick = tick, .next_ns = INT64_MAX},
                                          .user = {.on_message = on_message, .on_end = on_end}};
    pthread_mutex_init(&shared->mutex, NULL);
    pthread_cond_init(&shared->gone, NULL);
    etcd_loop_add(transport->loop, &shared->ticker);
}

void etcd_shared_stream_stop(struct etcd_shared_stream *shared) {
    pthread_mutex_lock(&shared->mutex);
    shared->stopping = true;
    if (shared->stream)
        etcd_stream_cancel(shared->stream);
    while (shared->stream)
        pthread_cond_wait(&shared->gone, &shared->mutex);
    pthread_mutex_unlock(&shared->mutex);
}

void etcd_shared_stream_destroy(struct etcd_shared_stream *shared) {
    pthread_cond_destroy(&shared->gone);
    pthread_mutex_destroy(&shared->mutex);
}

void etcd_shared_stream_break(struct etcd_shared_stream *shared) {
    shared->broken = true;
    etcd_stream_cancel(shared->stream);
}

struct etcd_stream *etcd_shared_stream_get(const struct etcd_shared_stream *shared) {
    return shared->broken ? NULL : shared->stream;
}
