#include "loadtest/http/connection_pool.h"

#include <stdlib.h>
#include <uv.h>

#include "loadtest/http/retry_backoff.h"

#define TICK_MS     5
#define KEEPALIVE_S 60 /* TCP keep-alive: probes a peer that was silent for so long */

enum socket_state { SOCKET_DOWN, SOCKET_CONNECTING, SOCKET_IDLE, SOCKET_BUSY, SOCKET_CLOSING };

enum job_state {
    JOB_NONE, /* no more jobs for this connection */
    JOB_RUNNING,
    JOB_WAITING, /* until wake_ns: for the next attempt, or, with tries 0, for the next job */
};

/* One socket, and the job that it works on. */
struct connection {
    char request[POOL_REQUEST_SIZE];
    struct response response;
    struct connection_pool *pool;

    uv_tcp_t tcp;
    uv_connect_t connecting;
    uv_write_t writing;
    enum socket_state socket;
    const struct target *peer; /* the socket is connected to it, or connecting */
    size_t request_length;
    uint64_t sent_ns;
    uint64_t answered_ns;
    uint64_t deadline_ns; /* of the attempt */
    bool wanted;          /* a request waits until the old socket is closed */
    bool finished;        /* the attempt has `result`; connection_done() runs when the socket is closed */
    enum connection_result result;

    enum job_state state;
    unsigned target; /* index; the next one after each failed attempt */
    uint64_t job;
    unsigned tries;   /* attempts of the job so far */
    unsigned refused; /* attempts in a row that were not sent */
    uint64_t wake_ns;
};

struct connection_pool {
    uv_loop_t loop;
    uv_timer_t ticker;
    char bytes[65536];      /* of the last read, by any connection; parsed before the next read */
    uint64_t connect_count; /* connections that were opened */
    const struct target *targets;
    unsigned target_count;
    unsigned connection_count;
    unsigned busy; /* connections whose state is not JOB_NONE */
    uint64_t random;
    const struct pool_work *work;
    struct connection connections[];
};

/* ---- the socket: one attempt ---- */

static void connection_start(struct connection *connection);
static void connection_done(struct connection *connection, enum connection_result result);

static void connection_on_closed(uv_handle_t *handle) {
    struct connection *connection = handle->data;
    connection->socket = SOCKET_DOWN;
    if (connection->finished) {
        connection->finished = false;
        connection_done(connection, connection->result);
    } else if (connection->wanted) {
        connection->wanted = false;
        connection_start(connection);
    }
}

static void connection_shut(struct connection *connection) {
    connection->socket = SOCKET_CLOSING;
    uv_close((uv_handle_t *)&connection->tcp, connection_on_closed);
}

/* Ends the attempt, and the connection with it. connection_done() runs later, when the socket is closed. */
static void connection_finish(struct connection *connection, enum connection_result result) {
    connection->finished = true;
    connection->result = result;
    connection_shut(connection);
}

static void connection_on_buffer(uv_handle_t *handle, size_t suggested, uv_buf_t *buffer) {
    struct connection *connection = handle->data;
    (void)suggested;
    *buffer = uv_buf_init(connection->pool->bytes, sizeof connection->pool->bytes);
}

/* After surplus bytes, or an answer that came before the whole request was sent, the next answer could not be
 * told apart: the connection is closed. */
static void connection_on_answer(struct connection *connection, bool more_bytes) {
    bool early = uv_stream_get_write_queue_size((uv_stream_t *)&connection->tcp) > 0;
    connection->answered_ns = uv_hrtime();
    if (!connection->response.keep_alive || more_bytes || early) {
        connection_finish(connection, CONNECTION_ANSWERED);
    } else {
        connection->socket = SOCKET_IDLE;
        connection_done(connection, CONNECTION_ANSWERED);
    }
}

static void connection_on_read(uv_stream_t *stream, ssize_t count, const uv_buf_t *buffer) {
    struct connection *connection = stream->data;
    if (count == 0 || connection->socket == SOCKET_CLOSING)
        return;
    if (connection->socket == SOCKET_IDLE) { /* the peer closes, or sends without a request */
        connection_shut(connection);
        return;
    }
    if (count < 0) {
        if (count == UV_EOF && response_close(&connection->response) == RESPONSE_DONE)
            connection_on_answer(connection, false);
        else
            connection_finish(connection, CONNECTION_BROKEN);
        return;
    }
    size_t used = 0;
    switch (response_feed(&connection->response, buffer->base, (size_t)count, &used)) {
    case RESPONSE_MORE: break;
    case RESPONSE_DONE: connection_on_answer(connection, used < (size_t)count); break;
    case RESPONSE_BAD: connection_finish(connection, CONNECTION_UNREADABLE); break;
    }
}

static void connection_on_written(uv_write_t *writing, int status) {
    struct connection *connection = writing->handle->data;
    if (status < 0 && connection->socket == SOCKET_BUSY)
        connection_finish(connection, CONNECTION_BROKEN);
}

static void connection_write(struct connection *connection) {
    uv_buf_t buffer = uv_buf_init(connection->request, (unsigned)connection->request_length);
    response_reset(&connection->response);
    connection->socket = SOCKET_BUSY;
    connection->sent_ns = uv_hrtime();
    int taken = uv_try_write((uv_stream_t *)&connection->tcp, &buffer, 1);
    if (taken == (int)connection->request_length)
        return;
    if (taken < 0 && taken != UV_EAGAIN) {
        connection_finish(connection, CONNECTION_NOT_SENT);
        return;
    }
    size_t part = taken > 0 ? (size_t)taken : 0;
    buffer = uv_buf_init(connection->request + part, (unsigned)(connection->request_length - part));
    if (uv_write(&connection->writing, (uv_stream_t *)&connection->tcp, &buffer, 1, connection_on_written) !=
        0)
        connection_finish(connection, CONNECTION_BROKEN);
}

static void connection_on_connected(uv_connect_t *connecting, int status) {
    struct connection *connection = connecting->handle->data;
    if (connection->socket != SOCKET_CONNECTING)
        return;
    if (status < 0 ||
        uv_read_start((uv_stream_t *)&connection->tcp, connection_on_buffer, connection_on_read) != 0) {
        connection_finish(connection, CONNECTION_NOT_SENT);
        return;
    }
    uv_tcp_nodelay(&connection->tcp, 1);
    uv_tcp_keepalive(&connection->tcp, 1, KEEPALIVE_S);
    connection->pool->connect_count++;
    connection_write(connection);
}

static void connection_start(struct connection *connection) {
    uv_tcp_init(&connection->pool->loop, &connection->tcp); /* creates no socket yet: cannot fail */
    connection->tcp.data = connection;
    connection->socket = SOCKET_CONNECTING;
    connection->peer = &connection->pool->targets[connection->target];
    if (uv_tcp_connect(&connection->connecting, &connection->tcp,
                       (const struct sockaddr *)&connection->peer->address, connection_on_connected) != 0)
        connection_finish(connection, CONNECTION_NOT_SENT);
}

/* Begins the next attempt of the job, and connects first if the socket is not connected to the target. Each
 * attempt leads to one call of connection_done(), which never runs inside this function. */
static void connection_send(struct connection *connection, uint64_t now_ns) {
    const struct connection_pool *pool = connection->pool;
    const struct pool_work *work = pool->work;
    const struct target *target = &pool->targets[connection->target];
    connection->request_length = work->render(work->self, connection->job, target, connection->request);
    connection->deadline_ns = now_ns + work->timeout_ns;
    connection->tries++;
    connection->state = JOB_RUNNING;
    if (connection->socket == SOCKET_IDLE && connection->peer == target) {
        connection_write(connection);
    } else if (connection->socket == SOCKET_DOWN) {
        connection_start(connection);
    } else {
        connection->wanted = true;
        if (connection->socket == SOCKET_IDLE)
            connection_shut(connection);
    }
}

static void connection_check_deadline(struct connection *connection, uint64_t now_ns) {
    if (now_ns < connection->deadline_ns)
        return;
    if (connection->socket == SOCKET_CONNECTING)
        connection_finish(connection, CONNECTION_NOT_SENT);
    else if (connection->socket == SOCKET_BUSY)
        connection_finish(connection, CONNECTION_TIMED_OUT);
}

/* ---- the jobs: one after the other, each with its attempts ---- */

static bool pool_stopped(const struct connection_pool *pool, uint64_t now_ns) {
    const struct pool_work *work = pool->work;
    return now_ns >= work->deadline_ns || (work->stop && *work->stop);
}

static void connection_rest(struct connection *connection) {
    connection->state = JOB_NONE;
    connection->pool->busy--;
}

static void connection_take_job(struct connection *connection, uint64_t now_ns) {
    const struct pool_work *work = connection->pool->work;
    if (pool_stopped(connection->pool, now_ns) || !work->next(work->self, now_ns, &connection->job)) {
        connection_rest(connection);
        return;
    }
    connection->tries = 0;
    connection_send(connection, now_ns);
}

/* An attempt has ended: takes the next job at once, or waits for a back-off before the next attempt. Also
 * waits before the next job if this one could not be sent. Both go to the next target. */
static void connection_done(struct connection *connection, enum connection_result result) {
    struct connection_pool *pool = connection->pool;
    uint64_t now_ns = result == CONNECTION_ANSWERED ? connection->answered_ns : uv_hrtime();
    struct pool_answer answer = {
        .job = connection->job,
        .tries = connection->tries,
        .result = result,
        .response = result == CONNECTION_ANSWERED ? &connection->response : NULL,
        .sent_ns = connection->sent_ns,
        .answered_ns = now_ns,
    };
    bool over = pool->work->answered(pool->work->self, &answer);
    connection->refused = result == CONNECTION_NOT_SENT ? connection->refused + 1 : 0;
    if (over && connection->refused == 0) {
        connection_take_job(connection, now_ns);
        return;
    }
    uint64_t wait_ns = over ? retry_backoff_ns(connection->refused, RETRY_PAUSE_MAX_NS, &pool->random)
                            : retry_backoff_ns(connection->tries, RETRY_BACKOFF_MAX_NS, &pool->random);
    connection->target = (connection->target + 1) % pool->target_count;
    connection->tries = over ? 0 : connection->tries;
    connection->wake_ns = now_ns + wait_ns;
    connection->state = JOB_WAITING;
}

static void pool_on_tick(uv_timer_t *ticker) {
    struct connection_pool *pool = ticker->data;
    uint64_t now_ns = uv_hrtime();
    bool stop = pool_stopped(pool, now_ns);
    for (unsigned i = 0; i < pool->connection_count; i++) {
        struct connection *connection = &pool->connections[i];
        if (connection->state == JOB_RUNNING) {
            connection_check_deadline(connection, now_ns);
        } else if (connection->state == JOB_WAITING && stop) {
            connection_rest(connection);
        } else if (connection->state == JOB_WAITING && now_ns >= connection->wake_ns) {
            if (connection->tries == 0)
                connection_take_job(connection, now_ns);
            else
                connection_send(connection, now_ns);
        }
    }
    pool->work->tick(pool->work->self, now_ns);
}

struct connection_pool *connection_pool_open(const struct target *targets, unsigned target_count,
                                             unsigned connections, uint64_t seed) {
    struct connection_pool *pool = calloc(1, sizeof *pool + connections * sizeof pool->connections[0]);
    if (!pool || uv_loop_init(&pool->loop) != 0) {
        free(pool);
        return NULL;
    }
    uv_timer_init(&pool->loop, &pool->ticker);
    pool->ticker.data = pool;
    pool->targets = targets;
    pool->target_count = target_count;
    pool->connection_count = connections;
    pool->random = seed;
    for (unsigned i = 0; i < connections; i++) {
        pool->connections[i].pool = pool;
        pool->connections[i].target = i % target_count;
    }
    return pool;
}

void connection_pool_run(struct connection_pool *pool, const struct pool_work *work) {
    pool->work = work;
    pool->busy = pool->connection_count;
    uint64_t now_ns = uv_hrtime();
    uv_timer_start(&pool->ticker, pool_on_tick, TICK_MS, TICK_MS);
    for (unsigned i = 0; i < pool->connection_count; i++) {
        pool->connections[i].refused = 0;
        connection_take_job(&pool->connections[i], now_ns);
    }
    while (pool->busy > 0)
        uv_run(&pool->loop, UV_RUN_ONCE);
    uv_timer_stop(&pool->ticker);
}

void connection_pool_close(struct connection_pool *pool) {
    if (!pool)
        return;
    for (unsigned i = 0; i < pool->connection_count; i++) {
        struct connection *connection = &pool->connections[i];
        connection->finished = false;
        connection->wanted = false;
        if (connection->socket != SOCKET_DOWN && connection->socket != SOCKET_CLOSING)
            connection_shut(connection);
    }
    uv_close((uv_handle_t *)&pool->ticker, NULL);
    uv_run(&pool->loop, UV_RUN_DEFAULT);
    uv_loop_close(&pool->loop);
    free(pool);
}

uint64_t connection_pool_connects(const struct connection_pool *pool) {
    return pool->connect_count;
}
