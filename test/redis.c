/* A private redis-server. */
#include "test/harness.h"

#include <fcntl.h>
#include <hiredis.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { START_MS = 60000, COMMAND_MS = 10000, MAX_ARGS = 64 };

/* ---- commands ---- */

static size_t collect(const char **out, va_list args) {
    size_t n = 0;
    for (const char *arg; (arg = va_arg(args, const char *));) {
        CHECK(n < MAX_ARGS - 1);
        out[n++] = arg;
    }
    out[n] = NULL;
    return n;
}

static char *describe(const redisReply *reply) {
    if (!reply)
        return harness_format("(no reply)");
    if (reply->type == REDIS_REPLY_NIL)
        return harness_format("(nil)");
    if (reply->type == REDIS_REPLY_INTEGER)
        return harness_format("%lld", reply->integer);
    if (reply->type == REDIS_REPLY_ERROR)
        return harness_format("(error) %s", reply->str);
    if (reply->type != REDIS_REPLY_ARRAY)
        return harness_format("%s", reply->str);
    char *text = harness_format("[");
    for (size_t i = 0; i < reply->elements; i++)
        text = harness_format("%s%s%s", text, i ? " " : "", describe(reply->element[i]));
    return harness_format("%s]", text);
}

static const char *command(int port, int timeout_ms, int argc, const char **argv) {
    struct timeval timeout = {timeout_ms / 1000, timeout_ms % 1000 * 1000L};
    redisContext *context = redisConnectWithTimeout("127.0.0.1", port, timeout);
    redisReply *reply = NULL;
    if (context && !context->err && redisSetTimeout(context, timeout) == REDIS_OK)
        reply = redisCommandArgv(context, argc, argv, NULL);
    const char *text = describe(reply);
    freeReplyObject(reply);
    redisFree(context);
    return text;
}

const char *redis_command(const struct redis_server *redis, ...) {
    const char *argv[MAX_ARGS];
    va_list args;
    va_start(args, redis);
    size_t argc = collect(argv, args);
    va_end(args);
    return command(redis->port, COMMAND_MS, (int)argc, argv);
}

long long redis_integer(const struct redis_server *redis, ...) {
    const char *argv[MAX_ARGS];
    va_list args;
    va_start(args, redis);
    size_t argc = collect(argv, args);
    va_end(args);
    const char *text = command(redis->port, COMMAND_MS, (int)argc, argv);
    char *end;
    long long value = strtoll(text, &end, 10);
    if (end == text || *end)
        FAIL("%s answered %s, not an integer", argv[0], text);
    return value;
}

/* ---- its clock ---- */

static struct {
    struct turned_clock *map;
    char preload[512], file[512];
} turned;

struct turned_clock *redis_clock(void) {
    if (turned.map)
        return turned.map;
    const char *library = harness_format("%s/turned-clock.so", harness_build());
    const char *path = harness_format("%s/clock", harness_dir());
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    CHECK(access(library, R_OK) == 0 && fd >= 0 && ftruncate(fd, sizeof *turned.map) == 0);
    void *map = mmap(NULL, sizeof *turned.map, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    CHECK(map != MAP_FAILED);
    close(fd);
    turned.map = map;
    snprintf(turned.preload, sizeof turned.preload, "LD_PRELOAD=%s", library);
    snprintf(turned.file, sizeof turned.file, "TURNED_CLOCK=%s", path);
    return turned.map;
}

/* ---- the server ---- */

/* Ready is: answers, if only by asking for a password, and has read its append-only file (until then:
 * LOADING). Or it has ended, and will never be. */
static bool ready_or_dead(void *arg) {
    struct redis_server *redis = arg;
    const char *argv[] = {"PING"};
    const char *reply = command(redis->port, 1000, 1, argv);
    return strcmp(reply, "PONG") == 0 || strstr(reply, "NOAUTH") || !proc_running(&redis->proc);
}

static void wait_ready(struct redis_server *redis) {
    if (!harness_wait(ready_or_dead, redis, START_MS) || !proc_running(&redis->proc))
        FAIL("redis-server on port %d does not answer", redis->port);
}

static char server_name[64];

/* Valkey says the version of Redis that it stands for, and its own. */
static void note_name(const struct redis_server *redis) {
    const char *info = redis_command(redis, "INFO", "server", NULL);
    const char *own = strstr(info, "valkey_version:"), *at = own ? own : strstr(info, "redis_version:");
    if (at)
        snprintf(server_name, sizeof server_name, "%s %.*s", own ? "Valkey" : "Redis",
                 (int)strcspn(strchr(at, ':') + 1, "\r"), strchr(at, ':') + 1);
}

const char *redis_name(void) {
    return server_name;
}

void redis_start(struct redis_server *redis, ...) {
    redis->port = harness_free_port();
    snprintf(redis->dir, sizeof redis->dir, "%s/redis-%d", harness_dir(), redis->port);
    CHECK_INT(mkdir(redis->dir, 0700), 0);
    const char *port = harness_format("%d", redis->port);
    const char *argv[2 * MAX_ARGS] = {
        "redis-server", "--port",        port, "--bind",     "127.0.0.1", "--dir",
        redis->dir,     "--save",        "",   "--loglevel", "warning",   "--appendonly",
        "yes",          "--appendfsync", "no"};
    size_t n = 0;
    while (argv[n])
        n++;
    va_list args;
    va_start(args, redis);
    collect(argv + n, args);
    va_end(args);
    const char *const env[] = {turned.preload, turned.file, NULL};
    proc_spawn(&redis->proc, argv, turned.map ? env : NULL, harness_format("%s.log", redis->dir));
    wait_ready(redis);
    if (!*server_name)
        note_name(redis);
}

static bool in_sync(void *arg) {
    return strstr(redis_command(arg, "INFO", "replication", NULL), "master_link_status:up") != NULL;
}

void redis_start_replica(struct redis_server *redis, const struct redis_server *master) {
    CHECK_STR(redis_command(master, "CONFIG", "SET", "repl-diskless-sync-delay", "0", NULL), "OK");
    redis_start(redis, "--replicaof", "127.0.0.1", harness_format("%d", master->port),
                "--repl-diskless-sync-delay", "0", NULL); /* for when it is a master */
    CHECK(harness_wait(in_sync, redis, START_MS));
}

struct copied {
    const struct redis_server *replica;
    long long offset;
};

static long long offset_of(const struct redis_server *redis) {
    static const char name[] = "master_repl_offset:";
    const char *at = strstr(redis_command(redis, "INFO", "replication", NULL), name);
    return at ? strtoll(at + sizeof name - 1, NULL, 10) : -1;
}

static bool is_copied(void *arg) {
    const struct copied *copied = arg;
    return offset_of(copied->replica) >= copied->offset;
}

void redis_wait_copied(const struct redis_server *master, const struct redis_server *replica) {
    struct copied copied = {replica, offset_of(master)};
    CHECK(harness_wait(is_copied, &copied, START_MS));
}

void redis_stop(struct redis_server *redis) {
    int status;
    proc_kill(&redis->proc, SIGTERM);
    CHECK(proc_wait(&redis->proc, START_MS, &status));
}

void redis_kill(struct redis_server *redis) {
    int status;
    proc_kill(&redis->proc, SIGKILL);
    CHECK(proc_wait(&redis->proc, START_MS, &status));
}

/* As an operator must do after a crash. */
static void mend(const struct redis_server *redis) {
    int status;
    struct proc proc;
    const char *argv[] = {"deploy/mend-aof.sh", redis->dir, NULL};
    proc_spawn(&proc, argv, NULL, harness_format("%s.log", redis->dir));
    CHECK(proc_wait(&proc, START_MS, &status));
    CHECK_INT(status, 0);
}

void redis_restart(struct redis_server *redis) {
    mend(redis);
    proc_respawn(&redis->proc);
    wait_ready(redis);
}

void redis_wipe(struct redis_server *redis) {
    int status;
    struct proc rm;
    CHECK(!proc_running(&redis->proc));
    const char *argv[] = {"sh", "-c", "rm -rf \"$1\" && mkdir \"$1\"", "sh", redis->dir, NULL};
    proc_spawn(&rm, argv, NULL, harness_format("%s.log", redis->dir));
    CHECK(proc_wait(&rm, START_MS, &status));
    CHECK_INT(status, 0);
}

void redis_pause(struct redis_server *redis) {
    proc_kill(&redis->proc, SIGSTOP);
}

void redis_resume(struct redis_server *redis) {
    proc_kill(&redis->proc, SIGCONT);
}
