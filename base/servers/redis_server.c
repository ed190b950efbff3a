#include "base/servers/local_servers.h"

#include <errno.h>
#include <fcntl.h>
#include <hiredis/hiredis.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/redis/info.h"

enum { PING_MS = 1000, WORDS_MAX = 16 };

/* ---- commands ---- */

static void reply_write(FILE *out, const redisReply *reply) {
    switch (reply->type) {
    case REDIS_REPLY_NIL: fputs("(nil)", out); break;
    case REDIS_REPLY_INTEGER: fprintf(out, "%lld", reply->integer); break;
    case REDIS_REPLY_ERROR: fprintf(out, "(error) %s", reply->str); break;
    case REDIS_REPLY_ARRAY:
        fputc('[', out);
        for (size_t i = 0; i < reply->elements; i++) {
            if (i > 0)
                fputc(' ', out);
            reply_write(out, reply->element[i]);
        }
        fputc(']', out);
        break;
    default: fputs(reply->str, out);
    }
}

char *redis_server_command(int port, int timeout_ms, int argc, const char **argv) {
    struct timeval timeout = {timeout_ms / 1000, timeout_ms % 1000 * 1000L};
    redisContext *context = redisConnectWithTimeout("127.0.0.1", port, timeout);
    redisReply *reply = NULL;
    char *text = NULL;
    size_t size;
    if (context && !context->err && redisSetTimeout(context, timeout) == REDIS_OK)
        reply = redisCommandArgv(context, argc, argv, NULL);
    FILE *out = open_memstream(&text, &size);
    if (!out)
        abort();
    if (reply)
        reply_write(out, reply);
    else
        fputs("(no reply)", out);
    if (fclose(out) != 0)
        abort();
    freeReplyObject(reply);
    redisFree(context);
    return text;
}

char *redis_server_do(const struct redis_server *server, ...) {
    const char *argv[WORDS_MAX];
    int argc = 0;
    va_list words;
    va_start(words, server);
    for (const char *word; argc < WORDS_MAX && (word = va_arg(words, const char *));)
        argv[argc++] = word;
    va_end(words);
    return redis_server_command(server->port, REDIS_SERVER_COMMAND_MS, argc, argv);
}

void redis_server_info(const struct redis_server *server, const char *field, char *value, size_t size) {
    const char *argv[] = {"INFO"};
    char *text = redis_server_command(server->port, PING_MS, 1, argv);
    if (!info_find(text, field, value, size))
        value[0] = '\0';
    free(text);
}

/* ---- its clock ---- */

const char *redis_server_clock_open(struct redis_server_clock *clock, const char *library, const char *file) {
    void *memory = MAP_FAILED;
    if (access(library, R_OK) != 0)
        return proc_failure("%s is missing: run make", library);
    int fd = open(file, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd >= 0 && ftruncate(fd, sizeof *clock->turned) == 0)
        memory = mmap(NULL, sizeof *clock->turned, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (fd >= 0)
        close(fd);
    if (memory == MAP_FAILED)
        return proc_failure("%s: %s", file, strerror(errno));
    clock->turned = memory;
    snprintf(clock->preload, sizeof clock->preload, "LD_PRELOAD=%s", library);
    snprintf(clock->file, sizeof clock->file, "TURNED_CLOCK=%s", file);
    return NULL;
}

/* ---- the server ---- */

/* It serves once it answers, if only by asking for a password, and has read its append-only file (until then
 * it says LOADING). */
static bool redis_server_serves(void *arg) {
    const struct redis_server *server = arg;
    const char *argv[] = {"PING"};
    char *reply = redis_server_command(server->port, PING_MS, 1, argv);
    bool serves = strcmp(reply, "PONG") == 0 || strstr(reply, "NOAUTH");
    free(reply);
    return serves;
}

static const char *redis_server_await(struct redis_server *server) {
    return local_server_await(&server->proc, redis_server_serves, server, REDIS_SERVER_START_MS);
}

const char *redis_server_start(struct redis_server *server, const char *dir,
                               const struct redis_server_clock *clock, const char *const options[]) {
    char port[16];
    const char *argv[REDIS_SERVER_ARGS_MAX] = {"redis-server", "--port",    port,     "--bind", "127.0.0.1",
                                               "--dir",        server->dir, "--save", ""};
    const char *const env[] = {clock ? clock->preload : NULL, clock ? clock->file : NULL, NULL};
    *server = (struct redis_server){0};
    const char *error = local_server_place(&server->port, server->dir, dir);
    snprintf(port, sizeof port, "%d", server->port);
    if (!error)
        error = local_server_add_options(argv, REDIS_SERVER_ARGS_MAX, options);
    if (!error)
        error = local_server_spawn(&server->proc, argv, env, server->dir);
    return error ? error : redis_server_await(server);
}

const char *redis_server_restart(struct redis_server *server) {
    const char *error = proc_restart(&server->proc);
    return error ? error : redis_server_await(server);
}

static bool redis_server_in_sync(void *arg) {
    char status[16];
    redis_server_info(arg, "master_link_status", status, sizeof status);
    return strcmp(status, "up") == 0;
}

const char *redis_server_await_sync(struct redis_server *replica) {
    return local_server_await(&replica->proc, redis_server_in_sync, replica, REDIS_SERVER_START_MS);
}
