/* A connection from within: dial.c makes it, connection.c has its calls and its end. Only these two and the
 * files that read replies know hiredis. */
#ifndef BASE_REDIS_ASYNC_DIAL_H
#define BASE_REDIS_ASYNC_DIAL_H

#include <hiredis/async.h>

#include "base/redis/async/connection.h"
#include "base/redis/command.h"

/* A call that waits for its reply. Replies come in order, so the head of the list is the oldest call. */
struct redis_pending {
    struct redis *redis;
    redis_reply_fn *fn;
    void *ctx;
    int64_t since_ms;
    bool early; /* queued before the connection was up */
    struct redis_pending *next;
};

/* A reply that is held back. */
struct redis_held {
    redis_reply_fn *fn;
    void *ctx;
    struct redis_value *value;
    int64_t since_ms;
    struct redis_held *next;
};

struct redis_poll;

struct redis {
    struct redis_config config;
    redisAsyncContext *hiredis; /* NULL between two attempts */
    struct redis_poll *poll;
    struct redis_pending *oldest, *newest, *spare;
    struct redis_held *held, *last_held;
    struct redis_output output;    /* where a command is formatted */
    uint64_t held_count, released; /* so far */
    int replicas;                  /* have what was released last */
    struct replication history;
    uv_timer_t tick;
    uv_prepare_t flush; /* before the loop waits */
    int64_t ticked_ms;
    int64_t connecting_since_ms, reached_ms, retry_at_ms;
    int pause_ms; /* before the next attempt to connect; 0: there was none yet */
    int handles;  /* that are not closed yet */
    bool up, closing, late;
    bool finding;   /* config.find was asked, and has not answered */
    bool preparing; /* config.prepare was called, and redis_admit() was not */
    bool greeting;  /* calls may be queued though the connection is not up */
    bool logged_in;
    bool in_vain; /* it was tried since it was up last */
    char error[256];
};

/* Ends what refers to a connection that is gone, or could not be made. */
void redis_went_down(struct redis *redis);
/* Polls the socket for hiredis until hiredis frees the connection. NULL when out of memory, or if the socket
 * cannot be polled. */
struct redis_poll *redis_poll_start(uv_loop_t *loop, redisAsyncContext *hiredis);

#endif
