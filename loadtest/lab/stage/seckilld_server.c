#include "loadtest/lab/stage/seckilld_server.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/version.h"

enum { REQUEST_SIZE = 2048, ANSWER_SIZE = 8192 };

int seckilld_server_call(const struct server *server, const char *method, const char *path, const char *key,
                         const char *body, char *answer, size_t size) {
    char request[REQUEST_SIZE], response[ANSWER_SIZE];
    snprintf(request, sizeof request,
             "%s %s HTTP/1.1\r\nHost: lab\r\nConnection: close\r\nAuthorization: Bearer " SECKILLD_ADMIN_TOKEN
             "\r\n%s%s%sContent-Length: %zu\r\n\r\n%s",
             method, path, key != NULL ? "Idempotency-Key: " : "", key != NULL ? key : "",
             key != NULL ? "\r\n" : "", body != NULL ? strlen(body) : 0, body != NULL ? body : "");
    if (!server_ask(server, request, response, sizeof response) || strlen(response) < 12)
        return 0;
    const char *end = strstr(response, "\r\n\r\n");
    if (answer != NULL)
        snprintf(answer, size, "%s", end != NULL ? end + 4 : "");
    return (int)strtol(response + 9, NULL, 10); /* behind "HTTP/1.1 " */
}

static bool is_ready(const struct server *server) {
    return seckilld_server_call(server, "GET", "/readyz", NULL, NULL, NULL, 0) == 200;
}

struct server *seckilld_server_start(struct stage *stage, const char *name, int redis_port, ...) {
    struct server *server = server_new(stage, name);
    va_list args;
    server->is_ready = is_ready;
    server->env[0] = strdup("SECKILL_ADMIN_TOKEN=" SECKILLD_ADMIN_TOKEN);
    server_add_arg(server, "%s/seckilld", stage_programs(stage));
    server_add_arg(server, "--listen=127.0.0.1:%d", server->port);
    server_add_arg(server, "--redis=redis://127.0.0.1:%d", redis_port);
    va_start(args, redis_port);
    server_add_arg_list(server, args);
    va_end(args);
    server_spawn(server);
    server_await(server);
    stage_add_version(stage, "seckilld", SECKILL_VERSION);
    return server;
}

void seckilld_server_put_item(const struct server *server, const char *item, const char *terms) {
    char path[100];
    snprintf(path, sizeof path, "/v1/items/%s", item);
    if (!stage_failed(server->stage) &&
        seckilld_server_call(server, "PUT", path, NULL, terms, NULL, 0) != 201)
        stage_fail(server->stage, "%s does not make the item %s", server->name, item);
}

static bool read_stock(const struct server *server, const char *item, const char *of,
                       struct seckilld_audit *audit) {
    char path[100], answer[2048];
    snprintf(path, sizeof path, "/v1/items/%s%s", item, of);
    if (stage_failed(server->stage) ||
        seckilld_server_call(server, "GET", path, NULL, NULL, answer, sizeof answer) != 200)
        return false;
    json_t *json = json_loads(answer, 0, NULL);
    json_int_t stock, available, sold;
    bool good =
        json_unpack(json, "{s:I, s:I, s:I}", "stock", &stock, "available", &available, "sold", &sold) == 0;
    if (good)
        *audit = (struct seckilld_audit){.stock = stock, .available = available, .sold = sold};
    json_decref(json);
    return good;
}

bool seckilld_server_audit(const struct server *server, const char *item, struct seckilld_audit *audit) {
    return read_stock(server, item, "/audit", audit);
}

bool seckilld_server_read_item(const struct server *server, const char *item, struct seckilld_audit *audit) {
    return read_stock(server, item, "", audit);
}
