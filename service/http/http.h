/* HTTP/1.1 on a libuv loop; of the service only this folder includes libmicrohttpd.
 *
 * A server belongs to one thread. Each request is passed to `on_request` once it is complete, and answered by
 * http_answer(): within that call, or later on the same loop. Every request must be answered, also if the
 * client has left.
 *
 * A request that is not HTTP/1.1 as in RFC 9112 is refused before that (head.c, refusals.c), and its
 * connection is closed.
 *
 * Bounds: request line and headers about 4 KB together (head.c), a body HTTP_BODY_MAX, connections as
 * configured. A connection that completes no request within `idle_ms` is closed; within a twelfth of that if
 * seven eighths of all connections are taken. */
#ifndef SERVICE_HTTP_HTTP_H
#define SERVICE_HTTP_HTTP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

enum { HTTP_BODY_MAX = 16 * 1024, HTTP_PATH_MAX = 512, HTTP_CONTEXT_SIZE = 1024 };

struct http_server;

/* A complete request, to be read only. Valid until the answer. */
struct http_request {
    void *ctx; /* of http_config */
    const char *method;
    const char *body;
    size_t length;      /* of the body */
    bool too_large;     /* the body is larger than HTTP_BODY_MAX, and was not kept */
    bool encoded;       /* the body has a content coding */
    int64_t arrived_ns; /* of the monotonic clock */
    void *context; /* HTTP_CONTEXT_SIZE bytes for the handler's own data, aligned for anything, not cleared */
    char path[HTTP_PATH_MAX]; /* without the query, percent-decoded; %2F and %00 become blanks */
};

struct http_config {
    int listen_fd; /* owned by the server from now on */
    int connections_max;
    int idle_ms;
    void (*on_request)(void *ctx, struct http_request *request);
    void (*on_answer)(void *ctx, int status); /* called for each answer */
    /* Writes the body, an application/problem+json, for a request that is refused before it is read: its
     * status is 400 (then the field is named), 413, 414, 431, 501 or 505. Returns its length. NULL: no body.
     */
    size_t (*write_refusal)(char *out, size_t size, int status, const char *field, const char *detail);
    void *ctx;
};

/* NULL on failure. */
struct http_server *http_server_open(uv_loop_t *loop, const struct http_config *config);

/* Does what is due. To be called once before and once after each poll of the loop. */
void http_server_turn(struct http_server *server);

/* Accepts no new connections, and closes each one after its next answer. */
void http_server_drain(struct http_server *server);

/* How many requests are not answered. */
int http_server_pending(const struct http_server *server);
int http_server_connections(const struct http_server *server);

/* Closes every connection. No request may be pending. The loop must run once more afterwards. */
void http_server_close(struct http_server *server);

/* ---- a request ---- */

/* How often the header is there. The value is that of the first one, without blanks at its ends. */
int http_request_header(const struct http_request *request, const char *name, const char **value,
                        size_t *length);

/* Answers. `headers` are name, value pairs that end with NULL, or NULL; everything is copied. */
void http_answer(struct http_request *request, int status, const char *content_type, const char *body,
                 size_t length, const char *const *headers);

#endif
