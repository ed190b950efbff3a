/* The connections of clients, and how long each has been silent. */
#ifndef SERVICE_HTTP_CONNECTIONS_H
#define SERVICE_HTTP_CONNECTIONS_H

#include <microhttpd.h>
#include <stdbool.h>
#include <uv.h>

/* In a list from the connection that completed a request last to the one that is silent for longest. */
struct connection {
    struct connection *newer, *older;
    struct http_server *server;
    int64_t since_ms; /* when it was made, or completed a request */
    int fd;
    bool busy;    /* a request is in flight, which has a deadline of its own */
    bool refused; /* http_refuse() has ended its stream */
};

void http_client_notify(void *cls, struct MHD_Connection *mhd, void **socket_context,
                        enum MHD_ConnectionNotificationCode code);
/* The connection completed a request, or was answered. */
void http_client_renew(struct connection *connection);
/* Closes the connections that are silent for too long; `timer` has the server. */
void http_client_sweep(uv_timer_t *timer);

#endif
