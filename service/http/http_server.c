/* The server: libmicrohttpd on a libuv loop, its connections, and the way from a request to its answer. */
#include "service/http/http_server.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "service/http/http_internal.h"

enum {
    SPARE_MAX = 1024, /* exchanges that are kept for later requests */
    SWEEP_MS = 1000,
    /* See http_server_turn(). */
    PATIENCE_MS = 10,
    GLANCE_MS = 1,
};

/* ---- requests and their answers ---- */

static struct http_exchange *exchange_take(struct http_server *server) {
    struct http_exchange *exchange = server->spare;
    if (exchange) {
        server->spare = exchange->next;
        server->spares--;
    } else if (!(exchange = malloc(sizeof *exchange))) {
        return NULL;
    }
    memset(exchange, 0, offsetof(struct http_exchange, start));
    exchange->server = server;
    exchange->body = exchange->start;
    exchange->size = sizeof exchange->start;
    exchange->request.ctx = server->config.ctx;
    exchange->request.body = exchange->start;
    exchange->request.context = exchange->context;
    return exchange;
}

static void exchange_drop(struct http_exchange *exchange) {
    struct http_server *server = exchange->server;
    if (exchange->body != exchange->start)
        free(exchange->body);
    if (exchange->response)
        MHD_destroy_response(exchange->response);
    if (server->spares >= SPARE_MAX) {
        free(exchange);
        return;
    }
    exchange->next = server->spare;
    server->spare = exchange;
    server->spares++;
}

/* ---- connections ---- */

/* Has the server run once more, at once; `timer` has the server. */
static void http_on_soon(uv_timer_t *timer) {
    ((struct http_server *)timer->data)->ready = true;
}

/* From now on the client's silence counts: it has connected, or a request was completed, or answered. */
static void connection_begin_silence(struct http_connection *connection) {
    connection->busy = false;
    connection->since_ms = (int64_t)uv_now(connection->server->loop);
    TAILQ_INSERT_TAIL(&connection->server->silent, connection, next);
}

static void connection_renew(struct http_connection *connection) {
    TAILQ_REMOVE(&connection->server->silent, connection, next);
    connection_begin_silence(connection);
}

static void http_on_connection(void *cls, struct MHD_Connection *mhd, void **socket_context,
                               enum MHD_ConnectionNotificationCode code) {
    struct http_server *server = cls;
    struct http_connection *connection = *socket_context;
    if (code == MHD_CONNECTION_NOTIFY_STARTED) {
        const union MHD_ConnectionInfo *info =
            MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_CONNECTION_FD);
        connection = calloc(1, sizeof *connection);
        *socket_context = connection;
        if (!connection)
            return; /* its requests are refused */
        connection->server = server;
        connection->fd = info->connect_fd;
        server->connections++;
        connection_begin_silence(connection);
    } else if (connection) {
        TAILQ_REMOVE(&server->silent, connection, next);
        server->connections--;
        free(connection);
        /* At its limit libmicrohttpd accepts no new connection until a run after this one. */
        uv_timer_start(&server->soon, http_on_soon, 0, 0);
    }
}

/* libmicrohttpd does not notice the end of a connection if it came in one packet with the last data: its
 * epoll set is edge-triggered, and it takes a short read for the last one. So this tells it again. */
static void connections_tell_ends(struct pollfd *ends, nfds_t count) {
    if (poll(ends, count, 0) <= 0)
        return;
    for (nfds_t i = 0; i < count; i++)
        if (ends[i].revents)
            shutdown(ends[i].fd, SHUT_RD);
}

/* Closes the connections that are silent for too long. libmicrohttpd takes the shutdown for a close by the
 * client. The time is shorter if nearly all places are taken, since others wait for one. */
static void http_on_sweep(uv_timer_t *timer) {
    struct http_server *server = timer->data;
    int most = server->config.connections_max;
    bool crowded = server->connections >= most - most / HTTP_SPARE_SHARE;
    int64_t now_ms = (int64_t)uv_now(server->loop),
            limit_ms = now_ms - server->config.idle_ms / (crowded ? HTTP_HURRY : 1);
    struct pollfd ends[256];
    nfds_t count = 0;
    for (struct http_connection *connection = TAILQ_FIRST(&server->silent);
         connection && connection->since_ms <= now_ms - SWEEP_MS; connection = TAILQ_NEXT(connection, next)) {
        if (connection->busy)
            continue;
        if (connection->since_ms < limit_ms) {
            shutdown(connection->fd, SHUT_RDWR);
            continue;
        }
        ends[count++] = (struct pollfd){.fd = connection->fd, .events = POLLRDHUP};
        if (count == sizeof ends / sizeof *ends) {
            connections_tell_ends(ends, count);
            count = 0;
        }
    }
    connections_tell_ends(ends, count);
}

/* ---- from a request to its answer ---- */

/* The head of a request has come. NULL: the server refuses it, and ends the connection. */
static struct http_exchange *exchange_begin(struct http_server *server, struct MHD_Connection *mhd,
                                            const char *url, const char *method, const char *version) {
    struct http_head_facts facts;
    struct http_fault fault = http_head_judge(mhd, method, url, version, &facts);
    if (fault.status) {
        struct http_ids ids;
        http_ids_take(&ids, &server->random, &facts.request_id, &facts.traceparent);
        http_refuse(mhd, &ids, &fault, strcmp(method, MHD_HTTP_METHOD_HEAD) != 0);
        return NULL;
    }
    struct http_connection *connection = http_connection_of(mhd);
    struct http_exchange *exchange = connection ? exchange_take(server) : NULL;
    if (!exchange)
        return NULL;
    struct http_request *request = &exchange->request;
    exchange->mhd = mhd;
    exchange->connection = connection;
    connection->exchange = exchange;
    request->encoded = facts.encoded;
    request->arrived_ns = (int64_t)uv_hrtime();
    http_ids_take(&request->ids, &server->random, &facts.request_id, &facts.traceparent);
    memcpy(request->method, method, strnlen(method, HTTP_METHOD_MAX - 1));
    memcpy(request->path, url, strnlen(url, HTTP_PATH_MAX - 1));
    const char *declared = MHD_lookup_connection_value(mhd, MHD_HEADER_KIND, MHD_HTTP_HEADER_CONTENT_LENGTH);
    request->too_large = declared && strtoull(declared, NULL, 10) > HTTP_BODY_MAX;
    server->receiving++;
    server->received = true;
    return exchange;
}

static bool exchange_append(struct http_exchange *exchange, const char *data, size_t length) {
    struct http_request *request = &exchange->request;
    if (request->too_large || request->length + length > HTTP_BODY_MAX) {
        request->too_large = true;
        exchange->discarded += length;
        if (exchange->discarded > HTTP_DISCARD_MAX)
            http_refuse_body(exchange->mhd, strcmp(request->method, MHD_HTTP_METHOD_HEAD) != 0);
        return exchange->discarded <= HTTP_DISCARD_CUT;
    }
    if (request->length + length > exchange->size) {
        char *body = malloc(HTTP_BODY_MAX);
        if (!body)
            return false;
        memcpy(body, exchange->body, request->length);
        request->body = exchange->body = body;
        exchange->size = HTTP_BODY_MAX;
    }
    memcpy(exchange->body + request->length, data, length);
    request->length += length;
    return true;
}

/* libmicrohttpd calls this for the head of a request, for each part of its body, at the end of the body, and
 * then again and again until there is an answer. */
static enum MHD_Result http_on_access(void *cls, struct MHD_Connection *mhd, const char *url,
                                      const char *method, const char *version, const char *data,
                                      size_t *data_size, void **context) {
    struct http_server *server = cls;
    struct http_exchange *exchange = *context;
    if (!exchange) {
        *context = exchange = exchange_begin(server, mhd, url, method, version);
        /* A body that is declared too large is answered before it is read, and without asking for it if the
         * client waits for "100 Continue". */
        if (!exchange || !exchange->request.too_large)
            return exchange ? MHD_YES : MHD_NO;
    }
    if (*data_size) {
        bool kept = exchange_append(exchange, data, *data_size);
        *data_size = 0;
        server->received = true;
        return kept ? MHD_YES : MHD_NO;
    }
    if (exchange->connection->refused)
        return MHD_NO;
    if (!exchange->handled) {
        exchange->handled = exchange->connection->busy = true;
        server->receiving--;
        server->pending++;
        server->config.on_request(server->config.ctx, &exchange->request);
    }
    if (exchange->response) {
        server->progress = true;
        return http_queue(mhd, exchange->status, exchange->response);
    }
    int64_t waited_ms = (int64_t)uv_now(server->loop) - exchange->request.arrived_ns / 1000000;
    if (!exchange->answered && waited_ms > PATIENCE_MS) {
        exchange->suspended = true;
        MHD_suspend_connection(mhd);
    }
    return MHD_YES;
}

static void http_on_completed(void *cls, struct MHD_Connection *mhd, void **context,
                              enum MHD_RequestTerminationCode code) {
    (void)cls;
    (void)mhd;
    (void)code;
    struct http_exchange *exchange = *context;
    if (!exchange)
        return;
    *context = NULL;
    exchange->server->progress = true;
    exchange->connection->exchange = NULL;
    if (!exchange->handled)
        exchange->server->receiving--;
    connection_renew(exchange->connection);
    if (exchange->handled && !exchange->answered)
        exchange->mhd = NULL; /* the client has left; the handler does not know, and will answer */
    else
        exchange_drop(exchange);
}

static struct MHD_Response *make_response(const struct http_exchange *exchange, int status,
                                          const char *content_type, const char *body, size_t length,
                                          const char *const *headers) {
    const struct http_ids *ids = &exchange->request.ids;
    struct MHD_Response *response =
        MHD_create_response_from_buffer(length, (void *)(uintptr_t)body, MHD_RESPMEM_MUST_COPY);
    if (!response)
        return NULL;
    MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, content_type);
    /* Every answer changes, and without this header a cache may keep one, such as a 404, for as long as it
     * likes. A cache keeps no 201 (RFC 9110, 15.1), so a purchase does not pay for the header. */
    if (status != MHD_HTTP_CREATED)
        MHD_add_response_header(response, MHD_HTTP_HEADER_CACHE_CONTROL, "no-store");
    MHD_add_response_header(response, "X-Request-Id", ids->request_id);
    MHD_add_response_header(response, "traceparent", ids->traceparent);
    for (; headers && headers[0]; headers += 2)
        MHD_add_response_header(response, headers[0], headers[1]);
    if (exchange->server->draining)
        MHD_add_response_header(response, MHD_HTTP_HEADER_CONNECTION, "close");
    return response;
}

void http_answer(struct http_request *request, int status, const char *content_type, const char *body,
                 size_t length, const char *const *headers) {
    struct http_exchange *exchange = (struct http_exchange *)request;
    struct http_server *server = exchange->server;
    server->pending--;
    http_ids_complete(&request->ids, &server->random);
    server->config.on_answer(server->config.ctx, request, status);
    if (!exchange->mhd) {
        exchange_drop(exchange);
        return;
    }
    struct MHD_Response *response = make_response(exchange, status, content_type, body, length, headers);
    if (!response) { /* out of memory; an empty answer needs almost none */
        response = MHD_create_response_from_buffer(0, (void *)(uintptr_t) "", MHD_RESPMEM_PERSISTENT);
        status = MHD_HTTP_INTERNAL_SERVER_ERROR;
    }
    if (!response)
        abort(); /* not even that: no request can be answered any more */
    server->answered = true;
    exchange->answered = true;
    connection_renew(exchange->connection);
    if (exchange->suspended) {
        exchange->suspended = false;
        exchange->response = response;
        exchange->status = (unsigned int)status;
        MHD_resume_connection(exchange->mhd);
    } else {
        http_queue(exchange->mhd, (unsigned int)status, response);
        MHD_destroy_response(response); /* libmicrohttpd has its own reference */
    }
}

/* ---- the server on its loop ---- */

static void http_on_ready(uv_poll_t *poll, int status, int events) {
    (void)status;
    (void)events;
    ((struct http_server *)poll->data)->ready = true;
}

/* How requests wait.
 *
 * To suspend a connection removes it from libmicrohttpd's epoll set; to resume it reads it in vain and adds
 * it again. That is three system calls a request, more than the work itself. So a request is not suspended
 * while its answer is likely to come soon: http_on_access() returns without an answer, libmicrohttpd keeps
 * the connection in its list of ready ones, and each run calls http_on_access() again, which costs some tens
 * of nanoseconds. After PATIENCE_MS it is suspended, so that a slow store does not make each run visit
 * thousands of connections.
 *
 * libmicrohttpd then asks to be run again at once (a time-out of 0) as long as a request waits. The server
 * does so as long as runs make progress. After a run without progress there is nothing to do until epoll or
 * an answer brings work. Input that fills the buffer to the last byte shows as neither, so the server runs
 * again after GLANCE_MS until all requests are answered or suspended. */
void http_server_turn(struct http_server *server) {
    if (!server->answered && !server->ready)
        return;
    server->answered = false;
    server->ready = false;
    server->progress = server->received = false;
    MHD_run(server->daemon);
    if (server->answered || (server->received && server->receiving > 0))
        server->progress = true;
    MHD_UNSIGNED_LONG_LONG timeout_ms;
    if (MHD_get_timeout(server->daemon, &timeout_ms) != MHD_YES)
        return;
    if (timeout_ms == 0 && !server->progress)
        timeout_ms = GLANCE_MS;
    uv_timer_start(&server->soon, http_on_soon, timeout_ms, 0);
}

struct http_server *http_server_open(uv_loop_t *loop, const struct http_config *config) {
    struct http_server *server = calloc(1, sizeof *server);
    if (!server)
        return NULL;
    server->config = *config;
    server->loop = loop;
    http_random_open(&server->random);
    TAILQ_INIT(&server->silent);
    /* All suspends and resumes happen on one thread, so libmicrohttpd need not have the pipe to which it
     * would write for each resume. */
    unsigned int flags =
        MHD_USE_EPOLL | MHD_USE_TURBO | (MHD_ALLOW_SUSPEND_RESUME & ~(unsigned int)MHD_USE_ITC);
    server->daemon = MHD_start_daemon(
        flags, 0, NULL, NULL, http_on_access, server, MHD_OPTION_LISTEN_SOCKET, config->listen_fd,
        MHD_OPTION_URI_LOG_CALLBACK, http_head_target, NULL, MHD_OPTION_NOTIFY_COMPLETED, http_on_completed,
        server, MHD_OPTION_NOTIFY_CONNECTION, http_on_connection, server, MHD_OPTION_CONNECTION_MEMORY_LIMIT,
        (size_t)HTTP_CONNECTION_MEMORY, MHD_OPTION_CONNECTION_LIMIT, (unsigned int)config->connections_max,
        MHD_OPTION_UNESCAPE_CALLBACK, http_head_unescape, NULL, MHD_OPTION_END);
    if (!server->daemon)
        goto fail;
    const union MHD_DaemonInfo *info = MHD_get_daemon_info(server->daemon, MHD_DAEMON_INFO_EPOLL_FD);
    if (!info || uv_poll_init(loop, &server->poll, info->epoll_fd) != 0)
        goto fail;
    server->poll.data = server->sweep.data = server->soon.data = server;
    uv_timer_init(loop, &server->sweep);
    uv_timer_init(loop, &server->soon);
    uv_poll_start(&server->poll, UV_READABLE, http_on_ready);
    uv_timer_start(&server->sweep, http_on_sweep, SWEEP_MS, SWEEP_MS);
    server->ready = true; /* the first run adds the listening socket */
    return server;
fail:
    if (server->daemon)
        MHD_stop_daemon(server->daemon);
    free(server);
    return NULL;
}

void http_server_drain(struct http_server *server) {
    if (server->draining)
        return;
    server->draining = true;
    int before;
    do { /* closing a listening socket drops the clients in its backlog */
        before = server->connections;
        server->ready = true;
        http_server_turn(server);
    } while (server->connections > before);
    int fd = MHD_quiesce_daemon(server->daemon);
    if (fd >= 0)
        close(fd);
    /* Idle connections are not waited for. A client that sends at this moment is cut off before anything was
     * read. */
    char byte;
    for (const struct http_connection *connection = TAILQ_FIRST(&server->silent); connection;
         connection = TAILQ_NEXT(connection, next)) {
        if (!connection->busy && recv(connection->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) <= 0)
            shutdown(connection->fd, SHUT_RD);
    }
    server->ready = true;
}

int http_server_pending(const struct http_server *server) {
    return server->pending;
}

int http_server_connections(const struct http_server *server) {
    return server->connections;
}

static void http_on_handle_closed(uv_handle_t *handle) {
    struct http_server *server = handle->data;
    if (--server->closing == 0)
        free(server);
}

void http_server_close(struct http_server *server) {
    if (!server)
        return;
    do { /* sends the last answers */
        server->ready = true;
        http_server_turn(server);
    } while (server->progress);
    server->closing = 3;
    uv_poll_stop(&server->poll);
    MHD_stop_daemon(server->daemon);
    while (server->spare) {
        struct http_exchange *next = server->spare->next;
        free(server->spare);
        server->spare = next;
    }
    uv_close((uv_handle_t *)&server->poll, http_on_handle_closed);
    uv_close((uv_handle_t *)&server->sweep, http_on_handle_closed);
    uv_close((uv_handle_t *)&server->soon, http_on_handle_closed);
}
