#include "base/redis/async/driver.h"

#include <hiredis/async.h>
#include <hiredis/hiredis.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/redis/redirect.h"

/* ---- hiredis on a libuv loop ----
 *
 * A request of hiredis to write is only noted: the write is tried at the end of the turn of the loop, and
 * only what the socket does not take costs an epoll_ctl(). */

/* It outlives its connection by one turn of the loop, hence its own memory. */
struct redis_poll {
    uv_poll_t handle;
    redisAsyncContext *hiredis; /* NULL: it was freed */
    int events;
    bool want_write;
};

static void poll_on_ready(uv_poll_t *handle, int status, int events);

static void poll_update(struct redis_poll *poll) {
    int events = UV_READABLE | (poll->want_write ? UV_WRITABLE : 0);
    if (poll->events != events && uv_poll_start(&poll->handle, events, poll_on_ready) == 0)
        poll->events = events;
}

static void poll_on_ready(uv_poll_t *handle, int status, int events) {
    struct redis_poll *poll = handle->data;
    /* An error of the socket shows when hiredis reads or writes. */
    if (status < 0)
        events = UV_READABLE | UV_WRITABLE;
    if ((events & UV_READABLE) && poll->hiredis)
        redisAsyncHandleRead(poll->hiredis);
    /* This also writes what callbacks queued, which redis_flush() left. */
    if (((events & UV_WRITABLE) || poll->want_write) && poll->hiredis)
        redisAsyncHandleWrite(poll->hiredis);
    if (poll->hiredis)
        poll_update(poll);
}

static void poll_want_write(void *data) {
    ((struct redis_poll *)data)->want_write = true;
}

static void poll_want_no_write(void *data) {
    ((struct redis_poll *)data)->want_write = false;
}

static void poll_on_closed(uv_handle_t *handle) {
    free(handle->data);
}

static void poll_stop(void *data) {
    struct redis_poll *poll = data;
    poll->hiredis = NULL;
    uv_poll_stop(&poll->handle);
    uv_close((uv_handle_t *)&poll->handle, poll_on_closed);
}

struct redis_poll *redis_poll_start(uv_loop_t *loop, redisAsyncContext *hiredis) {
    struct redis_poll *poll = calloc(1, sizeof *poll);
    if (!poll || uv_poll_init(loop, &poll->handle, hiredis->c.fd) != 0) {
        free(poll);
        return NULL;
    }
    poll->handle.data = poll;
    poll->hiredis = hiredis;
    hiredis->ev.data = poll;
    hiredis->ev.addWrite = poll_want_write;
    hiredis->ev.delWrite = poll_want_no_write;
    hiredis->ev.cleanup = poll_stop;
    poll->want_write = true; /* a socket that is connected is writable */
    poll_update(poll);
    return poll;
}

/* ---- replies that are held back ---- */

static void connection_hand_out(struct redis *redis, bool lost) {
    struct redis_held *held = STAILQ_FIRST(&redis->held);
    STAILQ_REMOVE_HEAD(&redis->held, next);
    redis->released++;
    held->fn(held->ctx, lost ? NULL : held->value);
    redis_value_free(held->value);
    free(held);
}

static void connection_lose_held(struct redis *redis) {
    while (!STAILQ_EMPTY(&redis->held))
        connection_hand_out(redis, true);
}

/* False: out of memory. */
static bool connection_hold(struct redis *redis, redis_reply_fn *fn, void *ctx,
                            const struct redis_value *value) {
    struct redis_held *held = malloc(sizeof *held);
    struct redis_value *copy = held ? redis_value_copy(value) : NULL;
    if (!copy) {
        free(held);
        return false;
    }
    *held = (struct redis_held){
        .fn = fn, .ctx = ctx, .value = copy, .since_ms = clock_mono_ms(redis->config.clock)};
    STAILQ_INSERT_TAIL(&redis->held, held, next);
    redis->held_count++;
    return true;
}

void redis_release(struct redis *redis, uint64_t count, int replicas) {
    redis->replicas = replicas;
    while (!STAILQ_EMPTY(&redis->held) && redis->released < count)
        connection_hand_out(redis, false);
}

int redis_replicas(const struct redis *redis) {
    return redis->replicas;
}

/* ---- going down ---- */

void redis_note_error(struct redis *redis, const char *text) {
    snprintf(redis->error, sizeof redis->error, "%s", text && *text ? text : "the connection was closed");
}

void redis_went_down(struct redis *redis) {
    bool was_up = redis->up;
    redis->up = false;
    redis->in_vain = !was_up;
    redis->preparing = false;
    redis->replicas = 0;
    redis->hiredis = NULL;
    connection_lose_held(redis);
    redis->pause_ms = redis_backoff_next(&redis_backoff_connect, redis->pause_ms);
    redis->retry_at_ms = clock_mono_ms(redis->config.clock) + redis->pause_ms;
    if (was_up && !redis->closing && redis->config.on_state)
        redis->config.on_state(redis->config.ctx, false);
}

/* hiredis answers each pending call with NULL, and then calls dial_on_disconnect(). */
void redis_break(struct redis *redis, const char *why) {
    if (!redis->hiredis)
        return;
    redis_note_error(redis, why);
    /* Within a callback hiredis disconnects after the callback. */
    bool later = redis->hiredis->c.flags & REDIS_IN_CALLBACK;
    redisAsyncFree(redis->hiredis);
    if (redis->hiredis && !later)
        redis_went_down(redis); /* it was never up, so dial_on_disconnect() is not called */
}

/* ---- calls ---- */

static void connection_on_reply(redisAsyncContext *hiredis, void *reply, void *data) {
    (void)hiredis;
    struct redis_pending *call = data;
    struct redis *redis = call->redis;
    redis_reply_fn *fn = call->fn;
    void *ctx = call->ctx;
    bool held = reply && fn && redis->config.hold && redis->history.is_master && !call->early;
    STAILQ_REMOVE_HEAD(&redis->pending, next);
    STAILQ_INSERT_HEAD(&redis->spare, call, next);
    if (held && !connection_hold(redis, fn, ctx, reply)) {
        redis_break(redis, "out of memory");
        held = false;
        reply = NULL;
    }
    if (!reply)
        connection_lose_held(redis); /* they are older, and answered first */
    if (fn && !held)
        fn(ctx, reply);
    const char *error = redis_value_error(reply);
    if (error && redis_error_read(error, "", NULL) == REDIS_IS_REPLICA)
        redis_break(redis, error);
}

void redis_send(struct redis *redis, redis_reply_fn *fn, void *ctx, const char *command, size_t length) {
    bool open = redis_is_up(redis) || (redis->greeting && redis->hiredis);
    struct redis_pending *call = STAILQ_FIRST(&redis->spare);
    if (!open || length == 0)
        goto unsent;
    if (call)
        STAILQ_REMOVE_HEAD(&redis->spare, next);
    else if (!(call = malloc(sizeof *call)))
        goto unsent;
    *call = (struct redis_pending){.redis = redis,
                                   .fn = fn,
                                   .ctx = ctx,
                                   .since_ms = clock_mono_ms(redis->config.clock),
                                   .early = !redis->up};
    if (redisAsyncFormattedCommand(redis->hiredis, connection_on_reply, call, command, length) != REDIS_OK) {
        STAILQ_INSERT_HEAD(&redis->spare, call, next);
        goto unsent;
    }
    STAILQ_INSERT_TAIL(&redis->pending, call, next);
    return;
unsent:
    if (open)
        redis_break(redis, "out of memory"); /* of calls that belong together none may be missing */
    if (fn)
        fn(ctx, redis_unsent);
}

void redis_call(struct redis *redis, redis_reply_fn *fn, void *ctx, int argc, const char *const argv[]) {
    redis->output.length = 0;
    size_t length = redis_output_append(&redis->output, argc, argv);
    redis_send(redis, fn, ctx, redis->output.bytes, length);
}

void redis_greet(struct redis *redis, redis_reply_fn *fn, void *ctx, int argc, const char *const argv[]) {
    redis->greeting = true;
    redis_call(redis, fn, ctx, argc, argv);
    redis->greeting = false;
}

char *redis_format(size_t *length, const char *format, va_list list) {
    char *command = NULL;
    int size = redisvFormatCommand(&command, format, list);
    *length = size < 0 ? 0 : (size_t)size;
    return size < 0 ? NULL : command;
}

void redis_vcallf(struct redis *redis, redis_reply_fn *fn, void *ctx, const char *format, va_list list) {
    size_t length;
    char *command = redis_format(&length, format, list);
    redis_send(redis, fn, ctx, command, length);
    free(command);
}

void redis_callf(struct redis *redis, redis_reply_fn *fn, void *ctx, const char *format, ...) {
    va_list list;
    va_start(list, format);
    redis_vcallf(redis, fn, ctx, format, list);
    va_end(list);
}

void redis_flush(struct redis *redis) {
    struct redis_poll *poll = redis->poll;
    /* Within a callback a failed write would free the context that hiredis uses afterwards; the loop writes
     * then. */
    if (!redis->hiredis || !poll->want_write ||
        (poll->hiredis->c.flags & (REDIS_CONNECTED | REDIS_IN_CALLBACK)) != REDIS_CONNECTED)
        return;
    redisAsyncHandleWrite(poll->hiredis);
    if (poll->hiredis)
        poll_update(poll);
}

/* A failed write frees nothing here: the next write, by the loop, fails too. */
void redis_push(struct redis *redis) {
    int done;
    if (redis->hiredis && redis->up)
        redisBufferWrite(&redis->hiredis->c, &done);
}

/* ---- its state ---- */

bool redis_is_up(const struct redis *redis) {
    /* A broken connection takes no new calls while its pending ones are answered. */
    return redis->up && !(redis->hiredis->c.flags & (REDIS_DISCONNECTING | REDIS_FREEING));
}

bool redis_is_gone(const struct redis *redis) {
    return !redis_is_reached(redis) && redis->in_vain;
}

bool redis_is_reached(const struct redis *redis) {
    return redis_is_up(redis) || redis->preparing;
}

bool redis_was_reached(const struct redis *redis) {
    return redis->reached_ms >= redis->connecting_since_ms;
}

int64_t redis_reached_ms(const struct redis *redis) {
    return redis->reached_ms;
}

bool redis_is_idle(const struct redis *redis) {
    return STAILQ_EMPTY(&redis->pending) && STAILQ_EMPTY(&redis->held);
}

const struct redis_target *redis_address_now(const struct redis *redis) {
    return &redis->config.target;
}

const struct replication *redis_history(const struct redis *redis) {
    return &redis->history;
}

/* When its first replica comes, and when it has had none for long, a master gives its history a new id and
 * goes on. A replica that was promoted goes on from another history, and names that one. */
void redis_note_history(struct redis *redis, const struct replication *now) {
    bool same = strcmp(now->id, redis->history.id) == 0 && now->is_master == redis->history.is_master;
    if (same || (now->is_master && redis->history.is_master && !now->before[0]))
        redis->history = *now;
    else
        redis_break(redis, "the server's history changed");
}

const char *redis_error(const struct redis *redis) {
    return redis->error;
}
