#include "service/test/caller.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

/* Moves an answer from the connection into the caller; 0 where there is none. */
static int read_answer(struct caller *caller) {
    struct web_conn *conn = &caller->conn;
    size_t head = 0, length = 0;
    struct timeval patience = {conn->timeout_ms / 1000, 0};
    setsockopt(conn->fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    while (head == 0 || conn->held < head + length) {
        ssize_t got = recv(conn->fd, conn->buffer + conn->held, sizeof conn->buffer - 1 - conn->held, 0);
        if (got <= 0)
            return 0;
        conn->held += (size_t)got;
        conn->buffer[conn->held] = '\0';
        const char *end = strstr(conn->buffer, "\r\n\r\n"),
                   *declared = strcasestr(conn->buffer, "\r\nContent-Length:");
        if (!end || head)
            continue;
        head = (size_t)(end - conn->buffer) + 4;
        length = declared ? strtoul(declared + 17, NULL, 10) : 0;
        if (head >= sizeof caller->head || length >= sizeof caller->body)
            FAIL("an answer of %zu and %zu bytes", head, length);
    }
    snprintf(caller->head, sizeof caller->head, "%.*s", (int)head, conn->buffer);
    snprintf(caller->body, sizeof caller->body, "%.*s", (int)length, conn->buffer + head);
    conn->held -= head + length;
    memmove(conn->buffer, conn->buffer + head + length, conn->held);
    return strncmp(caller->head, "HTTP/1.1 ", 9) == 0 ? (int)strtol(caller->head + 9, NULL, 10) : 0;
}

void caller_close(struct caller *caller) {
    web_close(&caller->conn);
}

int caller_call(struct caller *caller, int port, const char *method, const char *path, const char *key,
                const char *body) {
    char request[4096];
    if (caller->conn.fd >= 0 && caller->port != port)
        caller_close(caller);
    caller->port = port;
    if (caller->conn.fd < 0 && !web_open(&caller->conn, port))
        return 0;
    int length = snprintf(
        request, sizeof request,
        "%s %s HTTP/1.1\r\nHost: shop\r\n" SECKILLD_ADMIN "%s%s%sContent-Length: %zu\r\n\r\n%s", method, path,
        key ? "Idempotency-Key: " : "", key ? key : "", key ? "\r\n" : "", strlen(body), body);
    int status = web_send_raw(&caller->conn, request, (size_t)length) == WEB_OK ? read_answer(caller) : 0;
    if (!status || caller_has_header(caller, "Connection: close"))
        caller_close(caller);
    return status;
}

bool caller_text(const struct caller *caller, const char *name, char *out, size_t out_size) {
    const char *at = strstr(caller->body, name);
    size_t length = at ? strcspn(at += strlen(name), "\"") : 0;
    if (length == 0 || length >= out_size)
        return false;
    memcpy(out, at, length);
    out[length] = '\0';
    return true;
}

bool caller_has_header(const struct caller *caller, const char *line) {
    char whole[128];
    snprintf(whole, sizeof whole, "\r\n%s\r\n", line);
    return strcasestr(caller->head, whole) != NULL;
}
