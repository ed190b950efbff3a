#include "loadtest/lab/stage/redis_server.h"

#include <fcntl.h>
#include <hiredis.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/preload/turned_clock.h"

enum { COMMAND_ARGS = 16, REPLY_SIZE = 16384, TIMEOUT_MS = 1000 };

/* ---- commands ---- */

/* NULL: no answer. */
static redisReply *ask(const struct server *server, int argc, const char *argv[]) {
    const struct timeval timeout = {.tv_sec = TIMEOUT_MS / 1000};
    redisContext *redis = redisConnectWithTimeout("127.0.0.1", server->port, timeout);
    redisReply *reply = NULL;
    if (redis != NULL && redis->err == 0 && redisSetTimeout(redis, timeout) == REDIS_OK)
        reply = redisCommandArgv(redis, argc, argv, NULL);
    redisFree(redis);
    return reply;
}

/* Appends the text of a reply; of an array, its elements with spaces between. */
static void append(char text[REPLY_SIZE], const redisReply *reply) {
    size_t length = strlen(text);
    if (reply->type == REDIS_REPLY_INTEGER)
        snprintf(text + length, REPLY_SIZE - length, "%lld", reply->integer);
    else if (reply->str != NULL)
        snprintf(text + length, REPLY_SIZE - length, "%s", reply->str);
    for (size_t i = 0; reply->type == REDIS_REPLY_ARRAY && i < reply->elements; i++) {
        length = strlen(text);
        snprintf(text + length, REPLY_SIZE - length, "%s", i > 0 ? " " : "");
        append(text, reply->element[i]);
    }
}

static const char *keep(const redisReply *reply) {
    static char text[REPLY_SIZE];
    text[0] = '\0';
    if (reply != NULL)
        append(text, reply);
    return text;
}

const char *redis_server_do(const struct server *server, ...) {
    const char *argv[COMMAND_ARGS];
    int argc = 0;
    va_list args;
    if (stage_failed(server->stage))
        return "";
    va_start(args, server);
    for (const char *arg; argc < COMMAND_ARGS && (arg = va_arg(args, const char *)) != NULL;)
        argv[argc++] = arg;
    va_end(args);
    redisReply *reply = ask(server, argc, argv);
    const char *text = keep(reply);
    if (reply != NULL && reply->type == REDIS_REPLY_ERROR)
        stage_fail(server->stage, "%s refused %s: %s", server->name, argv[0], text);
    freeReplyObject(reply);
    return text;
}

const char *redis_server_info(const struct server *server, const char *name) {
    static char value[160];
    const char *argv[] = {"INFO"};
    redisReply *reply = ask(server, 1, argv);
    const char *at = keep(reply);
    size_t length = strlen(name);
    freeReplyObject(reply);
    while (at != NULL && (strncmp(at, name, length) != 0 || at[length] != ':')) {
        at = strchr(at, '\n');
        at += at != NULL;
    }
    at = at != NULL ? at + length + 1 : "";
    snprintf(value, sizeof value, "%.*s", (int)strcspn(at, "\r\n"), at);
    return value;
}

/* ---- the server ---- */

static bool is_ready(const struct server *server) {
    const char *argv[] = {"PING"};
    redisReply *reply = ask(server, 1, argv);
    bool ready = reply != NULL && reply->type == REDIS_REPLY_STATUS; /* not: LOADING */
    freeReplyObject(reply);
    return ready;
}

static struct server *prepare(struct stage *stage, const char *name) {
    struct server *server = server_new(stage, name);
    server->is_ready = is_ready;
    server_add_args(server, "redis-server", "--bind", "127.0.0.1", "--save", "", "--dir", server->directory,
                    "--repl-diskless-sync-delay", "0", "--port", NULL);
    server_add_arg(server, "%d", server->port);
    return server;
}

static void launch(struct server *server) {
    server_spawn(server);
    server_await(server);
    if (!stage_failed(server->stage))
        stage_add_version(server->stage, "redis", redis_server_info(server, "redis_version"));
}

struct server *redis_server_start(struct stage *stage, const char *name, ...) {
    struct server *server = prepare(stage, name);
    va_list args;
    va_start(args, name);
    server_add_arg_list(server, args);
    va_end(args);
    launch(server);
    return server;
}

/* ---- replicas ---- */

struct server *redis_server_start_replica(struct stage *stage, const char *name, int master_port,
                                          int announced_port) {
    struct server *server = prepare(stage, name);
    int64_t deadline_ns = stage_in_ms(STAGE_PATIENCE_MS);
    server_add_args(server, "--replica-announce-ip", "127.0.0.1", "--replica-announce-port", NULL);
    server_add_arg(server, "%d", announced_port != 0 ? announced_port : server->port);
    server_add_args(server, "--replicaof", "127.0.0.1", NULL);
    server_add_arg(server, "%d", master_port);
    launch(server);
    while (!stage_failed(stage) && strcmp(redis_server_info(server, "master_link_status"), "up") != 0) {
        if (!stage_patience(stage, deadline_ns))
            stage_fail(stage, "%s does not copy from its master", name);
    }
    return server;
}

/* ---- its clock ---- */

/* Beside the programs, or where make install puts it. */
static void find_library(const struct stage *stage, char path[SERVER_PATH_SIZE]) {
    snprintf(path, SERVER_PATH_SIZE, "%.250s/turned-clock.so", stage_programs(stage));
    if (access(path, R_OK) != 0)
        snprintf(path, SERVER_PATH_SIZE, "%.250s/../lib/seckill/turned-clock.so", stage_programs(stage));
}

/* The library that is loaded into the server reads the offset from a file that both map. */
struct server *redis_server_start_with_clock(struct stage *stage, const char *name) {
    struct server *server = prepare(stage, name);
    char file[SERVER_PATH_SIZE + 8], library[SERVER_PATH_SIZE];
    snprintf(file, sizeof file, "%s.clock", server->directory);
    find_library(stage, library);
    int fd = open(file, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    void *memory = MAP_FAILED;
    if (access(library, R_OK) != 0)
        stage_fail(stage, "%s is missing: run make", library);
    else if (fd >= 0 && ftruncate(fd, sizeof(struct turned_clock)) == 0)
        memory = mmap(NULL, sizeof(struct turned_clock), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (fd >= 0)
        close(fd);
    if (memory == MAP_FAILED)
        stage_fail(stage, "%s has no clock that can be moved", name);
    else
        server->clock = memory;
    if (asprintf(&server->env[0], "LD_PRELOAD=%s", library) < 0 ||
        asprintf(&server->env[1], "TURNED_CLOCK=%s", file) < 0)
        abort();
    launch(server);
    return server;
}

void redis_server_move_clock(struct server *server, int64_t jump_ms) {
    if (stage_failed(server->stage))
        return;
    __atomic_fetch_add(&server->clock->ahead_ms, jump_ms, __ATOMIC_SEQ_CST);
    stage_record(server->stage, &(struct event){.kind = EVENT_SERVER_CLOCK,
                                                .who = server->name,
                                                .server = server->name,
                                                .jump_ms = jump_ms});
}
