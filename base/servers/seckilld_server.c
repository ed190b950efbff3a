#include "base/servers/local_servers.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ARGS_MAX = 64, CALL_MS = 1000, REQUEST_SIZE = 2048, ANSWER_SIZE = 8192, LOG_SIZE = 400 };

int seckilld_server_call(const struct seckilld *service, const char *method, const char *path,
                         const char *headers, const char *body, char *answer, size_t size) {
    static const char status_line[] = "HTTP/1.1 ";
    char request[REQUEST_SIZE], response[ANSWER_SIZE];
    snprintf(request, sizeof request,
             "%s %s HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n%sContent-Length: %zu\r\n\r\n%s",
             method, path, headers, body ? strlen(body) : 0, body ? body : "");
    if (!local_server_ask("127.0.0.1", service->port, request, response, sizeof response, CALL_MS) ||
        strncmp(response, status_line, strlen(status_line)) != 0)
        return 0;
    const char *end = strstr(response, "\r\n\r\n");
    if (answer)
        snprintf(answer, size, "%s", end ? end + 4 : "");
    return (int)strtol(response + strlen(status_line), NULL, 10);
}

static bool seckilld_answers(const struct seckilld *service, const char *path) {
    return seckilld_server_call(service, "GET", path, "", NULL, NULL, 0) == 200;
}

static bool seckilld_is_live(void *service) {
    return seckilld_answers(service, "/livez");
}

static bool seckilld_is_ready(void *service) {
    return seckilld_answers(service, "/readyz");
}

static const char *seckilld_await_live(struct seckilld *service) {
    return local_server_await(&service->proc, seckilld_is_live, service, SECKILLD_SERVER_START_MS);
}

const char *seckilld_server_await_ready(struct seckilld *service) {
    return local_server_await(&service->proc, seckilld_is_ready, service, SECKILLD_SERVER_START_MS);
}

const char *seckilld_server_start(struct seckilld *service, const char *program, int redis_port,
                                  const char *const options[], const char *const env[], const char *log) {
    char listen[40], redis[60];
    const char *argv[ARGS_MAX] = {program, "--listen", listen, "--redis", redis};
    *service = (struct seckilld){.port = local_server_free_port()};
    if (!service->port)
        return "there is no free port";
    snprintf(listen, sizeof listen, "127.0.0.1:%d", service->port);
    snprintf(redis, sizeof redis, "redis://127.0.0.1:%d", redis_port);
    const char *error = local_server_add_options(argv, ARGS_MAX, options);
    for (int i = 0; options[i]; i++) {
        const char *port = strcmp(options[i], "--operator-listen") == 0 ? strrchr(options[i + 1], ':') : NULL;
        if (port)
            service->port = (int)strtol(port + 1, NULL, 10);
    }
    if (!error)
        error = proc_start(&service->proc, argv, env, log);
    return error ? error : seckilld_await_live(service);
}

const char *seckilld_server_restart(struct seckilld *service) {
    const char *error = proc_restart(&service->proc);
    return error ? error : seckilld_await_live(service);
}
