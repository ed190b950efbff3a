/* HTTP/1.1 on a libuv loop; of the service only this folder includes libmicrohttpd.
 *
 * A server belongs to one thread. It passes each request to `on_request` once the request is complete. The
 * handler answers by http_answer(): within that call, or later on the same loop. It must answer every
 * request, also if the client has left.
 *
 * The server itself refuses a request that is not HTTP/1.1 as in RFC 9112 (http_head.c), and then closes the
 * connection. */
#ifndef SERVICE_HTTP_HTTP_SERVER_H
#define SERVICE_HTTP_HTTP_SERVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

/* ---- the limits ---- */

enum {
    HTTP_BACKLOG = 4096,       /* connections that wait to be accepted, for each worker */
    HTTP_IDLE_MS = 60000,      /* a connection that completes no request for so long is closed */
    HTTP_BODY_MAX = 16 * 1024, /* bytes of a request's body */
    HTTP_PATH_MAX = 512,       /* bytes of a path with its NUL; a longer one is cut, and so not found */
    HTTP_CONTEXT_SIZE = 1024,  /* bytes of a handler's own data, for each request */
    HTTP_METHOD_MAX = 16,      /* bytes of a method with its NUL; a longer one is cut, and so not found */
    HTTP_WHO_SIZE = 72,        /* bytes of the name of a token, with its NUL */

    HTTP_REQUEST_ID_MAX = 128,    /* characters of an X-Request-Id */
    HTTP_MADE_ID_LENGTH = 32,     /* of one that the server makes */
    HTTP_TRACEPARENT_LENGTH = 55, /* of a traceparent, version 00 */
    HTTP_TRACE_ID_AT = 3,         /* where the trace's id begins in it */
    HTTP_TRACE_ID_LENGTH = 32,

    /* libmicrohttpd keeps the heads of a request and of its answer in one block of memory for each
     * connection, and clears it for each request. It is no larger than the heads of real browsers need:
     * request line and headers may have about 4 KB together. */
    HTTP_CONNECTION_MEMORY = 8 * 1024,

    /* A body that is declared too large is answered before it is read. Of a body that turns out too large, so
     * many bytes are read and thrown away before the server answers in the middle of it. Either way the
     * connection ends with the answer; a client that sends on is cut off after so many bytes. */
    HTTP_DISCARD_MAX = 1024 * 1024,
    HTTP_DISCARD_CUT = 16 * HTTP_DISCARD_MAX,

    /* If only 1/8 of the places for connections is free, a silent connection is closed after 1/12 of the idle
     * time. */
    HTTP_SPARE_SHARE = 8,
    HTTP_HURRY = 12,
};

/* ---- requests ---- */

struct http_server;

/* The names of a request in logs, its own and that of the trace that it belongs to (W3C Trace Context, level
 * 1). Each is "" until it is taken from the request or made up. They are visible ASCII that needs no escaping
 * in JSON. */
struct http_ids {
    char request_id[HTTP_REQUEST_ID_MAX + 1];
    char traceparent[HTTP_TRACEPARENT_LENGTH + 1]; /* the request's, with a span of ours */
};

/* A complete request, read-only for the handler but for what it notes. Valid until the answer. */
struct http_request {
    void *ctx; /* of http_config */
    const char *body;
    size_t length;      /* of the body */
    bool too_large;     /* the body is larger than HTTP_BODY_MAX, and was not kept */
    bool encoded;       /* the body has a content coding */
    int64_t arrived_ns; /* by the monotonic clock */
    void *context; /* HTTP_CONTEXT_SIZE bytes for the handler's own data, aligned for anything, not cleared */
    char method[HTTP_METHOD_MAX];
    char path[HTTP_PATH_MAX]; /* without the query, percent-decoded; %2F and %00 become blanks */
    struct http_ids ids;

    /* Noted by the handler, for the request log. */
    bool recorded;           /* the call belongs into it */
    const char *problem;     /* the type of the problem that was answered; NULL: none */
    char who[HTTP_WHO_SIZE]; /* the name of the token that the request bears; "": of nobody */
};

struct http_config {
    int listen_fd; /* the server owns it from now on */
    int connections_max;
    int idle_ms;
    void (*on_request)(void *ctx, struct http_request *request);
    /* Called for each answer. `request` has its ids; NULL: the server refused it itself. */
    void (*on_answer)(void *ctx, const struct http_request *request, int status);
    /* Writes the body, an application/problem+json, for a request that the server refuses itself. `status` is
     * 400 (then `field` is set), 413, 414, 431, 501 or 505. Returns the body's length. NULL: no body. */
    size_t (*write_refusal)(char *out, size_t size, int status, const char *field, const char *detail);
    void *ctx;
};

/* NULL on failure. */
struct http_server *http_server_open(uv_loop_t *loop, const struct http_config *config);

/* Reads and writes what is ready, without blocking. To be called once before and once after each poll of the
 * loop. */
void http_server_turn(struct http_server *server);

/* Accepts no new connections, and closes each one after its next answer. */
void http_server_drain(struct http_server *server);

/* How many requests are not answered. */
int http_server_pending(const struct http_server *server);
int http_server_connections(const struct http_server *server);

/* Closes every connection. No request may be pending. The loop must run once more afterwards. */
void http_server_close(struct http_server *server);

/* Returns how often the request has the header. The value is that of the first one, without blanks at its
 * ends; it is valid until the answer. */
int http_request_header(const struct http_request *request, const char *name, const char **value,
                        size_t *length);

/* Answers; the server adds X-Request-Id and traceparent. `headers` are name, value pairs that end with NULL,
 * or NULL; everything is copied. */
void http_answer(struct http_request *request, int status, const char *content_type, const char *body,
                 size_t length, const char *const *headers);

#endif
