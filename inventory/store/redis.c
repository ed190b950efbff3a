#include "inventory/store/redis.h"

#include <hiredis/async.h>
#include <hiredis/hiredis.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "inventory/store/redis_inside.h"

/* ---- replies that are held back ---- */

static void hand_out(struct redis *redis, bool lost) {
    struct held *held = redis->held;
    redis->held = held->next;
    redis->released++;
    held->fn(held->ctx, lost ? NULL : held->value);
    redis_value_free(held->value);
    free(held);
}

static void lose_held(struct redis *redis) {
    while (redis->held)
        hand_out(redis, true);
}

/* False: out of memory. */
static bool hold(struct redis *redis, redis_reply_fn *fn, void *ctx, const struct redis_value *value) {
    struct held *held = malloc(sizeof *held);
    struct redis_value *copy = held ? redis_value_copy(value) : NULL;
    if (!copy) {
        free(held);
        return false;
    }
    *held =
        (struct held){.fn = fn, .ctx = ctx, .value = copy, .since_ms = clock_mono_ms(redis->config.clock)};
    if (redis->held)
        redis->last_held->next = held;
    else
        redis->held = held;
    redis->last_held = held;
    redis->held_count++;
    return true;
}

uint64_t redis_held(const struct redis *redis) {
    return redis->held_count;
}

void redis_release(struct redis *redis, uint64_t count, int replicas) {
    redis->replicas = replicas;
    while (redis->held && redis->released < count)
        hand_out(redis, false);
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
    lose_held(redis);
    redis->retry_at_ms = clock_mono_ms(redis->config.clock) + redis->pause_ms;
    redis->pause_ms = redis->pause_ms * 2 < LAST_PAUSE_MS ? redis->pause_ms * 2 : LAST_PAUSE_MS;
    if (was_up && !redis->closing && redis->config.on_state)
        redis->config.on_state(redis->config.ctx, false);
}

/* Ends the connection. hiredis answers each pending call with NULL, and then calls on_disconnect(). */
void redis_break(struct redis *redis, const char *why) {
    if (!redis->hiredis)
        return;
    redis_note_error(redis, why);
    /* Within a callback hiredis disconnects after the callback. */
    bool later = redis->hiredis->c.flags & REDIS_IN_CALLBACK;
    redisAsyncFree(redis->hiredis);
    if (redis->hiredis && !later)
        redis_went_down(redis); /* it was never up, so on_disconnect() is not called */
}

/* ---- calls ---- */

/* Also within the error of a script. */
static bool says_read_only(const struct redis_value *reply) {
    return redis_value_type(reply) == REDIS_ERROR && strstr(redis_value_text(reply), "READONLY");
}

static void on_reply(redisAsyncContext *hiredis, void *reply, void *data) {
    (void)hiredis;
    struct call *call = data;
    struct redis *redis = call->redis;
    redis_reply_fn *fn = call->fn;
    void *ctx = call->ctx;
    bool held = reply && fn && redis->config.hold && redis->history.is_master && !call->early;
    redis->oldest = call->next;
    if (!redis->oldest)
        redis->newest = NULL;
    call->next = redis->spare;
    redis->spare = call;
    if (held && !hold(redis, fn, ctx, reply)) {
        redis_break(redis, "out of memory");
        held = false;
        reply = NULL;
    }
    if (!reply)
        lose_held(redis); /* they come first */
    if (fn && !held)
        fn(ctx, reply);
    if (reply && says_read_only(reply))
        redis_break(redis, redis_value_text(reply));
}

bool redis_queue(struct redis *redis, redis_reply_fn *fn, void *ctx, const struct redis_command *command) {
    struct call *call = redis->spare;
    if (!command->text)
        return false;
    if (call)
        redis->spare = call->next;
    else if (!(call = malloc(sizeof *call)))
        return false;
    *call = (struct call){.redis = redis,
                          .fn = fn,
                          .ctx = ctx,
                          .since_ms = clock_mono_ms(redis->config.clock),
                          .early = !redis->up};
    if (redisAsyncFormattedCommand(redis->hiredis, on_reply, call, command->text, command->length) !=
        REDIS_OK) {
        call->next = redis->spare;
        redis->spare = call;
        return false;
    }
    if (redis->newest)
        redis->newest->next = call;
    else
        redis->oldest = call;
    redis->newest = call;
    return true;
}

void redis_send(struct redis *redis, redis_reply_fn *fn, void *ctx, const struct redis_command *command) {
    bool up = redis_is_up(redis);
    if (up && redis_queue(redis, fn, ctx, command))
        return;
    if (up)
        redis_break(redis, "out of memory"); /* calls that belong together are not torn */
    if (fn)
        fn(ctx, redis_unsent);
}

void redis_greet(struct redis *redis, redis_reply_fn *fn, void *ctx, int argc, const char **argv) {
    struct redis_command command = redis_command_make(argc, argv);
    if (!redis->hiredis || !redis_queue(redis, fn, ctx, &command)) {
        redis_break(redis, "out of memory");
        if (fn)
            fn(ctx, redis_unsent);
    }
    redis_command_free(&command);
}

void redis_call(struct redis *redis, redis_reply_fn *fn, void *ctx, int argc, const char **argv) {
    struct redis_command command = redis_command_make(argc, argv);
    redis_send(redis, fn, ctx, &command);
    redis_command_free(&command);
}

void redis_vcallf(struct redis *redis, redis_reply_fn *fn, void *ctx, const char *format, va_list list) {
    struct redis_command command = redis_command_print("", format, list);
    redis_send(redis, fn, ctx, &command);
    redis_command_free(&command);
}

void redis_callf(struct redis *redis, redis_reply_fn *fn, void *ctx, const char *format, ...) {
    va_list list;
    va_start(list, format);
    redis_vcallf(redis, fn, ctx, format, list);
    va_end(list);
}

void redis_flush(struct redis *redis) {
    if (redis->hiredis)
        redis_poll_flush(redis->poll);
}

/* A failed write frees nothing here: the next write, by the loop, fails too. */
void redis_push(struct redis *redis) {
    int done;
    if (redis->hiredis && redis->up)
        redisBufferWrite(&redis->hiredis->c, &done);
}

/* ---- how it is ---- */

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
    return !redis->oldest && !redis->held;
}

const struct redis_target *redis_address_now(const struct redis *redis) {
    return &redis->config.target;
}

const struct replication *redis_history(const struct redis *redis) {
    return &redis->history;
}

/* When its first replica comes, and when it has had none for long, a master gives its history a new id and
 * goes on. One that was promoted goes on from another, and names it. */
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
