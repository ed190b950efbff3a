#include "lock/libetcd/test/fake_server.h"

#include <netinet/in.h>
#include <pthread.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "test/harness.h"

/* Frames of HTTP/2: three bytes of length, type, flags, four bytes of stream. */
enum { FRAME = 9, DATA = 0, HEADERS = 1, SETTINGS = 4, PING = 6, ACK = 1, END_STREAM = 1, END_HEADERS = 4 };

struct fake_server {
    enum fake_server_kind kind;
    const struct fake_server_answer *answers;
    size_t count;
    int port, listener;
    pthread_t thread;
    pthread_mutex_t mutex; /* for what follows */
    bool stopping;
    int conn; /* -1: none */
    int asked;
};

/* ---- HTTP/2, the minimum ---- */

static bool receive(int conn, void *data, size_t size) {
    return size == 0 || recv(conn, data, size, MSG_WAITALL) == (ssize_t)size;
}

static bool send_frame(int conn, int type, int flags, uint32_t stream, const void *data, size_t size) {
    uint8_t frame[4096];
    if (size > sizeof frame - FRAME)
        return false;
    const uint8_t head[FRAME] = {(uint8_t)(size >> 16),   (uint8_t)(size >> 8),   (uint8_t)size,
                                 (uint8_t)type,           (uint8_t)flags,         (uint8_t)(stream >> 24),
                                 (uint8_t)(stream >> 16), (uint8_t)(stream >> 8), (uint8_t)stream};
    memcpy(frame, head, FRAME);
    if (size > 0)
        memcpy(frame + FRAME, data, size);
    return send(conn, frame, FRAME + size, MSG_NOSIGNAL) == (ssize_t)(FRAME + size);
}

/* A literal header, with texts shorter than 127 bytes. */
static size_t add_header(uint8_t *at, const char *name, const char *value) {
    size_t n = strlen(name), v = strlen(value);
    at[0] = 0;
    at[1] = (uint8_t)n;
    memcpy(at + 2, name, n);
    at[2 + n] = (uint8_t)v;
    memcpy(at + 3 + n, value, v);
    return 3 + n + v;
}

static bool answer(int conn, uint32_t stream, const struct fake_server_answer *given) {
    uint8_t block[1024], data[2048] = {0};
    size_t size = add_header(block, ":status", given->http ? given->http : "200");
    size += add_header(block + size, "content-type", "application/grpc");
    if (given->data) {
        /* Not compressed; then the length. */
        data[3] = (uint8_t)(given->size >> 8);
        data[4] = (uint8_t)given->size;
        memcpy(data + 5, given->data, given->size);
        if (!send_frame(conn, HEADERS, END_HEADERS, stream, block, size) ||
            !send_frame(conn, DATA, 0, stream, data, 5 + given->size))
            return false;
        size = 0;
    }
    const char digits[] = {(char)('0' + given->code / 10), (char)('0' + given->code % 10), '\0'};
    if (!given->http)
        size += add_header(block + size, "grpc-status", given->code < 10 ? digits + 1 : digits);
    if (given->message)
        size += add_header(block + size, "grpc-message", given->message);
    return send_frame(conn, HEADERS, END_HEADERS | END_STREAM, stream, block, size);
}

static bool serve_request(struct fake_server *server, uint32_t stream) {
    pthread_mutex_lock(&server->mutex);
    size_t at = (size_t)server->asked++;
    pthread_mutex_unlock(&server->mutex);
    const struct fake_server_answer *given = &server->answers[at < server->count ? at : server->count - 1];
    return given->how == FAKE_WAIT || (given->how == FAKE_ANSWER && answer(server->conn, stream, given));
}

/* False: the connection is over. */
static bool serve_frame(struct fake_server *server) {
    uint8_t head[FRAME], body[65536];
    if (!receive(server->conn, head, FRAME))
        return false;
    size_t size = (size_t)head[0] << 16 | (size_t)head[1] << 8 | head[2];
    uint32_t stream = (uint32_t)head[5] << 24 | (uint32_t)head[6] << 16 | (uint32_t)head[7] << 8 | head[8];
    if (size > sizeof body || !receive(server->conn, body, size))
        return false;
    if (head[3] == SETTINGS && !(head[4] & ACK))
        return send_frame(server->conn, SETTINGS, ACK, 0, NULL, 0);
    if (head[3] == PING && !(head[4] & ACK))
        return send_frame(server->conn, PING, ACK, 0, body, size);
    /* The end of the stream: a request has one message. */
    return head[3] != DATA || !(head[4] & END_STREAM) || serve_request(server, stream);
}

static void serve(struct fake_server *server) {
    static const char rubbish[] = "* OK [CAPABILITY IMAP4rev1] ready\r\n\0\xff\xff\xff\xff";
    char preface[24];
    if (server->kind == FAKE_CLOSES)
        return;
    if (server->kind == FAKE_RUBBISH)
        send(server->conn, rubbish, sizeof rubbish, MSG_NOSIGNAL);
    if (server->kind != FAKE_GRPC) {
        while (recv(server->conn, preface, sizeof preface, 0) > 0)
            continue;
        return;
    }
    if (!send_frame(server->conn, SETTINGS, 0, 0, NULL, 0) || !receive(server->conn, preface, sizeof preface))
        return;
    while (serve_frame(server))
        continue;
}

/* ---- the thread: one connection after another ---- */

static void *run(void *arg) {
    struct fake_server *server = arg;
    for (;;) {
        int conn = accept4(server->listener, NULL, NULL, SOCK_CLOEXEC);
        pthread_mutex_lock(&server->mutex);
        bool stopping = server->stopping;
        server->conn = conn;
        pthread_mutex_unlock(&server->mutex);
        if (conn >= 0 && !stopping)
            serve(server);
        pthread_mutex_lock(&server->mutex);
        if (conn >= 0)
            close(conn);
        server->conn = -1;
        pthread_mutex_unlock(&server->mutex);
        if (stopping || conn < 0)
            return NULL;
    }
}

static void stop(void *arg) {
    struct fake_server *server = arg;
    pthread_mutex_lock(&server->mutex);
    server->stopping = true;
    shutdown(server->listener, SHUT_RDWR);
    if (server->conn >= 0)
        shutdown(server->conn, SHUT_RDWR);
    pthread_mutex_unlock(&server->mutex);
    pthread_join(server->thread, NULL);
    close(server->listener);
    pthread_mutex_destroy(&server->mutex);
}

struct fake_server *fake_server_start(enum fake_server_kind kind, const struct fake_server_answer *answers,
                                      size_t count) {
    struct fake_server *server = harness_alloc(sizeof *server);
    int on = 1;
    *server = (struct fake_server){.kind = kind, .count = count, .port = harness_free_port(), .conn = -1};
    if (count > 0) {
        struct fake_server_answer *copy = harness_alloc(count * sizeof *copy);
        memcpy(copy, answers, count * sizeof *copy);
        server->answers = copy;
    }
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)server->port)};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    server->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    setsockopt(server->listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    CHECK_INT(bind(server->listener, (struct sockaddr *)&address, sizeof address), 0);
    CHECK_INT(listen(server->listener, 16), 0);
    pthread_mutex_init(&server->mutex, NULL);
    CHECK_INT(pthread_create(&server->thread, NULL, run, server), 0);
    harness_defer(stop, server);
    return server;
}

const char *fake_server_endpoint(const struct fake_server *server) {
    return harness_format("127.0.0.1:%d", server->port);
}

int fake_server_requests(struct fake_server *server) {
    pthread_mutex_lock(&server->mutex);
    int asked = server->asked;
    pthread_mutex_unlock(&server->mutex);
    return asked;
}
