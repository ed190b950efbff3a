/* A connection from within: redis_connect.c has it come up, redis.c has its calls and its end. Nobody else
 * includes this. */
#ifndef INVENTORY_STORE_REDIS_INSIDE_H
#define INVENTORY_STORE_REDIS_INSIDE_H

#include <hiredis/async.h>

#include "inventory/store/redis.h"
#include "inventory/store/redis_poll.h"

/* Between two attempts to connect. */
enum { FIRST_PAUSE_MS = 20, LAST_PAUSE_MS = 1000 };

/* A call that waits for its reply. Replies come in order, so the head of the list is the oldest call. */
struct call {
    struct redis *redis;
    redis_reply_fn *fn;
    void *ctx;
    int64_t since_ms;
    bool early; /* before the connection was up */
    struct call *next;
};

/* A reply that is held back. */
struct held {
    redis_reply_fn *fn;
    void *ctx;
    struct redis_value *value;
    int64_t since_ms;
    struct held *next;
};

struct redis {
    struct redis_config config;
    redisAsyncContext *hiredis; /* NULL between two attempts */
    struct redis_poll *poll;
    struct call *oldest, *newest, *spare;
    struct held *held, *last_held;
    uint64_t held_count, released; /* so far */
    int replicas;                  /* have what was released last */
    struct replication history;
    uv_timer_t tick;
    uv_prepare_t flush; /* before the loop waits */
    int64_t ticked_ms;
    int64_t connecting_since_ms, reached_ms, retry_at_ms;
    int pause_ms;
    int handles; /* that are not closed yet */
    bool up, closing, late;
    bool finding;   /* config.find was asked, and has not answered */
    bool preparing; /* config.prepare was, and has not called redis_admit() */
    bool logged_in;
    bool in_vain; /* it was tried since it was up last */
    char error[256];
};

/* Queues a call whether or not the connection is up. False: out of memory. */
bool redis_queue(struct redis *redis, redis_reply_fn *fn, void *ctx, const struct redis_command *command);
/* The connection is gone, or could not be made. */
void redis_went_down(struct redis *redis);

#endif
