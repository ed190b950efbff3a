/* A blocking HTTP/1.1 client that does no more than it is told, within a deadline. */
#include "test/harness.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

enum { MOST_BODY = 64 << 20 };

bool web_open_at(struct web_conn *conn, const char *host, int port, int timeout_ms) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    struct timeval patience = {timeout_ms / 1000, timeout_ms % 1000 * 1000L};
    int on = 1;
    CHECK_INT(inet_pton(AF_INET, host, &address.sin_addr), 1);
    conn->timeout_ms = timeout_ms;
    conn->held = 0;
    conn->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (conn->fd < 0)
        FAIL("socket: %s", strerror(errno));
    setsockopt(conn->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    setsockopt(conn->fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
    if (connect(conn->fd, (struct sockaddr *)&address, sizeof address) == 0)
        return true;
    web_close(conn);
    return false;
}

bool web_open(struct web_conn *conn, int port) {
    return web_open_at(conn, "127.0.0.1", port, 10000);
}

void web_close(struct web_conn *conn) {
    if (conn->fd >= 0)
        close(conn->fd);
    conn->fd = -1;
}

static enum web_result wait_for(const struct web_conn *conn, short events, int64_t deadline_ms) {
    struct pollfd ready = {.fd = conn->fd, .events = events};
    if (conn->fd < 0)
        return WEB_CLOSED;
    for (;;) {
        int64_t left = deadline_ms - harness_now_ms();
        int n = poll(&ready, 1, left > 0 ? (int)left : 0);
        if (n > 0)
            return WEB_OK;
        if (n == 0)
            return WEB_TIMEOUT;
        if (errno != EINTR)
            return WEB_CLOSED;
    }
}

/* Takes what is held, else what the socket has: at most `size` bytes, at least one. */
static enum web_result receive(struct web_conn *conn, int64_t deadline_ms, void *to, size_t size,
                               size_t *got) {
    if (conn->held) {
        *got = size < conn->held ? size : conn->held;
        memcpy(to, conn->buffer, *got);
        conn->held -= *got;
        memmove(conn->buffer, conn->buffer + *got, conn->held);
        return WEB_OK;
    }
    enum web_result result = wait_for(conn, POLLIN, deadline_ms);
    if (result != WEB_OK)
        return result;
    ssize_t n = recv(conn->fd, to, size, 0);
    *got = n > 0 ? (size_t)n : 0;
    return n > 0 ? WEB_OK : WEB_CLOSED;
}

enum web_result web_send_raw(struct web_conn *conn, const void *data, size_t size) {
    int64_t deadline_ms = harness_now_ms() + conn->timeout_ms;
    for (const char *at = data; size > 0;) {
        enum web_result result = wait_for(conn, POLLOUT, deadline_ms);
        if (result != WEB_OK)
            return result;
        ssize_t n = send(conn->fd, at, size, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n < 0 && errno != EAGAIN && errno != EINTR)
            return WEB_CLOSED;
        if (n > 0) {
            at += n;
            size -= (size_t)n;
        }
    }
    return WEB_OK;
}

void web_send_text(struct web_conn *conn, const char *text) {
    CHECK_INT(web_send_raw(conn, text, strlen(text)), WEB_OK);
}

/* Fills the buffer until the head is whole, and takes it out. */
static enum web_result read_headers(struct web_conn *conn, int64_t deadline_ms,
                                    struct web_response *response) {
    char *end;
    while (!(end = memmem(conn->buffer, conn->held, "\r\n\r\n", 4))) {
        if (conn->held == sizeof conn->buffer)
            return WEB_GARBAGE;
        enum web_result result = wait_for(conn, POLLIN, deadline_ms);
        if (result != WEB_OK)
            return result;
        ssize_t n = recv(conn->fd, conn->buffer + conn->held, sizeof conn->buffer - conn->held, 0);
        if (n <= 0)
            return WEB_CLOSED;
        conn->held += (size_t)n;
    }
    size_t length = (size_t)(end + 4 - conn->buffer);
    response->headers = harness_format("%.*s", (int)length, conn->buffer);
    conn->held -= length;
    memmove(conn->buffer, conn->buffer + length, conn->held);
    if (strncmp(response->headers, "HTTP/1.", 7) != 0 || strlen(response->headers) < 12)
        return WEB_GARBAGE;
    response->status = (int)strtol(response->headers + 9, NULL, 10);
    return response->status >= 100 && response->status <= 599 ? WEB_OK : WEB_GARBAGE;
}

/* Reads `length` bytes, or until the other side closes. */
static enum web_result read_body(struct web_conn *conn, int64_t deadline_ms, const char *length,
                                 struct web_response *response) {
    size_t want = length ? strtoull(length, NULL, 10) : MOST_BODY;
    size_t capacity = length ? want : 65536;
    if (want > MOST_BODY)
        return WEB_GARBAGE;
    char *body = harness_alloc(capacity + 1);
    for (size_t got; response->len < want; response->len += got) {
        if (response->len == capacity) {
            char *bigger = harness_alloc(2 * capacity + 1);
            memcpy(bigger, body, response->len);
            body = bigger;
            capacity *= 2;
        }
        enum web_result result =
            receive(conn, deadline_ms, body + response->len, capacity - response->len, &got);
        if (result == WEB_CLOSED && !length)
            break;
        if (result != WEB_OK)
            return result;
    }
    body[response->len] = '\0';
    response->body = body;
    return WEB_OK;
}

static enum web_result read_response(struct web_conn *conn, struct web_response *response, bool bodiless) {
    static char nothing[1];
    int64_t deadline_ms = harness_now_ms() + conn->timeout_ms;
    *response = (struct web_response){.headers = nothing, .body = nothing};
    enum web_result result = read_headers(conn, deadline_ms, response);
    if (result != WEB_OK || bodiless || response->status < 200 || response->status == 204 ||
        response->status == 304)
        return result;
    if (web_header(response, "Transfer-Encoding"))
        return WEB_GARBAGE; /* the service has no use for it */
    return read_body(conn, deadline_ms, web_header(response, "Content-Length"), response);
}

enum web_result web_read_response(struct web_conn *conn, struct web_response *response) {
    return read_response(conn, response, false);
}

enum web_result web_read_head(struct web_conn *conn, struct web_response *response) {
    return read_response(conn, response, true);
}

enum web_result web_read_end(struct web_conn *conn) {
    char waste[4096];
    size_t got;
    int64_t deadline_ms = harness_now_ms() + conn->timeout_ms;
    for (;;) {
        enum web_result result = receive(conn, deadline_ms, waste, sizeof waste, &got);
        if (result != WEB_OK)
            return result;
    }
}

/* A request that could not be sent whole is no reason not to read: the answer may be why. */
enum web_result web_request(struct web_conn *conn, const char *method, const char *path, const char *headers,
                            const char *body, struct web_response *response) {
    char length[64] = "";
    if (body)
        snprintf(length, sizeof length, "Content-Length: %zu\r\n", strlen(body));
    bool has_host = headers && strncasecmp(headers, "Host:", 5) == 0;
    const char *request =
        harness_format("%s %s HTTP/1.1\r\n%s%s%s\r\n%s", method, path, has_host ? "" : "Host: 127.0.0.1\r\n",
                       headers ? headers : "", length, body ? body : "");
    web_send_raw(conn, request, strlen(request));
    return read_response(conn, response, strcmp(method, "HEAD") == 0);
}

const char *web_header(const struct web_response *response, const char *name) {
    size_t length = strlen(name);
    for (const char *line = strstr(response->headers, "\r\n"); line; line = strstr(line, "\r\n")) {
        line += 2;
        if (strncasecmp(line, name, length) == 0 && line[length] == ':') {
            const char *value = line + length + 1;
            value += strspn(value, " \t");
            return harness_format("%.*s", (int)strcspn(value, "\r"), value);
        }
    }
    return NULL;
}

int web_call(int port, const char *method, const char *path, const char *headers, const char *body,
             struct web_response *response) {
    struct web_conn conn;
    struct web_response ours = {0};
    struct web_response *out = response ? response : &ours;
    web_open(&conn, port);
    enum web_result result = web_request(&conn, method, path, headers, body, out);
    web_close(&conn);
    return result == WEB_OK ? out->status : 0;
}
