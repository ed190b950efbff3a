/* The page server: HTTP by libmicrohttpd, with a thread for each connection, since an event stream blocks its
 * own. It serves the files of the page, the API, and the event streams; it never calls the stage. */
#ifndef LOADTEST_LAB_SERVE_PAGE_SERVER_H
#define LOADTEST_LAB_SERVE_PAGE_SERVER_H

#include <stddef.h>

#include "loadtest/lab/serve/run_control.h"

/* ---- the guard (guard.c) ----
 * It decides which requests may be answered. It refuses what another site's page could send from the user's
 * browser: to this address (the Origin is wrong, or the token is missing), or to a name of its own that it
 * has pointed at this address (DNS rebinding: the Host is wrong). Pure: no I/O. */

enum { GUARD_TOKEN_SIZE = 33 };

struct guard {
    int port;                     /* of the server */
    bool loopback;                /* the server listens on a loopback address */
    char token[GUARD_TOKEN_SIZE]; /* a request that changes something must carry it */
};

/* A header that the request does not have is NULL. */
struct guard_request {
    const char *method, *path;
    const char *host, *origin, *fetch_site, *content_type, *token;
};

struct guard_refusal {
    int status; /* of HTTP; 0: the request may be answered */
    const char *title, *detail;
};

struct guard_refusal guard_check(const struct guard *guard, const struct guard_request *request);

/* ---- the API of the page below /api/ (lab_api.c) ----
 * One request, one answer. Requests have passed the guard. Safe from many threads. */

enum { LAB_API_ORDER_SIZE = 4096, LAB_API_REPORT_SIZE = 32 << 20 };

struct lab_api {
    struct run_control *control;
    const char *session, *token;
};

struct lab_api_request {
    const char *method, *path;
    const char *body; /* ends with a NUL; NULL: there is none */
    size_t length;
};

struct lab_api_answer {
    int status;
    const char *type, *file; /* the browser saves the answer as `file`; NULL: it shows the answer */
    char *body;              /* the caller frees it; NULL: out of memory */
    size_t length;
};

void lab_api_handle(const struct lab_api *api, const struct lab_api_request *request,
                    struct lab_api_answer *answer);

/* Makes an error as JSON: what is wrong, and what to do. */
void lab_api_fail(struct lab_api_answer *answer, int status, const char *title, const char *detail);

/* Returns how large the body of a request may be, in bytes. */
size_t lab_api_body_max(const char *path);

/* Returns true, and the run in `id`, if the path asks for the events of a run; the run may not exist. */
bool lab_api_events_of(const char *path, char id[RUN_ID_SIZE]);

/* ---- event streams (event_stream.c) ----
 * An event stream is one connection that receives the events of a run as they happen, as Server-Sent Events.
 * It reads the file that the run writes, so all connections get the same events, whenever they begin. A
 * stream belongs to one thread. */

struct event_stream;

/* `after` is the number of the last line that the receiver has, as in `id:`; -1: none. The first line has the
 * number 0, an event has its `n`. Returns NULL when out of memory, or if there are too many streams. */
struct event_stream *event_stream_open(struct run_control *control, const struct lab_run *run, int64_t after);

/* Blocks until there is something to send, and writes at most `size` bytes of it to `text`. When nothing
 * happens, it sends a comment every few seconds, so that a closed connection is noticed. Returns 0 at the end
 * of the stream. */
size_t event_stream_read(struct event_stream *stream, char *text, size_t size);

void event_stream_close(struct event_stream *stream);

/* ---- the server ---- */

enum { PAGE_SERVER_CONNECTIONS = 64, PAGE_SERVER_ERROR_SIZE = 200 };

struct page_server {
    struct guard guard;
    struct lab_api api;
};

/* Listens at an IPv4 or IPv6 address, and fills in the port and the loopback of `server->guard`; port 0: any
 * free port. `server` must live until the process ends, since the server cannot be stopped. Returns false,
 * and the reason in `error`, if it cannot listen. */
bool page_server_open(struct page_server *server, const char *address, int port,
                      char error[PAGE_SERVER_ERROR_SIZE]);

#endif
