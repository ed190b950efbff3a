/* HTTP/1.1 on a libuv loop; the only files that know libmicrohttpd.
 *
 * A server belongs to one thread. Each request is handed to `on_request` once it is wholly there, and
 * answered by http_answer(): within that call, or later from the same loop. Every request must be answered;
 * the client may have left meanwhile, which does no harm.
 *
 * What is not HTTP/1.1 as RFC 9112 has it is refused before that (http_head.c, http_refusals.c), and the
 * connection closed.
 *
 * Bounds: request line and headers about 4 KB together (http_head.c), a body HTTP_BODY_MAX, connections as
 * configured, and a connection that completes no request within `idle_ms` is closed, whatever it trickles;
 * within a twelfth of that while seven eighths of all connections are taken. */
#ifndef SERVICE_HTTP_HTTP_H
#define SERVICE_HTTP_HTTP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

enum { HTTP_BODY_MAX = 16 * 1024, HTTP_PATH_MAX = 512, HTTP_CONTEXT_SIZE = 1024 };

struct http_request;
struct http_server;

struct http_config {
    int listen_fd; /* the server's from now on */
    int connections_max;
    int idle_ms;
    void (*on_request)(void *ctx, struct http_request *request);
    void (*on_answer)(void *ctx, int status); /* to count them */
    /* Writes the body, an application/problem+json, for a request that is refused before it is read: its
     * status is 400 (then the field is named), 413, 414, 431, 501 or 505. Returns its length. NULL: no body.
     */
    size_t (*write_refusal)(char *out, size_t size, int status, const char *field, const char *detail);
    void *ctx;
};

/* NULL on failure. */
struct http_server *http_server_open(uv_loop_t *loop, const struct http_config *config);

/* Does what has become due; to be called once before and once after each poll of the loop. */
void http_server_turn(struct http_server *server);

/* Accepts no more, and closes each connection with its next answer. */
void http_server_drain(struct http_server *server);

/* Requests that are not answered. */
int http_server_pending(const struct http_server *server);
int http_server_connections(const struct http_server *server);

/* Closes every connection; there must be no request pending. The loop has to run once more afterwards. */
void http_server_close(struct http_server *server);

/* ---- a request ---- */

const char *http_request_method(const struct http_request *request);
/* The path without the query, percent-decoded; what must not be decoded (%2F, %00) is blanks. */
const char *http_request_path(const struct http_request *request);
/* How often the header is there. The value is the first one's, without blanks at its ends. */
int http_request_header(const struct http_request *request, const char *name, const char **value,
                        size_t *length);
const char *http_request_body(const struct http_request *request, size_t *length);
/* More than HTTP_BODY_MAX was sent; the body is not kept. */
bool http_request_too_large(const struct http_request *request);
/* It has a content coding, so it is not what it looks like. */
bool http_request_encoded(const struct http_request *request);
/* Room for the handler's own data, HTTP_CONTEXT_SIZE bytes, aligned for anything; not cleared. Good until the
 * answer. */
void *http_request_context(struct http_request *request);
int64_t http_request_since_ns(const struct http_request *request);
void *http_request_server_ctx(const struct http_request *request);

/* Answers. `headers` are name, value pairs that end with NULL, or NULL; everything is copied. */
void http_answer(struct http_request *request, int status, const char *content_type, const char *body,
                 size_t length, const char *const *headers);

#endif
