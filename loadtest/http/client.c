#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "loadtest/http/client.h"

#define KEEPALIVE_S 60 /* silent for so long, the peer's host is asked whether it is there still */

static void start(struct client *client);

static const char *split_url(const char *url, char *host, size_t size, char *port, size_t port_size) {
    if (strncmp(url, "http://", 7) != 0) {
        return "it must begin with http:// (TLS is not spoken: test behind whatever ends it)";
    }
    const char *from = url + 7;
    const char *end = from + strcspn(from, "/?#");
    if (end[0] != '\0' && strcmp(end, "/") != 0) {
        return "it must not have a path: /v1/... is added to it";
    }
    const char *host_end = memrchr(from, ']', (size_t)(end - from));
    const char *colon =
        memchr(host_end != NULL ? host_end : from, ':', (size_t)(end - (host_end != NULL ? host_end : from)));
    host_end = host_end != NULL ? host_end : colon != NULL ? colon : end;
    if (from[0] == '[') {
        from++;
    }
    size_t host_length = (size_t)(host_end - from);
    if (host_end <= from || host_length >= size) {
        return "it has no host";
    }
    memcpy(host, from, host_length);
    host[host_length] = '\0';
    size_t port_length = colon != NULL ? (size_t)(end - colon - 1) : 2;
    if (port_length < port_size) {
        memcpy(port, colon != NULL ? colon + 1 : "80", port_length);
        port[port_length] = '\0';
        long number = strtol(port, NULL, 10);
        if (strspn(port, "0123456789") == port_length && number >= 1 && number <= 65535) {
            return NULL;
        }
    }
    return "its port is not a number from 1 to 65535";
}

static bool accepts(const struct addrinfo *info) {
    int fd = socket(info->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        return false;
    }
    struct timeval limit = {.tv_sec = 2};
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
    bool good = connect(fd, info->ai_addr, info->ai_addrlen) == 0;
    close(fd);
    return good;
}

const char *client_resolve(const char *url, struct client_target *target) {
    char host[256];
    char port[6];
    const char *wrong = split_url(url, host, sizeof host, port, sizeof port);
    if (wrong != NULL) {
        return wrong;
    }
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV};
    struct addrinfo *list = NULL;
    int error = getaddrinfo(host, port, &hints, &list);
    if (error != 0 || list == NULL) {
        return gai_strerror(error);
    }
    const struct addrinfo *chosen = list;
    memset(target, 0, sizeof *target);
    for (const struct addrinfo *info = list; !target->accepts && info != NULL; info = info->ai_next) {
        if (accepts(info)) {
            target->accepts = true;
            chosen = info;
        }
    }
    memcpy(&target->address, chosen->ai_addr, chosen->ai_addrlen);
    bool literal_6 = strchr(host, ':') != NULL;
    snprintf(target->host, sizeof target->host, literal_6 ? "[%s]:%s" : "%s:%s", host, port);
    freeaddrinfo(list);
    return NULL;
}

void client_init(struct client *client, uv_loop_t *loop,
                 void (*done)(struct client *client, enum client_result result)) {
    memset(client, 0, sizeof *client);
    client->loop = loop;
    client->done = done;
    client->tcp.data = client;
    client->state = CLIENT_DOWN;
}

static void on_closed(uv_handle_t *handle) {
    struct client *client = handle->data;
    client->state = CLIENT_DOWN;
    if (client->finished) {
        client->finished = false;
        client->done(client, client->result);
    } else if (client->wanted) {
        client->wanted = false;
        start(client);
    }
}

static void shut(struct client *client) {
    client->state = CLIENT_CLOSING;
    uv_close((uv_handle_t *)&client->tcp, on_closed);
}

/* Ends the request under way; the owner hears of it when the socket is gone. */
static void finish(struct client *client, enum client_result result) {
    client->finished = true;
    client->result = result;
    shut(client);
}

static void on_buffer(uv_handle_t *handle, size_t suggested, uv_buf_t *buffer) {
    (void)suggested;
    struct client_buffer *shared = handle->loop->data;
    *buffer = uv_buf_init(shared->bytes, sizeof shared->bytes);
}

/* Bytes beyond the answer, or an answer ahead of the request's end: what follows could not be told apart. */
static void on_answer(struct client *client, bool more_bytes) {
    bool early = uv_stream_get_write_queue_size((uv_stream_t *)&client->tcp) > 0;
    client->answered_ns = uv_hrtime();
    if (!client->response.keep_alive || more_bytes || early) {
        finish(client, CLIENT_ANSWERED);
    } else {
        client->state = CLIENT_IDLE;
        client->done(client, CLIENT_ANSWERED);
    }
}

static void on_read(uv_stream_t *stream, ssize_t count, const uv_buf_t *buffer) {
    struct client *client = stream->data;
    if (count == 0 || client->state == CLIENT_CLOSING) {
        return;
    }
    if (client->state == CLIENT_IDLE) { /* the peer hangs up, or says what nobody asked */
        shut(client);
        return;
    }
    if (count < 0) {
        bool whole = count == UV_EOF && response_close(&client->response) == RESPONSE_DONE;
        if (whole) {
            on_answer(client, false);
        } else {
            finish(client, CLIENT_BROKEN);
        }
        return;
    }
    size_t used = 0;
    switch (response_feed(&client->response, buffer->base, (size_t)count, &used)) {
    case RESPONSE_MORE: break;
    case RESPONSE_DONE: on_answer(client, used < (size_t)count); break;
    case RESPONSE_BAD: finish(client, CLIENT_UNREADABLE); break;
    }
}

static void on_written(uv_write_t *writing, int status) {
    struct client *client = writing->handle->data;
    if (status < 0 && client->state == CLIENT_BUSY) {
        finish(client, CLIENT_BROKEN);
    }
}

static void send_request(struct client *client) {
    uv_buf_t buffer = uv_buf_init(client->request, (unsigned)client->request_length);
    response_reset(&client->response);
    client->state = CLIENT_BUSY;
    client->sent_ns = uv_hrtime();
    int taken = uv_try_write((uv_stream_t *)&client->tcp, &buffer, 1);
    if (taken == (int)client->request_length) {
        return;
    }
    if (taken < 0 && taken != UV_EAGAIN) {
        finish(client, CLIENT_NOT_SENT);
        return;
    }
    size_t part = taken > 0 ? (size_t)taken : 0;
    buffer = uv_buf_init(client->request + part, (unsigned)(client->request_length - part));
    if (uv_write(&client->writing, (uv_stream_t *)&client->tcp, &buffer, 1, on_written) != 0) {
        finish(client, CLIENT_BROKEN);
    }
}

static void on_connected(uv_connect_t *connecting, int status) {
    struct client *client = connecting->handle->data;
    if (client->state != CLIENT_CONNECTING) {
        return;
    }
    if (status < 0 || uv_read_start((uv_stream_t *)&client->tcp, on_buffer, on_read) != 0) {
        finish(client, CLIENT_NOT_SENT);
        return;
    }
    uv_tcp_nodelay(&client->tcp, 1);
    uv_tcp_keepalive(&client->tcp, 1, KEEPALIVE_S);
    client->connects++;
    client->peer = client->target;
    send_request(client);
}

static void start(struct client *client) {
    uv_tcp_init(client->loop, &client->tcp); /* without a socket yet: cannot fail */
    client->state = CLIENT_CONNECTING;
    if (uv_tcp_connect(&client->connecting, &client->tcp, (const struct sockaddr *)&client->target->address,
                       on_connected) != 0) {
        finish(client, CLIENT_NOT_SENT);
    }
}

void client_send(struct client *client, const struct client_target *target, size_t length,
                 uint64_t deadline_ns) {
    client->target = target;
    client->request_length = length;
    client->deadline_ns = deadline_ns;
    if (client->state == CLIENT_IDLE && client->peer == target) {
        send_request(client);
    } else if (client->state == CLIENT_DOWN) {
        start(client);
    } else {
        client->wanted = true;
        if (client->state == CLIENT_IDLE) {
            shut(client);
        }
    }
}

void client_check(struct client *client, uint64_t now_ns) {
    if (now_ns < client->deadline_ns) {
        return;
    }
    if (client->state == CLIENT_CONNECTING) {
        finish(client, CLIENT_NOT_SENT);
    } else if (client->state == CLIENT_BUSY) {
        finish(client, CLIENT_TIMED_OUT);
    }
}

void client_close(struct client *client) {
    client->finished = false;
    client->wanted = false;
    if (client->state != CLIENT_DOWN && client->state != CLIENT_CLOSING) {
        shut(client);
    }
}
