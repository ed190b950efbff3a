#include "service/http/refusals.h"

#include "service/http/connections.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

#include "service/http/server.h"

enum { DISCARDS_MAX = 64 };

static struct connection *connection_of(struct MHD_Connection *mhd) {
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    return info ? info->socket_context : NULL;
}

/* Writes the answer straight into the socket, past libmicrohttpd, and ends the stream. The memory of the
 * connection may have no room for the head of an answer, and after some of its own refusals version 0.9.75
 * goes on and sends a second head inside the first body. All earlier answers have been sent: the requests of
 * a connection are handled one after the other. */
static void refuse(struct connection *connection, const struct http_fault *fault, bool body_wanted) {
    if (connection->refused)
        return;
    connection->refused = true;
    const struct http_config *config = &connection->server->config;
    char body[1024], text[2048], date[64];
    size_t body_length = config->write_refusal ? config->write_refusal(body, sizeof body, fault->status,
                                                                       fault->field, fault->detail)
                                               : 0;
    time_t now = time(NULL);
    struct tm parts;
    strftime(date, sizeof date, "%a, %d %b %Y %H:%M:%S GMT", gmtime_r(&now, &parts));
    int length = snprintf(text, sizeof text,
                          "HTTP/1.1 %d %s\r\nDate: %s\r\nConnection: close\r\nCache-Control: no-store\r\n"
                          "Content-Type: application/problem+json\r\nContent-Length: %zu\r\n\r\n%.*s",
                          fault->status, MHD_get_reason_phrase_for((unsigned int)fault->status), date,
                          body_length, body_wanted ? (int)body_length : 0, body);
    config->on_answer(config->ctx, fault->status);
    if (send(connection->fd, text, (size_t)length, MSG_DONTWAIT | MSG_NOSIGNAL) >= 0)
        shutdown(connection->fd, SHUT_WR);
}

void http_refuse(struct MHD_Connection *mhd, const struct http_fault *fault, bool body_wanted) {
    struct connection *connection = connection_of(mhd);
    char discarded[4096];
    if (!connection)
        return;
    refuse(connection, fault, body_wanted);
    /* If bytes are unread when a socket is closed, the close is a reset, which may overtake the answer. */
    for (int i = 0; i < DISCARDS_MAX; i++)
        if (recv(connection->fd, discarded, sizeof discarded, MSG_DONTWAIT) <= 0)
            break;
}

static const struct http_fault too_large = {413, NULL, "a body is at most 16384 bytes"};

void http_refuse_body(struct MHD_Connection *mhd, bool body_wanted) {
    struct connection *connection = connection_of(mhd);
    if (connection)
        refuse(connection, &too_large, body_wanted);
}

/* ---- libmicrohttpd's own refusals ---- */

typedef enum MHD_Result queue_fn(struct MHD_Connection *mhd, unsigned int status,
                                 struct MHD_Response *response);

static queue_fn *library_queue;

static void find_library_queue(void) {
    *(void **)&library_queue = dlsym(RTLD_NEXT, "MHD_queue_response");
}

enum MHD_Result http_queue(struct MHD_Connection *mhd, unsigned int status, struct MHD_Response *response) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, find_library_queue);
    return library_queue(mhd, status, response);
}

/* libmicrohttpd answers a request that it cannot parse with a page of HTML, and no option changes that. But
 * it queues the page by this function, which it exports: as with any function of a shared library, the one of
 * the program takes its place, also for calls inside the library. So only libmicrohttpd calls this; the
 * program calls http_queue(). The page is queued all the same, but never sent: the stream has ended. */
enum MHD_Result MHD_queue_response(struct MHD_Connection *mhd, unsigned int status,
                                   struct MHD_Response *response) {
    struct http_fault fault = {400, "request",
                               "malformed: its request line, a header, its length or a chunk"};
    switch (status) {
    case 413: fault = too_large; break;
    case 414: fault = (struct http_fault){414, NULL, "the request line is more than fits: about 4 KB"}; break;
    case 431:
        fault = (struct http_fault){431, NULL, "request line and headers are more than fit: about 4 KB"};
        break;
    case 505: fault = (struct http_fault){505, NULL, "HTTP/1.1 and HTTP/1.0 are spoken here"}; break;
    default: break;
    }
    http_refuse(mhd, &fault, true);
    return http_queue(mhd, status, response);
}
