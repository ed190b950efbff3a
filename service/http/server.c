#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

#include "service/http/server.h"

#include "service/http/connections.h"
#include "service/http/head.h"
#include "service/http/refusals.h"

enum {
    /* Of a body that is too large so much is read and thrown away. It is answered at once, and the connection
     * ends with the answer; after this many bytes it is cut. */
    DISCARD_MAX = 1024 * 1024,
    DISCARD_CUT = 16 * DISCARD_MAX,
    SPARE_MAX = 1024,
    /* See http_server_turn(). */
    PATIENCE_MS = 10,
    GLANCE_MS = 1,
};

/* ---- requests ---- */

static struct exchange *exchange_take(struct http_server *server) {
    struct exchange *exchange = server->spare;
    if (exchange) {
        server->spare = exchange->next;
        server->spares--;
    } else if (!(exchange = malloc(sizeof *exchange))) {
        return NULL;
    }
    memset(exchange, 0, offsetof(struct exchange, start));
    exchange->server = server;
    exchange->body = exchange->start;
    exchange->size = sizeof exchange->start;
    exchange->request.ctx = server->config.ctx;
    exchange->request.body = exchange->start;
    exchange->request.context = exchange->context;
    return exchange;
}

static void exchange_drop(struct exchange *exchange) {
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

struct search {
    const char *name, *value;
    size_t name_length, length;
    int count;
};

static enum MHD_Result compare(void *cls, enum MHD_ValueKind kind, const char *name, size_t name_length,
                               const char *value, size_t length) {
    (void)kind;
    struct search *search = cls;
    if (name_length != search->name_length || strncasecmp(name, search->name, name_length) != 0)
        return MHD_YES;
    if (search->count++ == 0) {
        search->value = value;
        search->length = length;
    }
    return MHD_YES;
}

int http_request_header(const struct http_request *request, const char *name, const char **value,
                        size_t *length) {
    struct search search = {.name = name, .name_length = strlen(name)};
    MHD_get_connection_values_n(((const struct exchange *)request)->mhd, MHD_HEADER_KIND, compare, &search);
    while (search.length &&
           (search.value[search.length - 1] == ' ' || search.value[search.length - 1] == '\t'))
        search.length--;
    *value = search.value;
    *length = search.length;
    return search.count;
}

/* ---- libmicrohttpd's calls ---- */

/* Passes the request to its handler. */
static void handle(struct http_server *server, struct exchange *exchange) {
    exchange->handled = true;
    server->receiving--;
    server->pending++;
    server->config.on_request(server->config.ctx, &exchange->request);
}

static enum MHD_Result begin(struct http_server *server, struct MHD_Connection *mhd, const char *url,
                             const char *method, const char *version, void **context) {
    bool encoded;
    struct http_fault fault = http_head_judge(mhd, method, url, version, &encoded);
    if (fault.status) {
        http_refuse(mhd, &fault, strcmp(method, MHD_HTTP_METHOD_HEAD) != 0);
        return MHD_NO;
    }
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    struct connection *connection = info ? info->socket_context : NULL;
    struct exchange *exchange = connection ? exchange_take(server) : NULL;
    if (!exchange)
        return MHD_NO;
    struct http_request *request = &exchange->request;
    exchange->mhd = mhd;
    exchange->connection = connection;
    request->method = method;
    request->encoded = encoded;
    request->arrived_ns = (int64_t)uv_hrtime();
    /* A path that is too long is cut, and so not found. */
    memcpy(request->path, url, strnlen(url, HTTP_PATH_MAX - 1));
    *context = exchange;
    server->receiving++;
    server->received = true;
    const char *declared = MHD_lookup_connection_value(mhd, MHD_HEADER_KIND, MHD_HTTP_HEADER_CONTENT_LENGTH);
    if (!declared || strtoull(declared, NULL, 10) <= HTTP_BODY_MAX)
        return MHD_YES;
    /* Answered before the body is read, and without asking for it if the client waits for "100 Continue". */
    request->too_large = true;
    handle(server, exchange);
    return exchange->answered ? MHD_YES : MHD_NO;
}

static bool append(struct exchange *exchange, const char *data, size_t length) {
    struct http_request *request = &exchange->request;
    if (request->too_large || request->length + length > HTTP_BODY_MAX) {
        request->too_large = true;
        exchange->discarded += length;
        if (exchange->discarded > DISCARD_MAX)
            http_refuse_body(exchange->mhd, strcmp(request->method, MHD_HTTP_METHOD_HEAD) != 0);
        return exchange->discarded <= DISCARD_CUT;
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

static enum MHD_Result on_access(void *cls, struct MHD_Connection *mhd, const char *url, const char *method,
                                 const char *version, const char *data, size_t *data_size, void **context) {
    struct http_server *server = cls;
    struct exchange *exchange = *context;
    if (!exchange)
        return begin(server, mhd, url, method, version, context);
    if (*data_size) {
        bool kept = append(exchange, data, *data_size);
        *data_size = 0;
        server->received = true;
        return kept ? MHD_YES : MHD_NO;
    }
    if (exchange->connection->refused)
        return MHD_NO;
    if (!exchange->handled) {
        exchange->connection->busy = true;
        handle(server, exchange);
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

static void on_completed(void *cls, struct MHD_Connection *mhd, void **context,
                         enum MHD_RequestTerminationCode code) {
    (void)cls;
    (void)mhd;
    (void)code;
    struct exchange *exchange = *context;
    if (!exchange)
        return;
    *context = NULL;
    exchange->server->progress = true;
    if (!exchange->handled)
        exchange->server->receiving--;
    http_client_renew(exchange->connection);
    if (exchange->handled && !exchange->answered)
        exchange->mhd = NULL; /* the client has left; the handler does not know, and will answer */
    else
        exchange_drop(exchange);
}

static struct MHD_Response *make_response(const struct http_server *server, int status,
                                          const char *content_type, const char *body, size_t length,
                                          const char *const *headers) {
    struct MHD_Response *response =
        MHD_create_response_from_buffer(length, (void *)(uintptr_t)body, MHD_RESPMEM_MUST_COPY);
    if (!response)
        return NULL;
    MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, content_type);
    /* Every answer changes, and without this header a cache may keep one, such as a 404, for as long as it
     * likes. A cache keeps no 201 (RFC 9110, 15.1), so a purchase does not pay for the header. */
    if (status != MHD_HTTP_CREATED)
        MHD_add_response_header(response, MHD_HTTP_HEADER_CACHE_CONTROL, "no-store");
    for (; headers && headers[0]; headers += 2)
        MHD_add_response_header(response, headers[0], headers[1]);
    if (server->draining)
        MHD_add_response_header(response, MHD_HTTP_HEADER_CONNECTION, "close");
    return response;
}

void http_answer(struct http_request *request, int status, const char *content_type, const char *body,
                 size_t length, const char *const *headers) {
    struct exchange *exchange = (struct exchange *)request;
    struct http_server *server = exchange->server;
    server->pending--;
    server->config.on_answer(server->config.ctx, status);
    if (!exchange->mhd) {
        exchange_drop(exchange);
        return;
    }
    struct MHD_Response *response = make_response(server, status, content_type, body, length, headers);
    if (!response) { /* out of memory; an empty answer needs almost none */
        response = MHD_create_response_from_buffer(0, (void *)(uintptr_t) "", MHD_RESPMEM_PERSISTENT);
        status = MHD_HTTP_INTERNAL_SERVER_ERROR;
    }
    if (!response)
        abort(); /* not even that: no request can be answered any more */
    server->answered = true;
    exchange->answered = true;
    /* From now on the client's silence counts. */
    http_client_renew(exchange->connection);
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

static void on_ready(uv_poll_t *poll, int status, int events) {
    (void)status;
    (void)events;
    ((struct http_server *)poll->data)->ready = true;
}

/* How requests wait.
 *
 * To suspend a connection removes it from libmicrohttpd's epoll set; to resume it reads it in vain and adds
 * it again. That is three system calls a request, more than the work itself. So a request is not suspended
 * while its answer is likely to come soon: on_access() returns without an answer, libmicrohttpd keeps the
 * connection in its list of ready ones, and each run calls on_access() again, which costs some tens of
 * nanoseconds. After PATIENCE_MS it is suspended, so that a slow store does not make each run visit thousands
 * of connections.
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
    uv_timer_start(&server->soon, http_server_soon, timeout_ms, 0);
}

struct http_server *http_server_open(uv_loop_t *loop, const struct http_config *config) {
    struct http_server *server = calloc(1, sizeof *server);
    if (!server)
        return NULL;
    server->config = *config;
    server->loop = loop;
    /* All suspends and resumes happen on one thread, so libmicrohttpd need not have the pipe to which it
     * would write for each resume. */
    unsigned int flags =
        MHD_USE_EPOLL | MHD_USE_TURBO | (MHD_ALLOW_SUSPEND_RESUME & ~(unsigned int)MHD_USE_ITC);
    server->daemon = MHD_start_daemon(
        flags, 0, NULL, NULL, on_access, server, MHD_OPTION_LISTEN_SOCKET, config->listen_fd,
        MHD_OPTION_URI_LOG_CALLBACK, http_head_target, NULL, MHD_OPTION_NOTIFY_COMPLETED, on_completed,
        server, MHD_OPTION_NOTIFY_CONNECTION, http_client_notify, server, MHD_OPTION_CONNECTION_MEMORY_LIMIT,
        (size_t)CONNECTION_MEMORY, MHD_OPTION_CONNECTION_LIMIT, (unsigned int)config->connections_max,
        MHD_OPTION_UNESCAPE_CALLBACK, http_head_unescape, NULL, MHD_OPTION_END);
    if (!server->daemon)
        goto fail;
    const union MHD_DaemonInfo *info = MHD_get_daemon_info(server->daemon, MHD_DAEMON_INFO_EPOLL_FD);
    if (!info || uv_poll_init(loop, &server->poll, info->epoll_fd) != 0)
        goto fail;
    server->poll.data = server->sweep.data = server->soon.data = server;
    uv_timer_init(loop, &server->sweep);
    uv_timer_init(loop, &server->soon);
    uv_poll_start(&server->poll, UV_READABLE, on_ready);
    uv_timer_start(&server->sweep, http_client_sweep, HTTP_SWEEP_MS, HTTP_SWEEP_MS);
    server->ready = true; /* the first run adds the listening socket */
    return server;
fail:
    if (server->daemon)
        MHD_stop_daemon(server->daemon);
    free(server);
    return NULL;
}

static bool has_sent(const struct connection *connection) {
    char byte;
    return recv(connection->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) > 0;
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
    for (struct connection *connection = server->newest; connection; connection = connection->older) {
        if (!connection->busy && !has_sent(connection))
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

static void on_handle_closed(uv_handle_t *handle) {
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
        struct exchange *next = server->spare->next;
        free(server->spare);
        server->spare = next;
    }
    uv_close((uv_handle_t *)&server->poll, on_handle_closed);
    uv_close((uv_handle_t *)&server->sweep, on_handle_closed);
    uv_close((uv_handle_t *)&server->soon, on_handle_closed);
}
