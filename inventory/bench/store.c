/* The ceiling of the store: Redis alone, driven by the batch script over one connection, with nothing else on
 * the way. usage: bench-store PORT ITEMS BATCH SECONDS. Prints purchases a second. */
#include <hiredis/hiredis.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "purchase.lua.h"

enum { BATCH_MAX = 256, IN_FLIGHT_MAX = 16, FIXED = 10, TIMES_MAX = 1000000 };

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void fail(const char *what) {
    fprintf(stderr, "bench-store: %s\n", what);
    exit(1);
}

static void create_items(redisContext *redis, int items) {
    for (int i = 0; i < items; i++) {
        redisReply *reply =
            redisCommand(redis,
                         "HSET seckill:{bench%d}:item initial 1000000000 available 1000000000 restocked 0 "
                         "held 0 sold 0 limit 5 starts 0 ends 0 hold 0 strategy batch",
                         i);
        if (!reply || reply->type == REDIS_REPLY_ERROR)
            fail("cannot create an item");
        freeReplyObject(reply);
    }
}

/* Appends one call: `batch` new buyers of one item. */
static void append_call(redisContext *redis, const char *sha, int item, int batch, long *serial) {
    static char texts[5 + 2 * BATCH_MAX][64];
    static const char *const names[] = {"item", "orders", "users", "holds", "ledger"};
    const char *argv[FIXED + 3 * BATCH_MAX] = {"EVALSHA", sha, "5"};
    for (int i = 0; i < 5; i++) {
        snprintf(texts[i], sizeof texts[i], "seckill:{bench%d}:%s", item, names[i]);
        argv[3 + i] = texts[i];
    }
    argv[8] = "batch";
    argv[9] = "0";
    for (int i = 0; i < batch; i++, ++*serial) {
        char *digest = texts[5 + 2 * i], *user = texts[6 + 2 * i];
        snprintf(digest, 64, "%022ld", *serial);
        snprintf(user, 64, "u%ld", *serial);
        argv[FIXED + i] = digest;
        argv[FIXED + batch + i] = user;
        argv[FIXED + 2 * batch + i] = "1";
    }
    if (redisAppendCommandArgv(redis, FIXED + 3 * batch, argv, NULL) != REDIS_OK)
        fail("out of memory");
}

/* All were sold, or it is no result. */
static void read_reply(redisContext *redis) {
    redisReply *reply;
    if (redisGetReply(redis, (void **)&reply) != REDIS_OK)
        fail(redis->errstr);
    if (reply->type != REDIS_REPLY_ARRAY || reply->elements != 3 ||
        reply->element[0]->type != REDIS_REPLY_INTEGER)
        fail(reply->str ? reply->str : "a purchase was refused");
    freeReplyObject(reply);
}

static int by_size(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Calls until the time is up; returns purchases a second. `times` takes the first TIMES_MAX calls' durations.
 */
static double drive(redisContext *redis, const char *sha, int items, int batch, int in_flight, double seconds,
                    double *times, long *timed) {
    long serial = (long)(now() * 1e6), sent = 0, done = 0; /* keys that no earlier run had */
    double began[IN_FLIGHT_MAX] = {0}, start = now();
    for (; sent < in_flight; sent++) {
        append_call(redis, sha, (int)(sent % items), batch, &serial);
        began[sent % in_flight] = now();
    }
    for (; now() < start + seconds; sent++, done++) {
        read_reply(redis);
        if (done < TIMES_MAX)
            times[(*timed)++] = now() - began[done % in_flight];
        append_call(redis, sha, (int)(sent % items), batch, &serial);
        began[sent % in_flight] = now();
    }
    return (double)(done * batch) / (now() - start);
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
    double *times = malloc(sizeof *times * TIMES_MAX);
    if (!redis || redis->err || !times)
        fail("cannot connect to Redis");
    create_items(redis, items);
    redisReply *loaded = redisCommand(redis, "SCRIPT LOAD %s", purchase_lua);
    if (!loaded || loaded->type != REDIS_REPLY_STRING)
        fail("cannot load the script");
    long timed = 0;
    double rate = drive(redis, loaded->str, items, batch, in_flight, strtod(argv[5], NULL), times, &timed);
    qsort(times, (size_t)timed, sizeof *times, by_size);
    printf("%.0f %.3f\n", rate, times[timed / 2] * 1e3);
    freeReplyObject(loaded);
    redisFree(redis);
    free(times);
    return 0;
}
