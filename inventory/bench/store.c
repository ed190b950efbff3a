/* The ceiling of the store: Redis alone, driven by the batch script over one connection, with nothing else on
 * the way. usage: bench-store PORT ITEMS BATCH IN_FLIGHT SECONDS. Prints purchases a second and the median
 * time of a call in ms. */
#include <hiredis/hiredis.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/histogram.h"
#include "purchase.lua.h"

enum { BATCH_MAX = 256, IN_FLIGHT_MAX = 16, HEAD = 3 /* arguments before those of the items */ };

static void fail(const char *what) {
    fprintf(stderr, "bench-store: %s\n", what);
    exit(1);
}

static void create_items(redisContext *redis, int items) {
    for (int i = 0; i < items; i++) {
        redisReply *reply = redisCommand(redis,
                                         "HSET seckill:{bench}:%d terms %s available 1000000000 held 0 sold "
                                         "0 shortage 0 restocked 0 released 0 returned 0",
                                         i, "1000000000 5 0 0 0 batch");
        if (!reply || reply->type == REDIS_REPLY_ERROR)
            fail("cannot create an item");
        freeReplyObject(reply);
    }
}

static const char *print(char (**texts)[64], const char *format, ...) __attribute__((format(printf, 2, 3)));

static const char *print(char (**texts)[64], const char *format, ...) {
    char *text = *(*texts)++;
    va_list list;
    va_start(list, format);
    vsnprintf(text, sizeof **texts, format, list);
    va_end(list);
    return text;
}

/* Appends one call: `batch` new buyers, of as many different items as there are. */
static void append_call(redisContext *redis, const char *sha, int items, int batch, long *serial) {
    static char room[1 + (1 + 1 + 2) * BATCH_MAX][64];
    char(*texts)[64] = room;
    int in_call = items < batch ? items : batch, argc = 0;
    const char *argv[3 + HEAD + (1 + 1 + 2) * BATCH_MAX];
    argv[argc++] = "EVALSHA";
    argv[argc++] = sha;
    argv[argc++] = print(&texts, "%d", in_call);
    for (int i = 0; i < in_call; i++)
        argv[argc++] = print(&texts, "seckill:{bench}:%ld", (*serial + i) % items);
    argv[argc++] = "batch";
    argv[argc++] = "off";
    argv[argc++] = "ones";
    for (int i = 0; i < in_call; i++) {
        int n = batch / in_call + (i < batch % in_call);
        argv[argc++] = print(&texts, "%d", 4 * n + 2); /* there is a limit */
        for (int k = 0; k < n; k++) {
            argv[argc + k] = print(&texts, "%022ld", *serial);
            argv[argc + n + k] = print(&texts, "@u%ld", (*serial)++);
        }
        argc += 2 * n;
    }
    if (redisAppendCommandArgv(redis, argc, argv, NULL) != REDIS_OK)
        fail("out of memory");
}

/* Fails unless all were sold: otherwise the result means nothing. */
static void read_reply(redisContext *redis) {
    redisReply *reply;
    if (redisGetReply(redis, (void **)&reply) != REDIS_OK)
        fail(redis->errstr);
    if (reply->type != REDIS_REPLY_ARRAY)
        fail(reply->str ? reply->str : "not a reply of the script");
    for (size_t i = 1; i < reply->elements; i++) {
        if (reply->element[i]->type != REDIS_REPLY_INTEGER)
            fail("a purchase was refused");
    }
    freeReplyObject(reply);
}

/* Calls until the time is up; returns purchases a second. `times` gets the calls' times in nanoseconds. */
static double drive(redisContext *redis, const char *sha, int items, int batch, int in_flight, double seconds,
                    struct histogram *times) {
    int64_t began_ns[IN_FLIGHT_MAX] = {0}, start_ns = clock_now_ns();
    long serial = start_ns / 1000, sent = 0, done = 0; /* keys that no earlier run had */
    for (; sent < in_flight; sent++) {
        append_call(redis, sha, items, batch, &serial);
        began_ns[sent % in_flight] = clock_now_ns();
    }
    for (; (double)(clock_now_ns() - start_ns) < seconds * 1e9; sent++, done++) {
        read_reply(redis);
        histogram_record(times, (uint64_t)(clock_now_ns() - began_ns[done % in_flight]));
        append_call(redis, sha, items, batch, &serial);
        began_ns[sent % in_flight] = clock_now_ns();
    }
    return (double)(done * batch) / ((double)(clock_now_ns() - start_ns) / 1e9);
}

int main(int argc, char **argv) {
    if (argc != 6)
        fail("usage: bench-store PORT ITEMS BATCH IN_FLIGHT SECONDS");
    int numbers[4];
    for (int i = 0; i < 4; i++)
        numbers[i] = (int)strtol(argv[i + 1], NULL, 10);
    int port = numbers[0], items = numbers[1], batch = numbers[2], in_flight = numbers[3];
    if (batch < 1 || batch > BATCH_MAX || items < 1 || in_flight < 1 || in_flight > IN_FLIGHT_MAX)
        fail("BATCH is 1 to 256, IN_FLIGHT 1 to 16, ITEMS at least 1");
    redisContext *redis = redisConnect("127.0.0.1", port);
    static struct histogram times;
    if (!redis || redis->err)
        fail("cannot connect to Redis");
    create_items(redis, items);
    redisReply *loaded = redisCommand(redis, "SCRIPT LOAD %s", purchase_lua);
    if (!loaded || loaded->type != REDIS_REPLY_STRING)
        fail("cannot load the script");
    double rate = drive(redis, loaded->str, items, batch, in_flight, strtod(argv[5], NULL), &times);
    printf("%.0f %.3f\n", rate, (double)histogram_quantile(&times, 0.5) / 1e6);
    freeReplyObject(loaded);
    redisFree(redis);
    return 0;
}
