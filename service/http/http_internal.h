/* What http_server.c and http_head.c share. */
#ifndef SERVICE_HTTP_HTTP_INTERNAL_H
#define SERVICE_HTTP_HTTP_INTERNAL_H

#include <microhttpd.h>
#include <sys/queue.h>

#include "service/http/http_server.h"

/* A client's connection. */
struct http_connection {
    TAILQ_ENTRY(http_connection) next;
    struct http_server *server;
    int64_t since_ms; /* when it was made, or completed a request */
    int fd;
    struct http_exchange *exchange; /* the request that is received or answered; NULL: none */
    bool busy;                      /* a request is in flight, which has a deadline of its own */
    bool refused;                   /* http_refuse() or http_refuse_body() has ended its stream */
};

/* A request and its answer. The handler gets its first member. */
struct http_exchange {
    struct http_request request;
    struct http_exchange *next; /* in the list of spare ones */
    struct http_server *server;
    struct MHD_Connection *mhd; /* NULL once the client has left */
    struct http_connection *connection;
    char *body; /* of the request: `start`, or allocated */
    size_t size, discarded;
    struct MHD_Response *response; /* of a suspended request: sent when it is resumed */
    unsigned int status;
    bool handled, answered, suspended;
    char start[512];
    _Alignas(max_align_t) unsigned char context[HTTP_CONTEXT_SIZE];
};

/* Random bytes for made-up ids. */
struct http_random {
    unsigned char seed[32]; /* of the next block */
    unsigned char bytes[2048];
    size_t used;
};

struct http_server {
    struct http_config config;
    struct http_random random;
    uv_loop_t *loop;
    struct MHD_Daemon *daemon;
    uv_poll_t poll;
    uv_timer_t sweep; /* closes silent connections */
    uv_timer_t soon;  /* for MHD_get_timeout() */
    /* All connections; the one that is silent for longest is the first. */
    TAILQ_HEAD(http_connections, http_connection) silent;
    struct http_exchange *spare;
    int spares, connections;
    int receiving, pending; /* requests that are not complete; that are not answered */
    int closing;            /* handles that are not closed yet */
    bool answered;          /* an answer is to be sent */
    bool ready;             /* a run is due */
    bool progress;          /* the last run did something after which there may be more to do at once */
    bool received;          /* the last run read something */
    bool draining;
};

/* ---- http_head.c ---- */

/* Why the server refuses a request before it is read. `field` is set only with status 400. */
struct http_fault {
    int status; /* 0: the server does not refuse it */
    const char *field, *detail;
};

/* The callbacks of libmicrohttpd that unescape a path, and that see a target before it is parsed. */
size_t http_head_unescape(void *cls, struct MHD_Connection *mhd, char *text);
void *http_head_target(void *cls, const char *target, struct MHD_Connection *mhd);
/* Whether `next` is the line of a head behind the line that ends at `end`. */
bool http_head_follows(const char *end, const char *next);
/* A header: how often it is there, and the first one, maybe with blanks behind it. */
struct http_header {
    const char *value;
    size_t length;
    int count;
};

/* What a head says besides. */
struct http_head_facts {
    bool encoded; /* the body has a content coding */
    struct http_header request_id, traceparent;
};

/* Judges the head of a request. */
struct http_fault http_head_judge(struct MHD_Connection *mhd, const char *method, const char *target,
                                  const char *version, struct http_head_facts *facts);

/* Answers with the fault. `ids`: those that were taken from the request. The caller must end the connection.
 */
void http_refuse(struct MHD_Connection *mhd, const struct http_ids *ids, const struct http_fault *fault,
                 bool body_wanted);
/* The same while a body that is too large still arrives. The caller must read on: if bytes are unread when a
 * socket is closed, the close is a reset, which may overtake the answer. */
void http_refuse_body(struct MHD_Connection *mhd, bool body_wanted);
/* MHD_queue_response(), for the program's own answers. */
enum MHD_Result http_queue(struct MHD_Connection *mhd, unsigned int status, struct MHD_Response *response);

/* ---- request_id.c ---- */

void http_random_open(struct http_random *random);
/* Takes what is there once and valid. */
void http_ids_take(struct http_ids *ids, struct http_random *random, const struct http_header *request_id,
                   const struct http_header *traceparent);
/* Makes up what was not taken. */
void http_ids_complete(struct http_ids *ids, struct http_random *random);

/* Returns the server's record of a connection; NULL: it could not be allocated. */
static inline struct http_connection *http_connection_of(struct MHD_Connection *mhd) {
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    return info ? info->socket_context : NULL;
}

#endif
