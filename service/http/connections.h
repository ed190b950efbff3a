/* The clients: whether one is there, and how long it has been silent. */
#ifndef SERVICE_HTTP_CONNECTIONS_H
#define SERVICE_HTTP_CONNECTIONS_H

#include <microhttpd.h>
#include <stdbool.h>
#include <uv.h>

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

void http_client_notify(void *cls, struct MHD_Connection *mhd, void **socket_context,
                        enum MHD_ConnectionNotificationCode code);
/* It completed a request, or was answered. */
void http_client_renew(struct connection *connection);
/* Closes those that are silent for too long; `timer` has the server. */
void http_client_sweep(uv_timer_t *timer);

#endif
