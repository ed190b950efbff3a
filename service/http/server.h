/* A server and its requests, for the files of this folder. */
#ifndef SERVICE_HTTP_SERVER_H
#define SERVICE_HTTP_SERVER_H

#include <microhttpd.h>

#include "service/http/http.h"

enum {
    /* libmicrohttpd keeps the heads of a request and of its answer in one block of memory a connection, and
     * clears it for each request. It is no larger than the heads of real browsers need. */
    CONNECTION_MEMORY = 8 * 1024,
    BODY_START = 512,
    HTTP_SWEEP_MS = 1000,
};

struct exchange {
    struct http_request request;
    struct exchange *next; /* in the list of spare ones */
    struct http_server *server;
    struct MHD_Connection *mhd; /* NULL once the client has left */
    struct connection *connection;
    char *body; /* of the request: `start`, or allocated */
    size_t size, discarded;
    struct MHD_Response *response; /* of a suspended request: sent when it is resumed */
    unsigned int status;
    bool handled, answered, suspended;
    char start[BODY_START];
    _Alignas(max_align_t) unsigned char context[HTTP_CONTEXT_SIZE];
};

struct http_server {
    struct http_config config;
    uv_loop_t *loop;
    struct MHD_Daemon *daemon;
    uv_poll_t poll;
    uv_timer_t sweep;
    uv_timer_t soon; /* for MHD_get_timeout() */
    struct connection *newest, *oldest;
    struct exchange *spare;
    int spares, connections;
    int receiving, pending; /* requests that are not complete; that are not answered */
    int closing;            /* handles that are not closed yet */
    bool answered;          /* an answer is to be sent */
    bool ready;             /* a run is due */
    bool progress;          /* the last run did something after which there may be more to do at once */
    bool received;          /* the last run read something */
    bool draining;
};

/* To have the server run once more, at once; `timer` has the server. */
static inline void http_server_soon(uv_timer_t *timer) {
    ((struct http_server *)timer->data)->ready = true;
}

#endif
