/* One pipelined connection to Redis on a libuv loop. Only redis.c and redis_value.c know hiredis.
 *
 * Everything here belongs to the loop's thread. Calls are queued, written together, and answered in order.
 * The connection is made anew by itself, for ever, with a pause that grows to a second. */
#ifndef INVENTORY_STORE_REDIS_H
#define INVENTORY_STORE_REDIS_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

#include "base/clock.h"
#include "base/redis_target.h"

/* A reply; valid only within its callback. */
struct redis_value;
enum redis_type { REDIS_NIL, REDIS_INTEGER, REDIS_STRING, REDIS_ARRAY, REDIS_ERROR };

enum redis_type redis_value_type(const struct redis_value *value);
/* The integer, or the number in the string; `otherwise` where it is neither. */
int64_t redis_value_integer(const struct redis_value *value, int64_t otherwise);
/* The text of a string, status or error (ends in NUL), else NULL. */
const char *redis_value_text(const struct redis_value *value);
size_t redis_value_count(const struct redis_value *value);
/* The i-th element; i is below redis_value_count(). */
const struct redis_value *redis_value_at(const struct redis_value *value, size_t i);

/* `value` is NULL if the connection broke after the call was queued: it may have been carried out or not. */
typedef void redis_reply_fn(void *ctx, const struct redis_value *value);

struct redis;

/* Called when the connection came up (ready for calls: authenticated, database chosen) and when it went down.
 */
typedef void redis_state_fn(void *ctx, bool up);

/* Starts to connect; NULL when out of memory. `target` and `clock` must outlive it. A call that is not
 * answered within `timeout_ms` breaks the connection, and with it all calls behind it. */
struct redis *redis_open(uv_loop_t *loop, const struct redis_target *target, const struct clock *clock,
                         int timeout_ms, redis_state_fn *on_state, void *ctx);

/* Queues a call. It is written before the loop waits again. `fn`, which may be NULL, is called exactly once:
 * with `redis_unsent` before this returns, if there is no connection or no memory. */
void redis_call(struct redis *redis, redis_reply_fn *fn, void *ctx, int argc, const char **argv);
/* The same with a format as of printf(): blanks in it part the arguments. */
void redis_callf(struct redis *redis, redis_reply_fn *fn, void *ctx, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* An error, the answer to a call that was not sent. */
extern const struct redis_value *const redis_unsent;

/* A call that can be queued more than once. `text` is NULL when out of memory. */
struct redis_command {
    char *text;
    size_t length;
    void (*free)(char *text);
};

struct redis_command redis_command_make(int argc, const char **argv);
/* `head` stands before the format. */
struct redis_command redis_command_print(const char *head, const char *format, va_list list)
    __attribute__((format(printf, 2, 0)));
/* The EVAL of a script with the keys and arguments of an EVALSHA. */
struct redis_command redis_command_eval(const struct redis_command *evalsha, const char *script);
void redis_command_free(struct redis_command *command);
void redis_send(struct redis *redis, redis_reply_fn *fn, void *ctx, const struct redis_command *command);

/* Writes what is queued now, as far as the socket takes it; the rest follows by itself. */
void redis_flush(struct redis *redis);
/* The same from within a callback too, where that leaves it to the loop: for a caller that stops there. */
void redis_push(struct redis *redis);

bool redis_is_up(const struct redis *redis);

/* Why it is down: the last error's text, "" where there was none. */
const char *redis_error(const struct redis *redis);

/* Breaks the connection; it is made anew. For a store that answers, but that it is no use to ask again
 * (read-only). */
void redis_break(struct redis *redis, const char *why);

/* Breaks it for good: pending calls are answered NULL before this returns, the memory goes when the loop has
 * run once more. */
void redis_close(struct redis *redis);

#endif
