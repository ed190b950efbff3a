#include "lock/bench/store.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lock/bench/counter.h"
#include "lock/redis/dial.h"

enum { SERVERS = 16, PATIENCE_MS = 5000, MARK_SIZE = 64 };

struct server {
    struct redis_target target;
    redisContext *asks, *listens;
};

struct bench_store {
    struct server servers[SERVERS]; /* Redis */
    int count;
    struct bench_counter *counter; /* of another kind of store, or NULL */
};

/* ---- connections ---- */

static void stop_listening(struct bench_store *store) {
    for (int i = 0; i < store->count; i++) {
        redisFree(store->servers[i].listens);
        store->servers[i].listens = NULL;
    }
}

static bool add_server(struct bench_store *store, const char *address, size_t length, char *error,
                       size_t size) {
    char url[600];
    if (store->count == SERVERS || length >= sizeof url - sizeof "redis://") {
        snprintf(error, size, "too many servers");
        return false;
    }
    snprintf(url, sizeof url, "redis://%.*s", (int)length, address);
    struct server *server = &store->servers[store->count];
    if (!redis_target_parse(&server->target, url, error, size))
        return false;
    server->asks = redis_dial(&server->target, PATIENCE_MS, error, size);
    store->count += server->asks != NULL;
    return server->asks != NULL;
}

struct bench_store *bench_store_open(const char *url, char *error, size_t error_size) {
    static const char redis[] = "redis://", redlock[] = "redlock://";
    error[0] = '\0';
    struct bench_counter *counter = bench_counter_open(url, error, error_size);
    bool many = strncmp(url, redlock, sizeof redlock - 1) == 0;
    if (!counter && (error[0] || (!many && strncmp(url, redis, sizeof redis - 1) != 0)))
        return NULL;
    struct bench_store *store = calloc(1, sizeof *store);
    if (!store) {
        bench_counter_close(counter);
        snprintf(error, error_size, "out of memory");
        return NULL;
    }
    store->counter = counter;
    if (counter)
        return store;
    const char *at = strstr(url, "//") + 2;
    for (;;) {
        size_t length = strcspn(at, many ? ",?" : "?");
        if (!add_server(store, at, length, error, error_size)) {
            bench_store_close(store);
            return NULL;
        }
        at += length;
        if (*at != ',')
            return store;
        at++;
    }
}

void bench_store_close(struct bench_store *store) {
    if (!store)
        return;
    stop_listening(store);
    for (int i = 0; i < store->count; i++)
        redisFree(store->servers[i].asks);
    bench_counter_close(store->counter);
    free(store);
}

/* ---- what was carried out ---- */

/* Of lines like "cmdstat_evalsha:calls=12,usec=…". */
static uint64_t add_up(const char *text) {
    static const char ours[] = "cmdstat_info:", calls[] = ":calls=";
    uint64_t sum = 0;
    for (const char *line = strstr(text, "cmdstat_"); line; line = strstr(line + 1, "cmdstat_")) {
        const char *number = strstr(line, calls);
        if (number && strncmp(line, ours, sizeof ours - 1) != 0)
            sum += strtoull(number + sizeof calls - 1, NULL, 10);
    }
    return sum;
}

bool bench_store_calls(struct bench_store *store, uint64_t *calls) {
    return store->counter && bench_counter_read(store->counter, calls);
}

bool bench_store_commands(struct bench_store *store, uint64_t *commands) {
    if (store->counter)
        return false;
    *commands = 0;
    for (int i = 0; i < store->count; i++) {
        redisReply *reply = redisCommand(store->servers[i].asks, "INFO commandstats");
        bool good = reply && reply->type == REDIS_REPLY_STRING;
        if (good)
            *commands += add_up(reply->str);
        freeReplyObject(reply);
        if (!good)
            return false;
    }
    return true;
}

/* ---- what was sent ----
 * MONITOR repeats every command, with who sent it, or "lua" where a script did. Two commands of ours mark the
 * begin and the end, so that what is still under way when we stop reading is neither missed nor too much. */

static void make_mark(char mark[MARK_SIZE], const char *which) {
    snprintf(mark, MARK_SIZE, "lock-bench:%s:%ld", which, (long)getpid());
}

static bool set_mark(const struct bench_store *store, const char *which) {
    char mark[MARK_SIZE];
    make_mark(mark, which);
    bool good = true;
    for (int i = 0; i < store->count; i++) {
        redisReply *reply = redisCommand(store->servers[i].asks, "ECHO %s", mark);
        good = good && reply && reply->type == REDIS_REPLY_STRING;
        freeReplyObject(reply);
    }
    return good;
}

bool bench_store_listen(struct bench_store *store) {
    char error[256];
    bool good = !store->counter;
    for (int i = 0; good && i < store->count; i++) {
        struct server *server = &store->servers[i];
        server->listens = redis_dial(&server->target, PATIENCE_MS, error, sizeof error);
        redisReply *reply = server->listens ? redisCommand(server->listens, "MONITOR") : NULL;
        good = reply && reply->type == REDIS_REPLY_STATUS;
        freeReplyObject(reply);
    }
    if (good && set_mark(store, "begin"))
        return true;
    stop_listening(store);
    return false;
}

/* A line is: 1700000000.123456 [0 127.0.0.1:50000] "get" "key" */
static bool is_of_script(const char *line) {
    const char *sender = strchr(line, '[');
    sender = sender ? strchr(sender, ' ') : NULL;
    return sender && strncmp(sender, " lua]", 5) == 0;
}

/* Reads up to a line with `mark` and counts what clients sent. */
static bool read_to(redisContext *listens, const char *which, uint64_t *calls) {
    char mark[MARK_SIZE];
    make_mark(mark, which);
    for (;;) {
        void *reply = NULL;
        if (redisGetReply(listens, &reply) != REDIS_OK)
            return false;
        const redisReply *line = reply;
        bool is_line = line->type == REDIS_REPLY_STATUS;
        bool is_mark = is_line && strstr(line->str, mark);
        if (is_line && !is_mark && !is_of_script(line->str))
            (*calls)++;
        freeReplyObject(reply);
        if (!is_line || is_mark)
            return is_line;
    }
}

bool bench_store_heard(struct bench_store *store, uint64_t *calls) {
    bool good = set_mark(store, "end");
    *calls = 0;
    for (int i = 0; good && i < store->count; i++) {
        uint64_t before = 0;
        good = read_to(store->servers[i].listens, "begin", &before) &&
               read_to(store->servers[i].listens, "end", calls);
    }
    stop_listening(store);
    return good;
}
