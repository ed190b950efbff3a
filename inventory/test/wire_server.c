#include "inventory/test/wire_server.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <sys/socket.h>
#include <unistd.h>

#include "test/harness.h"

enum { CLIENTS = 32 };

struct wire_server {
    pthread_t thread; /* which alone touches the clients */
    int wake[2], listener[WIRE_PORTS_MAX], count, upstream_port;
    wire_command_fn *on_command;
    void *ctx;
    struct wire_client clients[CLIENTS];
};

static int open_socket(int port, bool listening) {
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    int on = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    bool ok = listening ? bind(fd, (struct sockaddr *)&at, sizeof at) == 0 && listen(fd, CLIENTS) == 0
                        : connect(fd, (struct sockaddr *)&at, sizeof at) == 0;
    if (ok)
        return fd;
    close(fd);
    return -1;
}

static void leave(struct wire_client *client) {
    if (client->fd < 0)
        return;
    close(client->fd);
    if (client->upstream >= 0)
        close(client->upstream);
    redisReaderFree(client->requests);
    client->fd = client->upstream = -1;
}

static void let_in(struct wire_server *wire, int server) {
    int fd = accept4(wire->listener[server], NULL, NULL, SOCK_CLOEXEC), i = 0;
    while (i < CLIENTS && wire->clients[i].fd >= 0)
        i++;
    int upstream = i < CLIENTS && wire->upstream_port ? open_socket(wire->upstream_port, false) : -1;
    if (i == CLIENTS || (wire->upstream_port && upstream < 0))
        close(fd);
    else
        wire->clients[i] = (struct wire_client){
            .fd = fd, .server = server, .upstream = upstream, .requests = redisReaderCreate()};
}

static bool pass_requests(struct wire_server *wire, struct wire_client *client) {
    char bytes[65536];
    void *command = NULL;
    ssize_t got = recv(client->fd, bytes, sizeof bytes, 0);
    bool ok = got > 0 && redisReaderFeed(client->requests, bytes, (size_t)got) == REDIS_OK;
    while (ok && redisReaderGetReply(client->requests, &command) == REDIS_OK && command) {
        ok = wire->on_command(wire->ctx, client, command);
        freeReplyObject(command);
        command = NULL;
    }
    return ok;
}

static bool pass_replies(const struct wire_client *client) {
    char bytes[65536];
    ssize_t got = recv(client->upstream, bytes, sizeof bytes, 0);
    return got > 0 && send(client->fd, bytes, (size_t)got, MSG_NOSIGNAL) == got;
}

static void *serve(void *arg) {
    struct wire_server *wire = arg;
    struct pollfd polled[1 + WIRE_PORTS_MAX + 2 * CLIENTS] = {{.fd = wire->wake[0], .events = POLLIN}};
    struct pollfd *from = &polled[1 + WIRE_PORTS_MAX], *back = from + CLIENTS;
    while (!polled[0].revents) {
        for (int i = 0; i < WIRE_PORTS_MAX; i++)
            polled[1 + i] = (struct pollfd){.fd = wire->listener[i], .events = POLLIN};
        for (int i = 0; i < CLIENTS; i++) {
            from[i] = (struct pollfd){.fd = wire->clients[i].fd, .events = POLLIN};
            back[i] = (struct pollfd){.fd = wire->clients[i].upstream, .events = POLLIN};
        }
        if (poll(polled, sizeof polled / sizeof *polled, -1) < 0)
            continue;
        for (int i = 0; i < CLIENTS; i++) {
            struct wire_client *client = &wire->clients[i];
            if ((from[i].revents && !pass_requests(wire, client)) ||
                (back[i].revents && !pass_replies(client)))
                leave(client);
        }
        for (int i = 0; i < wire->count; i++) {
            if (polled[1 + i].revents)
                let_in(wire, i);
        }
    }
    return NULL;
}

static void stop(void *arg) {
    struct wire_server *wire = arg;
    close(wire->wake[1]);
    pthread_join(wire->thread, NULL);
    for (int i = 0; i < CLIENTS; i++)
        leave(&wire->clients[i]);
    for (int i = 0; i < wire->count; i++)
        close(wire->listener[i]);
    close(wire->wake[0]);
}

void wire_serve(int ports[], int count, int upstream_port, wire_command_fn *on_command, void *ctx) {
    struct wire_server *wire = harness_alloc(sizeof *wire);
    *wire = (struct wire_server){
        .count = count, .upstream_port = upstream_port, .on_command = on_command, .ctx = ctx};
    CHECK_INT(pipe(wire->wake), 0);
    for (int i = 0; i < WIRE_PORTS_MAX; i++)
        wire->listener[i] = -1;
    for (int i = 0; i < count; i++) {
        ports[i] = harness_free_port();
        wire->listener[i] = open_socket(ports[i], true);
        CHECK(wire->listener[i] >= 0);
    }
    for (int i = 0; i < CLIENTS; i++)
        wire->clients[i].fd = wire->clients[i].upstream = -1;
    CHECK_INT(pthread_create(&wire->thread, NULL, serve, wire), 0);
    harness_defer(stop, wire);
}
