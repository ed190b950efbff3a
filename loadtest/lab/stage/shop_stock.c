#include "loadtest/lab/stage/shop_stock.h"

#include <ctype.h>
#include <hiredis.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "stock_read.lua.h"
#include "stock_sell.lua.h"

enum { TIMEOUT_S = 2, KEY_SIZE = WIRE_NAME_SIZE + 32 };

struct stock {
    redisContext *redis;
    int port;
};

/* ---- the connection ---- */

static bool is_connected(const struct stock *stock) {
    return stock->redis && stock->redis->err == 0;
}

static void stock_connect(struct stock *stock) {
    const struct timeval timeout = {.tv_sec = TIMEOUT_S};
    redisFree(stock->redis);
    stock->redis = redisConnectWithTimeout("127.0.0.1", stock->port, timeout);
    if (is_connected(stock))
        redisSetTimeout(stock->redis, timeout);
}

struct stock *stock_open(int port) {
    struct stock *stock = calloc(1, sizeof *stock);
    if (!stock)
        return NULL;
    stock->port = port;
    stock_connect(stock);
    if (is_connected(stock))
        return stock;
    stock_close(stock);
    return NULL;
}

void stock_close(struct stock *stock) {
    if (stock)
        redisFree(stock->redis);
    free(stock);
}

/* After a failure it connects anew. NULL: no answer. */
static redisReply *command(struct stock *stock, int argc, const char *argv[]) {
    if (!is_connected(stock))
        stock_connect(stock);
    return is_connected(stock) ? redisCommandArgv(stock->redis, argc, argv, NULL) : NULL;
}

/* ---- the stock ---- */

static void make_key(char key[KEY_SIZE], const char *item, const char *more) {
    snprintf(key, KEY_SIZE, "stock:{%.60s}%s", item, more);
}

bool stock_put(struct stock *stock, const char *item, int64_t initial) {
    char key[KEY_SIZE], number[24];
    make_key(key, item, "");
    snprintf(number, sizeof number, "%" PRId64, initial);
    const char *argv[] = {"HSET", key, "initial", number, "available", number, "sold", "0"};
    redisReply *reply = command(stock, 8, argv);
    bool good = reply && reply->type == REDIS_REPLY_INTEGER;
    freeReplyObject(reply);
    return good;
}

/* Three numbers; what is missing is 0. */
static bool decode(const redisReply *reply, struct stock_state *state) {
    if (!reply || reply->type != REDIS_REPLY_ARRAY || reply->elements != 3)
        return false;
    int64_t numbers[3];
    for (int i = 0; i < 3; i++)
        numbers[i] = reply->element[i]->str ? strtoll(reply->element[i]->str, NULL, 10) : 0;
    *state = (struct stock_state){.initial = numbers[0], .available = numbers[1], .sold = numbers[2]};
    return true;
}

bool stock_read(struct stock *stock, const char *item, uint64_t fence, struct stock_state *state) {
    char key[KEY_SIZE], number[24];
    make_key(key, item, "");
    snprintf(number, sizeof number, "%" PRIu64, fence);
    const char *unfenced[] = {"HMGET", key, "initial", "available", "sold"};
    const char *fenced[] = {"EVAL", stock_read_lua, "1", key, number};
    bool good = false;
    /* A read may be repeated: a server that has been promoted closes the connections from before. */
    for (int tries = 0; tries < 2 && !good; tries++) {
        redisReply *reply = command(stock, 5, fence > 0 ? fenced : unfenced);
        good = decode(reply, state);
        freeReplyObject(reply);
    }
    return good;
}

/* "NOREPLICAS Not enough …" becomes "noreplicas": the first word of what Redis says. */
static void copy_reason(char reason[32], const char *text) {
    int length = 0;
    for (; length < 31 && text[length] > ' '; length++)
        reason[length] = (char)tolower(text[length]);
    reason[length] = '\0';
}

enum stock_answer stock_sell(struct stock *stock, const struct stock_sale *sale, struct stock_state *state,
                             char reason[32]) {
    char key[KEY_SIZE], once_key[KEY_SIZE], quantity[24], fence[24], left[24] = "";
    make_key(key, sale->item, "");
    make_key(once_key, sale->item, ":once");
    snprintf(quantity, sizeof quantity, "%" PRId64, sale->quantity);
    snprintf(fence, sizeof fence, "%" PRIu64, sale->fence);
    if (sale->way == STOCK_COMPUTED)
        snprintf(left, sizeof left, "%" PRId64, sale->left);
    const char *argv[] = {"EVAL", stock_sell_lua, "2", key, once_key, quantity, fence, left, sale->once};
    redisReply *reply = command(stock, 9, argv);
    enum stock_answer answer = STOCK_UNKNOWN;
    if (reply && (reply->type == REDIS_REPLY_STRING || reply->type == REDIS_REPLY_ERROR)) {
        copy_reason(reason, reply->str);
        answer = STOCK_REFUSED;
    } else if (decode(reply, state)) {
        answer = STOCK_SOLD;
    }
    freeReplyObject(reply);
    return answer;
}
