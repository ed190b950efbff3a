/* What the files of the HTTP server share. Not for others. */
#ifndef SERVICE_HTTP_SERVER_H
#define SERVICE_HTTP_SERVER_H

#include <microhttpd.h>

#include "service/http/http.h"

enum {
    /* libmicrohttpd keeps the head of a request and of its answer in one piece of memory a connection, and
     * clears it for each request: no larger than heads of real browsers need. */
    CONNECTION_MEMORY = 8 * 1024,
    BODY_START = 512,
    HTTP_SWEEP_MS = 1000,
};

/* A client's connection, in a list from the one that completed a request last to the one that waits longest.
 */
struct connection {
    struct connection *newer, *older;
    struct http_server *server;
    int64_t since_ms; /* connected, or completed a request */
    int fd;
    bool busy;    /* its request is being worked on, under that one's own deadline */
    bool refused; /* http_refuse() has ended its stream */
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
    bool handled, answered, suspended, too_large, encoded;
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

/* http_clients.c: whether a client is there, and for how long it has been silent. */
void http_client_notify(void *cls, struct MHD_Connection *mhd, void **socket_context,
                        enum MHD_ConnectionNotificationCode code);
/* It completed a request, or was answered. */
void http_client_renew(struct connection *connection);
/* Closes those that are silent for too long; `timer` has the server. */
void http_client_sweep(uv_timer_t *timer);

/* Why a request is refused before it is read; `field` is NULL but with status 400. */
struct http_fault {
    int status; /* 0: it is not */
    const char *field, *detail;
};

/* http_head.c: what a request's head may be. */
size_t http_head_unescape(void *cls, struct MHD_Connection *mhd, char *text);
void *http_head_target(void *cls, const char *target, struct MHD_Connection *mhd);
/* `encoded`: the body has a content coding. */
struct http_fault http_head_judge(struct MHD_Connection *mhd, const char *method, const char *target,
                                  const char *version, bool *encoded);

/* http_refusals.c: what is answered to a request that nobody reads. The connection must end with it. */
void http_refuse(struct MHD_Connection *mhd, const struct http_fault *fault, bool body_wanted);
/* The same while a body that is too large still comes: it must be read on, since what is unread when a socket
 * is closed makes the close a reset, which may overtake the answer. */
void http_refuse_body(struct MHD_Connection *mhd, bool body_wanted);
/* MHD_queue_response(), for the program's own answers. */
enum MHD_Result http_queue(struct MHD_Connection *mhd, unsigned int status, struct MHD_Response *response);

/* To have the server run once more, at once; `timer` has the server. */
void http_server_soon(uv_timer_t *timer);

#endif
