/* One pipelined connection to a Redis on a libuv loop.
 *
 * Calls are queued, written together, and answered in order. The connection is made anew by itself, for ever,
 * with a pause that grows to a second; also after a reply that the server is a replica: its name, or the
 * Sentinels, may mean another one by now. Everything here belongs to the loop's thread. */
#ifndef BASE_REDIS_ASYNC_CONNECTION_H
#define BASE_REDIS_ASYNC_CONNECTION_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

#include "base/clock.h"
#include "base/redis/info.h"
#include "base/redis/resp.h"
#include "base/redis/url.h"

/* `value` is valid only within the callback. NULL: the connection broke after the call was queued, so that it
 * may have been carried out or not. */
typedef void redis_reply_fn(void *ctx, const struct redis_value *value);

struct redis;

/* Called when the connection came up (ready for calls: authenticated, database chosen), and when it went
 * down. */
typedef void redis_state_fn(void *ctx, bool up);

/* What the server must be before the connection is up. */
enum redis_role {
    REDIS_ROLE_ANY,  /* also one that does not tell its history */
    REDIS_ROLE_NODE, /* of a cluster: a master or a replica */
    REDIS_ROLE_MASTER,
    REDIS_ROLE_SENTINEL
};

struct redis_config {
    uv_loop_t *loop;
    const struct clock *clock; /* must outlive the connection */
    /* A call that is not answered within this time breaks the connection, and with it all calls behind it. */
    int timeout_ms;
    enum redis_role role;
    struct redis_target target; /* the server, */
    /* or who looks it up before each attempt to connect: calls redis_found(), now or later. NULL: `target` */
    void (*find)(void *ctx, struct redis *redis);
    /* Called before the connection is up, and every few milliseconds until redis_admit(): may prepare the
     * server by redis_greet(). NULL: it is admitted at once. Not for a server without a history. */
    void (*prepare)(void *ctx, struct redis *redis);
    redis_state_fn *on_state; /* may be NULL */
    void *ctx;                /* of all three */
    /* Replies are held back until redis_release(). Those that are held when the connection breaks become
     * NULL. */
    bool hold;
};

/* Starts to connect; NULL when out of memory. */
struct redis *redis_open(const struct redis_config *config);

/* ---- before it is up ---- */

/* The answer to `find`: where the server is. NULL: it was not found, and `why`. */
void redis_found(struct redis *redis, const struct redis_target *target, const char *why);

/* The last address that was found, or the only one. */
const struct redis_target *redis_address_now(const struct redis *redis);
/* The server's history as it was when the connection was made, or was noted; its id is "" if the server does
 * not tell it. */
const struct replication *redis_history(const struct redis *redis);
/* Notes what INFO says by now. Breaks the connection if data may be gone since. */
void redis_note_history(struct redis *redis, const struct replication *now);
/* A call to a server that is being prepared. */
void redis_greet(struct redis *redis, redis_reply_fn *fn, void *ctx, int argc, const char *const argv[]);
/* The server is prepared. */
void redis_admit(struct redis *redis);
/* Why it is not admitted yet, for redis_error(). */
void redis_note_error(struct redis *redis, const char *text);

/* ---- calls ---- */

/* Queues a call. It is written before the loop waits again. `fn`, which may be NULL, is called exactly once:
 * with `redis_unsent` before this returns, if there is no connection or no memory. */
void redis_call(struct redis *redis, redis_reply_fn *fn, void *ctx, int argc, const char *const argv[]);
/* The same with a format as of printf(): blanks in it part the arguments. */
void redis_callf(struct redis *redis, redis_reply_fn *fn, void *ctx, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
void redis_vcallf(struct redis *redis, redis_reply_fn *fn, void *ctx, const char *format, va_list list)
    __attribute__((format(printf, 4, 0)));
/* The same with a command that is formatted already (resp.h). `length` 0: the caller had no memory for
 * it. */
void redis_send(struct redis *redis, redis_reply_fn *fn, void *ctx, const char *command, size_t length);
/* Formats a command, to be freed by free(). NULL when out of memory. */
char *redis_format(size_t *length, const char *format, va_list list) __attribute__((format(printf, 2, 0)));

/* Writes what is queued now, as far as the socket takes it; the rest follows by itself. */
void redis_flush(struct redis *redis);
/* The same from within a callback too, where redis_flush() leaves it to the loop: for a caller that stops
 * there. */
void redis_push(struct redis *redis);

/* Hands out the first `count` of all replies that were held back, unless that was done before: `replicas`
 * replicas have what they tell. */
void redis_release(struct redis *redis, uint64_t count, int replicas);
/* The number of replicas of the last redis_release(). 0: there was none since the connection was made. */
int redis_replicas(const struct redis *redis);

/* Breaks the connection, which is made anew. Pending calls get NULL. */
void redis_break(struct redis *redis, const char *why);

bool redis_is_up(const struct redis *redis);
/* Up, or about to be: it is being prepared. */
bool redis_is_reached(const struct redis *redis);
/* Not reached, and it was tried again in vain since it was up. */
bool redis_is_gone(const struct redis *redis);
/* Whether the last attempt to connect reached the server, whatever became of it. */
bool redis_was_reached(const struct redis *redis);
/* When the connection was reached last. */
int64_t redis_reached_ms(const struct redis *redis);
/* Whether no call waits for its reply. */
bool redis_is_idle(const struct redis *redis);

/* Why it is down: the last error's text, "" where there was none. */
const char *redis_error(const struct redis *redis);

/* Breaks the connection for good: pending calls get NULL before this returns, the memory goes when the loop
 * has run once more. NULL does nothing. */
void redis_close(struct redis *redis);

#endif
