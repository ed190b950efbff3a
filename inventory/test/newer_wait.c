#include "inventory/test/newer_wait.h"

#include <hiredis/hiredis.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

#include "test/harness.h"

enum { CLIENTS = 32, ARGS_MAX = 64, REPLICAS_MAX = 2 };

struct client {
    int fd, server; /* -1: nobody */
    redisReader *requests;
    bool wrote; /* since its last WAIT */
};

struct newer_wait {
    int redis_port, port, listener, wake[2];
    _Atomic int blind;
    const char *_Atomic refused;
    pthread_t thread; /* which alone touches the clients */
    struct client clients[CLIENTS];
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

static void leave(struct client *client) {
    if (client->fd < 0)
        return;
    close(client->fd);
    close(client->server);
    redisReaderFree(client->requests);
    client->fd = client->server = -1;
}

static void let_in(struct newer_wait *relay) {
    int fd = accept4(relay->listener, NULL, NULL, SOCK_CLOEXEC), i = 0;
    while (i < CLIENTS && relay->clients[i].fd >= 0)
        i++;
    int server = i < CLIENTS ? open_socket(relay->redis_port, false) : -1;
    if (server >= 0)
        relay->clients[i] = (struct client){fd, server, redisReaderCreate(), false};
    else
        close(fd);
}

/* Scripts are the only writes of connections that WAIT. For more replicas than there are, all WAITs wait. */
static bool pass_command(struct newer_wait *relay, struct client *client, const redisReply *command) {
    const char *argv[ARGS_MAX] = {NULL};
    size_t lengths[ARGS_MAX];
    int argc = 0;
    for (; argc < ARGS_MAX && (size_t)argc < command->elements; argc++) {
        argv[argc] = command->element[argc]->str;
        lengths[argc] = (size_t)command->element[argc]->len;
    }
    char *text = NULL;
    int length;
    bool waits = argc == 3 && strcasecmp(argv[0], "WAIT") == 0;
    bool script = argc > 3 && strncasecmp(argv[0], "EVAL", 4) == 0;
    const char *refused = relay->refused;
    if (waits && !client->wrote && strtol(argv[1], NULL, 10) <= REPLICAS_MAX) {
        relay->blind++;
        length = redisFormatCommand(&text, "EVAL %s 0", "return 1");
    } else if (script && refused && strstr(argv[3], refused)) {
        length = redisFormatCommand(&text, "EVAL %s 0", "return redis.error_reply('OOM no memory')");
    } else {
        length = (int)redisFormatCommandArgv(&text, argc, argv, lengths);
        client->wrote = !waits && (client->wrote || script);
    }
    bool sent = length > 0 && send(client->server, text, (size_t)length, MSG_NOSIGNAL) == length;
    redisFreeCommand(text);
    return sent;
}

static bool pass_requests(struct newer_wait *relay, struct client *client) {
    char bytes[65536];
    void *command = NULL;
    ssize_t got = recv(client->fd, bytes, sizeof bytes, 0);
    bool ok = got > 0 && redisReaderFeed(client->requests, bytes, (size_t)got) == REDIS_OK;
    while (ok && redisReaderGetReply(client->requests, &command) == REDIS_OK && command) {
        ok = pass_command(relay, client, command);
        freeReplyObject(command);
        command = NULL;
    }
    return ok;
}

static bool pass_replies(const struct client *client) {
    char bytes[65536];
    ssize_t got = recv(client->server, bytes, sizeof bytes, 0);
    return got > 0 && send(client->fd, bytes, (size_t)got, MSG_NOSIGNAL) == got;
}

static void *serve(void *arg) {
    struct newer_wait *relay = arg;
    struct pollfd polled[2 + 2 * CLIENTS] = {{.fd = relay->wake[0], .events = POLLIN},
                                             {.fd = relay->listener, .events = POLLIN}};
    while (!polled[0].revents) {
        for (int i = 0; i < CLIENTS; i++) {
            polled[2 + 2 * i] = (struct pollfd){.fd = relay->clients[i].fd, .events = POLLIN};
            polled[3 + 2 * i] = (struct pollfd){.fd = relay->clients[i].server, .events = POLLIN};
        }
        if (poll(polled, 2 + 2 * CLIENTS, -1) < 0)
            continue;
        for (int i = 0; i < CLIENTS; i++) {
            struct client *client = &relay->clients[i];
            if ((polled[2 + 2 * i].revents && !pass_requests(relay, client)) ||
                (polled[3 + 2 * i].revents && !pass_replies(client)))
                leave(client);
        }
        if (polled[1].revents)
            let_in(relay);
    }
    return NULL;
}

static void stop(void *arg) {
    struct newer_wait *relay = arg;
    close(relay->wake[1]);
    pthread_join(relay->thread, NULL);
    for (int i = 0; i < CLIENTS; i++)
        leave(&relay->clients[i]);
    close(relay->listener);
    close(relay->wake[0]);
    free(relay);
}

struct newer_wait *newer_wait_start(int redis_port) {
    struct newer_wait *relay = calloc(1, sizeof *relay);
    if (!relay)
        abort();
    relay->redis_port = redis_port;
    relay->port = harness_free_port();
    relay->listener = open_socket(relay->port, true);
    for (int i = 0; i < CLIENTS; i++)
        relay->clients[i].fd = relay->clients[i].server = -1;
    CHECK(relay->listener >= 0 && pipe(relay->wake) == 0);
    CHECK_INT(pthread_create(&relay->thread, NULL, serve, relay), 0);
    harness_defer(stop, relay);
    return relay;
}

int newer_wait_port(const struct newer_wait *relay) {
    return relay->port;
}

int newer_wait_blind(const struct newer_wait *relay) {
    return relay->blind;
}

void newer_wait_refuse(struct newer_wait *relay, const char *key) {
    relay->refused = key;
}
