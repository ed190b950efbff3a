#include "loadtest/lab/stage/server.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"

/* ---- starting ---- */

static void end(void *part) {
    struct server *server = part;
    process_kill(&server->process);
    for (int i = 0; i < server->arg_count; i++)
        free(server->args[i]);
    for (int i = 0; i < SERVER_ENV; i++)
        free(server->env[i]);
    free(server);
}

struct server *server_new(struct stage *stage, const char *name) {
    struct server *server = calloc(1, sizeof *server);
    if (server == NULL)
        abort(); /* a scenario counts on it, and has no use for less */
    server->stage = stage;
    snprintf(server->name, sizeof server->name, "%s", name);
    snprintf(server->directory, sizeof server->directory, "%s/%s", stage_directory(stage), name);
    snprintf(server->log, sizeof server->log, "%s/%s.log", stage_directory(stage), name);
    server->port = process_free_port();
    stage_add(stage, end, server);
    if (server->port == 0)
        stage_fail(stage, "%s: there is no free port", name);
    if (mkdir(server->directory, 0700) != 0)
        stage_fail(stage, "%s: %s", server->directory, strerror(errno));
    return server;
}

void server_add_arg(struct server *server, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    if (server->arg_count == SERVER_ARGS - 1 ||
        vasprintf(&server->args[server->arg_count], format, arguments) < 0)
        abort();
    server->arg_count++;
    va_end(arguments);
}

void server_add_arg_list(struct server *server, va_list args) {
    for (const char *arg; (arg = va_arg(args, const char *)) != NULL;)
        server_add_arg(server, "%s", arg);
}

void server_add_args(struct server *server, ...) {
    va_list args;
    va_start(args, server);
    server_add_arg_list(server, args);
    va_end(args);
}

void server_spawn(struct server *server) {
    struct stage *stage = server->stage;
    if (!stage_failed(stage) && !process_start(&server->process, (const char *const *)server->args,
                                               (const char *const *)server->env, server->log, -1, -1))
        stage_fail(stage, "%s: cannot start %s: %s", server->name, server->args[0], strerror(errno));
}

/* The last line of a file, for people. */
static void read_last_line(const char *path, char *line, size_t size) {
    char text[512];
    FILE *file = fopen(path, "re");
    line[0] = '\0';
    while (file != NULL && fgets(text, sizeof text, file) != NULL) {
        text[strcspn(text, "\n")] = '\0';
        if (text[0] != '\0')
            snprintf(line, size, "%.150s", text);
    }
    if (file != NULL)
        fclose(file);
}

void server_await(struct server *server) {
    int64_t deadline_ns = stage_in_ms(STAGE_PATIENCE_MS);
    char last[160];
    while (!stage_failed(server->stage) && !server->is_ready(server)) {
        bool runs = process_runs(&server->process);
        if (runs && stage_patience(server->stage, deadline_ns))
            continue;
        read_last_line(server->log, last, sizeof last);
        stage_fail(server->stage, "%s (%s) %s; its log ends with: %s", server->name, server->args[0],
                   runs ? "is not ready" : "has ended", last);
    }
}

/* ---- asking ---- */

static int dial(int port) {
    const struct timeval second = {.tv_sec = 1};
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -1;
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &second, sizeof second);
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &second, sizeof second);
    if (connect(fd, (struct sockaddr *)&address, sizeof address) == 0)
        return fd;
    close(fd);
    return -1;
}

bool server_ask(const struct server *server, const char *request, char *answer, size_t size) {
    size_t length = 0;
    int fd = dial(server->port);
    if (fd < 0)
        return false;
    ssize_t got = send(fd, request, strlen(request), MSG_NOSIGNAL);
    while (got > 0 && length < size - 1 && (got = recv(fd, answer + length, size - 1 - length, 0)) > 0)
        length += (size_t)got;
    close(fd);
    answer[length] = '\0';
    return length > 0;
}

/* ---- faults ---- */

static void record(const struct server *server, enum event_kind kind) {
    stage_record(server->stage, &(struct event){.kind = kind, .who = server->name, .server = server->name});
}

void server_record_role(const struct server *server, const char *role) {
    if (!stage_failed(server->stage))
        stage_record(server->stage, &(struct event){.kind = EVENT_SERVER_ROLE,
                                                    .who = server->name,
                                                    .server = server->name,
                                                    .role = role});
}

void server_kill(struct server *server) {
    if (stage_failed(server->stage))
        return;
    process_kill(&server->process);
    record(server, EVENT_SERVER_DOWN);
}

void server_restart(struct server *server) {
    server_spawn(server);
    server_await(server);
    if (!stage_failed(server->stage))
        record(server, EVENT_SERVER_UP);
}
