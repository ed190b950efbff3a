#include "service/http/connections.h"

#include <poll.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "service/http/server.h"

static void list_remove(struct connection *connection) {
    struct http_server *server = connection->server;
    *(connection->newer ? &connection->newer->older : &server->newest) = connection->older;
    *(connection->older ? &connection->older->newer : &server->oldest) = connection->newer;
}

static void list_renew(struct connection *connection) {
    struct http_server *server = connection->server;
    connection->since_ms = (int64_t)uv_now(server->loop);
    connection->newer = NULL;
    connection->older = server->newest;
    *(server->newest ? &server->newest->newer : &server->oldest) = connection;
    server->newest = connection;
}

void http_client_notify(void *cls, struct MHD_Connection *mhd, void **socket_context,
                        enum MHD_ConnectionNotificationCode code) {
    struct http_server *server = cls;
    struct connection *connection = *socket_context;
    if (code == MHD_CONNECTION_NOTIFY_STARTED) {
        const union MHD_ConnectionInfo *info =
            MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_CONNECTION_FD);
        connection = calloc(1, sizeof *connection);
        *socket_context = connection;
        if (!connection)
            return; /* its requests are refused */
        connection->server = server;
        connection->fd = info->connect_fd;
        server->connections++;
        list_renew(connection);
    } else if (connection) {
        list_remove(connection);
        server->connections--;
        free(connection);
        /* At its limit libmicrohttpd accepts no new connection until a run after this one. */
        uv_timer_start(&server->soon, http_server_soon, 0, 0);
    }
}

void http_client_renew(struct connection *connection) {
    connection->busy = false;
    list_remove(connection);
    list_renew(connection);
}

/* libmicrohttpd does not notice the end of a connection that came in one packet with the last data: its epoll
 * set is edge-triggered, and it takes a short read for the last one. So it is told again of connections that
 * have ended. */
static void tell_of_ends(struct pollfd *ends, nfds_t count) {
    if (poll(ends, count, 0) <= 0)
        return;
    for (nfds_t i = 0; i < count; i++)
        if (ends[i].revents)
            shutdown(ends[i].fd, SHUT_RD);
}

/* How long a client may be silent: shorter if nearly all places are taken, since others wait for one. */
static int idle_ms(const struct http_server *server) {
    const struct http_config *config = &server->config;
    bool crowded = server->connections >= config->connections_max - config->connections_max / 8;
    return crowded ? config->idle_ms / 12 : config->idle_ms;
}

/* The last in the list is silent for longest. libmicrohttpd takes the shutdown for a close by the client. */
void http_client_sweep(uv_timer_t *timer) {
    struct http_server *server = timer->data;
    int64_t now_ms = (int64_t)uv_now(server->loop), limit_ms = now_ms - idle_ms(server);
    struct pollfd ends[256];
    nfds_t count = 0;
    for (struct connection *connection = server->oldest, *newer;
         connection && connection->since_ms <= now_ms - HTTP_SWEEP_MS; connection = newer) {
        newer = connection->newer;
        if (connection->busy)
            continue;
        if (connection->since_ms < limit_ms) {
            shutdown(connection->fd, SHUT_RDWR);
            continue;
        }
        ends[count++] = (struct pollfd){.fd = connection->fd, .events = POLLRDHUP};
        if (count == sizeof ends / sizeof *ends) {
            tell_of_ends(ends, count);
            count = 0;
        }
    }
    tell_of_ends(ends, count);
}
