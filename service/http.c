#include "service/http.h"

#include <microhttpd.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    /* libmicrohttpd keeps the head of a request and of its answer in one piece of memory a connection, and
     * clears it for each request: no larger than heads of real browsers need. */
    CONNECTION_MEMORY = 8 * 1024,
    /* See judge_head(). */
    ANSWER_HEAD_MAX = 768,
    ENTRY_SIZE = 80,
    GROWTH_MAX = 256,
    BODY_START = 512,
    SWEEP_MS = 1000,
    BACKLOG_DISCARD_MAX =
        1024 * 1024, /* read and thrown away of a body that is too large, before the connection is cut */
    SPARE_MAX = 1024,
    /* See http_server_turn(). */
    PATIENCE_MS = 10,
    GLANCE_MS = 1,
};

/* A client's connection, in a list from the one that completed a request last to the one that waits longest.
 */
struct connection {
    struct connection *newer, *older;
    struct http_server *server;
    int64_t since_ms; /* connected, or completed a request */
    int fd;
    bool busy; /* its request is being worked on, under that one's own deadline */
};

struct http_request {
    struct http_request *next; /* among the spare ones */
    struct http_server *server;
    struct MHD_Connection *mhd; /* NULL once the client has left */
    struct connection *connection;
    const char *method;
    char path[HTTP_PATH_MAX];
    char *body; /* `start`, or allocated */
    size_t length, size, discarded;
    int64_t since_ns;
    struct MHD_Response *response; /* of a suspended request: to be sent when it is looked at again */
    unsigned int status;
    bool handled, answered, suspended, too_large;
    char start[BODY_START];
    _Alignas(max_align_t) unsigned char context[HTTP_CONTEXT_SIZE];
};

struct http_server {
    struct http_config config;
    uv_loop_t *loop;
    struct MHD_Daemon *daemon;
    uv_poll_t poll;
    uv_timer_t sweep;
    uv_timer_t soon; /* what MHD_get_timeout() asks for */
    struct connection *newest, *oldest;
    struct http_request *spare;
    int spares, connections;
    int receiving, pending; /* requests that are not wholly there, and that are not answered */
    int closing;            /* handles not yet closed */
    bool answered;          /* something is to be sent */
    bool ready;             /* something is to be read, or was asked to be looked at */
    bool progress;          /* the last run did something after which there may be more to do at once */
    bool received;          /* the last run read something */
    bool draining;
};

/* ---- requests ---- */

static struct http_request *request_take(struct http_server *server) {
    struct http_request *request = server->spare;
    if (request) {
        server->spare = request->next;
        server->spares--;
    } else if (!(request = malloc(sizeof *request))) {
        return NULL;
    }
    memset(request, 0, offsetof(struct http_request, start));
    request->server = server;
    request->body = request->start;
    request->size = sizeof request->start;
    return request;
}

static void request_drop(struct http_request *request) {
    struct http_server *server = request->server;
    if (request->body != request->start)
        free(request->body);
    if (request->response)
        MHD_destroy_response(request->response);
    if (server->spares >= SPARE_MAX) {
        free(request);
        return;
    }
    request->next = server->spare;
    server->spare = request;
    server->spares++;
}

const char *http_request_method(const struct http_request *request) {
    return request->method;
}

const char *http_request_path(const struct http_request *request) {
    return request->path;
}

const char *http_request_header(const struct http_request *request, const char *name, size_t *length) {
    const char *value = NULL;
    if (MHD_lookup_connection_value_n(request->mhd, MHD_HEADER_KIND, name, strlen(name), &value, length) !=
        MHD_YES)
        return NULL;
    while (*length && (value[*length - 1] == ' ' || value[*length - 1] == '\t'))
        --*length;
    return value;
}

const char *http_request_body(const struct http_request *request, size_t *length) {
    *length = request->length;
    return request->body;
}

bool http_request_too_large(const struct http_request *request) {
    return request->too_large;
}

void *http_request_context(struct http_request *request) {
    return request->context;
}

int64_t http_request_since_ns(const struct http_request *request) {
    return request->since_ns;
}

void *http_request_server_ctx(const struct http_request *request) {
    return request->server->config.ctx;
}

/* ---- connections ---- */

static void list_remove(struct connection *connection) {
    struct http_server *server = connection->server;
    *(connection->newer ? &connection->newer->older : &server->newest) = connection->older;
    *(connection->older ? &connection->older->newer : &server->oldest) = connection->newer;
}

static void list_renew(struct connection *connection) {
    struct http_server *server = connection->server;
    connection->since_ms = (int64_t)uv_now(server->loop);
    connection->newer = NULL;
    connection->older = server->newest;
    *(server->newest ? &server->newest->newer : &server->oldest) = connection;
    server->newest = connection;
}

static void on_soon(uv_timer_t *timer) {
    ((struct http_server *)timer->data)->ready = true;
}

static void on_connection(void *cls, struct MHD_Connection *mhd, void **socket_context,
                          enum MHD_ConnectionNotificationCode code) {
    struct http_server *server = cls;
    struct connection *connection = *socket_context;
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
        list_renew(connection);
    } else if (connection) {
        list_remove(connection);
        server->connections--;
        free(connection);
        /* At its limit libmicrohttpd looks at no new connections, and does again only in a run after this
         * one. */
        uv_timer_start(&server->soon, on_soon, 0, 0);
    }
}

/* libmicrohttpd does not see the end of a connection that came in one packet with the last data: its epoll
 * set is edge-triggered, and it takes a short read for the last one. It is told once more of those that have
 * ended. */
static void tell_of_ends(struct pollfd *ends, nfds_t count) {
    if (poll(ends, count, 0) <= 0)
        return;
    for (nfds_t i = 0; i < count; i++)
        if (ends[i].revents)
            shutdown(ends[i].fd, SHUT_RD);
}

/* The end of the list is that of the longest wait. The close is seen by libmicrohttpd as the client's. */
static void on_sweep(uv_timer_t *timer) {
    struct http_server *server = timer->data;
    int64_t now_ms = (int64_t)uv_now(server->loop), limit_ms = now_ms - server->config.idle_ms;
    struct pollfd ends[256];
    nfds_t count = 0;
    for (struct connection *connection = server->oldest, *newer;
         connection && connection->since_ms <= now_ms - SWEEP_MS; connection = newer) {
        newer = connection->newer;
        if (connection->busy)
            continue;
        if (connection->since_ms < limit_ms) {
            shutdown(connection->fd, SHUT_RDWR);
            continue;
        }
        ends[count++] = (struct pollfd){.fd = connection->fd, .events = POLLRDHUP};
        if (count == sizeof ends / sizeof *ends) {
            tell_of_ends(ends, count);
            count = 0;
        }
    }
    tell_of_ends(ends, count);
}

/* ---- libmicrohttpd's calls ---- */

/* A path with %00 in it must not be taken for the one that ends there. */
static size_t on_escapes(void *cls, struct MHD_Connection *mhd, char *text) {
    (void)cls;
    (void)mhd;
    size_t length = MHD_http_unescape(text);
    for (char *nul; (nul = memchr(text, '\0', length));)
        *nul = ' ';
    return length;
}

struct head {
    size_t entries; /* headers, cookies, arguments */
    size_t cookies; /* their length */
    int lengths;    /* how often it says where the body ends */
};

static enum MHD_Result look_at(void *cls, enum MHD_ValueKind kind, const char *name, const char *value) {
    struct head *head = cls;
    head->entries++;
    if (kind != MHD_HEADER_KIND || !value)
        return MHD_YES;
    if (strcasecmp(name, MHD_HTTP_HEADER_COOKIE) == 0)
        head->cookies += strlen(value);
    else if (strcasecmp(name, MHD_HTTP_HEADER_CONTENT_LENGTH) == 0 ||
             strcasecmp(name, MHD_HTTP_HEADER_TRANSFER_ENCODING) == 0)
        head->lengths++;
    return MHD_YES;
}

/* The status that a head is refused with, 0 if it is good.
 *
 * A connection's memory must hold the answer's head too, or a purchase would be made and never told. In it
 * are half of it or the request's head, whichever is more, a copy of its cookies, and an entry for each
 * header, cookie and argument. And a body with two ends is where requests are smuggled in. */
static unsigned int judge_head(struct MHD_Connection *mhd) {
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_REQUEST_HEADER_SIZE);
    const enum MHD_ValueKind kinds = MHD_HEADER_KIND | MHD_COOKIE_KIND | MHD_GET_ARGUMENT_KIND;
    size_t used = info ? info->header_size + GROWTH_MAX : CONNECTION_MEMORY;
    struct head head = {.entries = 0};
    MHD_get_connection_values(mhd, kinds, look_at, &head);
    if (head.lengths > 1)
        return MHD_HTTP_BAD_REQUEST;
    if (used < CONNECTION_MEMORY / 2)
        used = CONNECTION_MEMORY / 2;
    used += head.cookies + ENTRY_SIZE * head.entries + ANSWER_HEAD_MAX;
    return used <= CONNECTION_MEMORY ? 0 : MHD_HTTP_REQUEST_HEADER_FIELDS_TOO_LARGE;
}

/* Without a word more: there is no memory for it. */
static enum MHD_Result refuse_head(struct MHD_Connection *mhd, unsigned int status) {
    struct MHD_Response *response =
        MHD_create_response_from_buffer(0, (void *)(uintptr_t) "", MHD_RESPMEM_PERSISTENT);
    if (!response)
        return MHD_NO;
    enum MHD_Result result = MHD_queue_response(mhd, status, response);
    MHD_destroy_response(response);
    return result;
}

/* No call here has a query. It is cut off before libmicrohttpd takes it apart: where it has too many
 * arguments for the connection's memory, version 0.9.75 forgets the connection, and never closes it. */
static void *on_target(void *cls, const char *target, struct MHD_Connection *mhd) {
    (void)cls;
    (void)mhd;
    const char *query = strchr(target, '?');
    if (query && query[1])
        ((char *)(uintptr_t)query)[1] =
            '\0'; /* the target lies in the connection's memory, which may be written */
    return NULL;
}

static enum MHD_Result begin(struct http_server *server, struct MHD_Connection *mhd, const char *url,
                             const char *method, void **context) {
    unsigned int refused = judge_head(mhd);
    if (refused)
        return refuse_head(mhd, refused);
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    struct connection *connection = info ? info->socket_context : NULL;
    struct http_request *request = connection ? request_take(server) : NULL;
    if (!request)
        return MHD_NO;
    request->mhd = mhd;
    request->connection = connection;
    request->method = method;
    request->since_ns = (int64_t)uv_hrtime();
    /* A path that is too long is no path of ours: it is cut, and not found. */
    size_t length = strnlen(url, HTTP_PATH_MAX - 1);
    memcpy(request->path, url, length);
    request->path[length] = '\0';
    *context = request;
    server->receiving++;
    server->received = true;
    const char *declared = MHD_lookup_connection_value(mhd, MHD_HEADER_KIND, MHD_HTTP_HEADER_CONTENT_LENGTH);
    if (!declared || strtoull(declared, NULL, 10) <= HTTP_BODY_MAX)
        return MHD_YES;
    /* Answered before the body is read, and without asking for it where the client waits for "100 Continue".
     */
    request->too_large = true;
    request->handled = true;
    server->receiving--;
    server->pending++;
    server->config.on_request(server->config.ctx, request);
    return request->answered ? MHD_YES : MHD_NO;
}

static bool append(struct http_request *request, const char *data, size_t length) {
    if (request->too_large || request->length + length > HTTP_BODY_MAX) {
        request->too_large = true;
        request->discarded += length;
        return request->discarded <= BACKLOG_DISCARD_MAX;
    }
    if (request->length + length > request->size) {
        size_t size = HTTP_BODY_MAX;
        char *body = malloc(size);
        if (!body)
            return false;
        memcpy(body, request->body, request->length);
        request->body = body;
        request->size = size;
    }
    memcpy(request->body + request->length, data, length);
    request->length += length;
    return true;
}

static enum MHD_Result on_access(void *cls, struct MHD_Connection *mhd, const char *url, const char *method,
                                 const char *version, const char *data, size_t *data_size, void **context) {
    (void)version;
    struct http_server *server = cls;
    struct http_request *request = *context;
    if (!request)
        return begin(server, mhd, url, method, context);
    if (*data_size) {
        bool kept = append(request, data, *data_size);
        *data_size = 0;
        server->received = true;
        return kept ? MHD_YES : MHD_NO;
    }
    if (!request->handled) {
        request->handled = true;
        request->connection->busy = true;
        server->receiving--;
        server->pending++;
        server->config.on_request(server->config.ctx, request);
    }
    if (request->response) {
        server->progress = true;
        return MHD_queue_response(mhd, request->status, request->response);
    }
    if (!request->answered && (int64_t)uv_now(server->loop) - request->since_ns / 1000000 > PATIENCE_MS) {
        request->suspended = true;
        MHD_suspend_connection(mhd);
    }
    return MHD_YES;
}

static void on_completed(void *cls, struct MHD_Connection *mhd, void **context,
                         enum MHD_RequestTerminationCode code) {
    (void)cls;
    (void)mhd;
    (void)code;
    struct http_request *request = *context;
    if (!request)
        return;
    *context = NULL;
    request->server->progress = true;
    if (!request->handled)
        request->server->receiving--;
    request->connection->busy = false;
    list_remove(request->connection);
    list_renew(request->connection);
    if (request->handled && !request->answered)
        request->mhd =
            NULL; /* the client has left; whoever works on the request does not know, and will answer it */
    else
        request_drop(request);
}

static struct MHD_Response *make_response(const struct http_server *server, const char *content_type,
                                          const char *body, size_t length, const char *const *headers) {
    struct MHD_Response *response =
        MHD_create_response_from_buffer(length, (void *)(uintptr_t)body, MHD_RESPMEM_MUST_COPY);
    if (!response)
        return NULL;
    MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, content_type);
    for (; headers && headers[0]; headers += 2)
        MHD_add_response_header(response, headers[0], headers[1]);
    if (server->draining)
        MHD_add_response_header(response, MHD_HTTP_HEADER_CONNECTION, "close");
    return response;
}

void http_answer(struct http_request *request, int status, const char *content_type, const char *body,
                 size_t length, const char *const *headers) {
    struct http_server *server = request->server;
    server->pending--;
    server->config.on_answer(server->config.ctx, status);
    if (!request->mhd) {
        request_drop(request);
        return;
    }
    struct MHD_Response *response = make_response(server, content_type, body, length, headers);
    if (!response) { /* out of memory; an empty answer needs almost none */
        response = MHD_create_response_from_buffer(0, (void *)(uintptr_t) "", MHD_RESPMEM_PERSISTENT);
        status = MHD_HTTP_INTERNAL_SERVER_ERROR;
    }
    if (!response)
        abort(); /* not even that: nothing can be said to anybody any more */
    server->answered = true;
    request->answered = true;
    /* From now on the client is waited for. */
    request->connection->busy = false;
    list_remove(request->connection);
    list_renew(request->connection);
    if (request->suspended) {
        request->suspended = false;
        request->response = response;
        request->status = (unsigned int)status;
        MHD_resume_connection(request->mhd);
    } else {
        MHD_queue_response(request->mhd, (unsigned int)status, response);
        MHD_destroy_response(response); /* libmicrohttpd has its own hold on it */
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
 * To suspend a connection takes it out of libmicrohttpd's epoll set, and to resume it reads it in vain and
 * puts it back: three system calls a request, more than the work itself. So a request is not suspended while
 * its answer is likely near: on_access() returns without an answer, libmicrohttpd keeps the connection in its
 * list of those to be looked at, and each run asks on_access() again, which costs some tens of nanoseconds.
 * After PATIENCE_MS it is suspended all the same, so that a slow store does not make each run look at
 * thousands.
 *
 * libmicrohttpd then wants to be run again at once (a time-out of 0) as long as anybody waits. That is heeded
 * as long as runs make progress; after one that made none there is nothing to do but for what comes by epoll
 * or by an answer. Only to be safe (input that filled the buffer to the last byte shows as neither) it is run
 * again after GLANCE_MS, until all have their answer or are suspended. */
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
    uv_timer_start(&server->soon, on_soon, timeout_ms, 0);
}

struct http_server *http_server_open(uv_loop_t *loop, const struct http_config *config) {
    struct http_server *server = calloc(1, sizeof *server);
    if (!server)
        return NULL;
    server->config = *config;
    server->loop = loop;
    /* Suspend and resume happen on one thread, so the pipe that libmicrohttpd would write to for each resume
     * is left out. */
    unsigned int flags =
        MHD_USE_EPOLL | MHD_USE_TURBO | (MHD_ALLOW_SUSPEND_RESUME & ~(unsigned int)MHD_USE_ITC);
    server->daemon = MHD_start_daemon(
        flags, 0, NULL, NULL, on_access, server, MHD_OPTION_LISTEN_SOCKET, config->listen_fd,
        MHD_OPTION_URI_LOG_CALLBACK, on_target, NULL, MHD_OPTION_NOTIFY_COMPLETED, on_completed, server,
        MHD_OPTION_NOTIFY_CONNECTION, on_connection, server, MHD_OPTION_CONNECTION_MEMORY_LIMIT,
        (size_t)CONNECTION_MEMORY, MHD_OPTION_CONNECTION_LIMIT, (unsigned int)config->connections_max,
        MHD_OPTION_UNESCAPE_CALLBACK, on_escapes, NULL, MHD_OPTION_END);
    if (!server->daemon)
        goto fail;
    const union MHD_DaemonInfo *info = MHD_get_daemon_info(server->daemon, MHD_DAEMON_INFO_EPOLL_FD);
    if (!info || uv_poll_init(loop, &server->poll, info->epoll_fd) != 0)
        goto fail;
    server->poll.data = server->sweep.data = server->soon.data = server;
    uv_timer_init(loop, &server->sweep);
    uv_timer_init(loop, &server->soon);
    uv_poll_start(&server->poll, UV_READABLE, on_ready);
    uv_timer_start(&server->sweep, on_sweep, SWEEP_MS, SWEEP_MS);
    server->ready = true; /* the first run puts the listening socket into the set */
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
    int fd = MHD_quiesce_daemon(server->daemon);
    if (fd >= 0)
        close(fd);
    /* Nobody who is idle need be waited for. A client that sends at this very moment is cut off before
     * anything was read. */
    for (struct connection *connection = server->newest; connection; connection = connection->older) {
        if (!connection->busy)
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
    do { /* answers given just now are sent */
        server->ready = true;
        http_server_turn(server);
    } while (server->progress);
    server->closing = 3;
    uv_poll_stop(&server->poll);
    MHD_stop_daemon(server->daemon);
    while (server->spare) {
        struct http_request *next = server->spare->next;
        free(server->spare);
        server->spare = next;
    }
    uv_close((uv_handle_t *)&server->poll, on_handle_closed);
    uv_close((uv_handle_t *)&server->sweep, on_handle_closed);
    uv_close((uv_handle_t *)&server->soon, on_handle_closed);
}
