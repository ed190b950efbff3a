#include "loadtest/http/connection.h"

#define KEEPALIVE_S 60 /* TCP keep-alive: probe a peer that was silent for so long */

static void start(struct connection *connection);

void connection_init(struct connection *connection, uv_loop_t *loop,
                     void (*done)(struct connection *connection, enum connection_result result)) {
    connection->loop = loop;
    connection->done = done;
    connection->tcp.data = connection;
}

static void on_closed(uv_handle_t *handle) {
    struct connection *connection = handle->data;
    connection->state = CONNECTION_DOWN;
    if (connection->finished) {
        connection->finished = false;
        connection->done(connection, connection->result);
    } else if (connection->wanted) {
        connection->wanted = false;
        start(connection);
    }
}

static void shut(struct connection *connection) {
    connection->state = CONNECTION_CLOSING;
    uv_close((uv_handle_t *)&connection->tcp, on_closed);
}

/* Ends the request in flight; calls `done` when the socket is closed. */
static void finish(struct connection *connection, enum connection_result result) {
    connection->finished = true;
    connection->result = result;
    shut(connection);
}

static void on_buffer(uv_handle_t *handle, size_t suggested, uv_buf_t *buffer) {
    (void)suggested;
    struct connection_shared *shared = handle->loop->data;
    *buffer = uv_buf_init(shared->bytes, sizeof shared->bytes);
}

/* Surplus bytes, or an answer before the whole request was sent: the next answer could not be told apart, so
 * the connection is closed. */
static void on_answer(struct connection *connection, bool more_bytes) {
    bool early = uv_stream_get_write_queue_size((uv_stream_t *)&connection->tcp) > 0;
    connection->answered_ns = uv_hrtime();
    if (!connection->response.keep_alive || more_bytes || early) {
        finish(connection, CONNECTION_ANSWERED);
    } else {
        connection->state = CONNECTION_IDLE;
        connection->done(connection, CONNECTION_ANSWERED);
    }
}

static void on_read(uv_stream_t *stream, ssize_t count, const uv_buf_t *buffer) {
    struct connection *connection = stream->data;
    if (count == 0 || connection->state == CONNECTION_CLOSING)
        return;
    if (connection->state == CONNECTION_IDLE) { /* the peer closes, or sends without a request */
        shut(connection);
        return;
    }
    if (count < 0) {
        if (count == UV_EOF && response_close(&connection->response) == RESPONSE_DONE)
            on_answer(connection, false);
        else
            finish(connection, CONNECTION_BROKEN);
        return;
    }
    size_t used = 0;
    switch (response_feed(&connection->response, buffer->base, (size_t)count, &used)) {
    case RESPONSE_MORE: break;
    case RESPONSE_DONE: on_answer(connection, used < (size_t)count); break;
    case RESPONSE_BAD: finish(connection, CONNECTION_UNREADABLE); break;
    }
}

static void on_written(uv_write_t *writing, int status) {
    struct connection *connection = writing->handle->data;
    if (status < 0 && connection->state == CONNECTION_BUSY)
        finish(connection, CONNECTION_BROKEN);
}

static void send_request(struct connection *connection) {
    uv_buf_t buffer = uv_buf_init(connection->request, (unsigned)connection->request_length);
    response_reset(&connection->response);
    connection->state = CONNECTION_BUSY;
    connection->sent_ns = uv_hrtime();
    int taken = uv_try_write((uv_stream_t *)&connection->tcp, &buffer, 1);
    if (taken == (int)connection->request_length)
        return;
    if (taken < 0 && taken != UV_EAGAIN) {
        finish(connection, CONNECTION_NOT_SENT);
        return;
    }
    size_t part = taken > 0 ? (size_t)taken : 0;
    buffer = uv_buf_init(connection->request + part, (unsigned)(connection->request_length - part));
    if (uv_write(&connection->writing, (uv_stream_t *)&connection->tcp, &buffer, 1, on_written) != 0)
        finish(connection, CONNECTION_BROKEN);
}

static void on_connected(uv_connect_t *connecting, int status) {
    struct connection *connection = connecting->handle->data;
    if (connection->state != CONNECTION_CONNECTING)
        return;
    if (status < 0 || uv_read_start((uv_stream_t *)&connection->tcp, on_buffer, on_read) != 0) {
        finish(connection, CONNECTION_NOT_SENT);
        return;
    }
    uv_tcp_nodelay(&connection->tcp, 1);
    uv_tcp_keepalive(&connection->tcp, 1, KEEPALIVE_S);
    ((struct connection_shared *)connection->loop->data)->connects++;
    connection->peer = connection->target;
    send_request(connection);
}

static void start(struct connection *connection) {
    uv_tcp_init(connection->loop, &connection->tcp); /* creates no socket yet: cannot fail */
    connection->state = CONNECTION_CONNECTING;
    if (uv_tcp_connect(&connection->connecting, &connection->tcp,
                       (const struct sockaddr *)&connection->target->address, on_connected) != 0)
        finish(connection, CONNECTION_NOT_SENT);
}

void connection_send(struct connection *connection, const struct target *target, size_t length,
                     uint64_t deadline_ns) {
    connection->target = target;
    connection->request_length = length;
    connection->deadline_ns = deadline_ns;
    if (connection->state == CONNECTION_IDLE && connection->peer == target) {
        send_request(connection);
    } else if (connection->state == CONNECTION_DOWN) {
        start(connection);
    } else {
        connection->wanted = true;
        if (connection->state == CONNECTION_IDLE)
            shut(connection);
    }
}

void connection_check(struct connection *connection, uint64_t now_ns) {
    if (now_ns < connection->deadline_ns)
        return;
    if (connection->state == CONNECTION_CONNECTING)
        finish(connection, CONNECTION_NOT_SENT);
    else if (connection->state == CONNECTION_BUSY)
        finish(connection, CONNECTION_TIMED_OUT);
}

void connection_close(struct connection *connection) {
    connection->finished = false;
    connection->wanted = false;
    if (connection->state != CONNECTION_DOWN && connection->state != CONNECTION_CLOSING)
        shut(connection);
}
