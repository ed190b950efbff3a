#include "inventory/store/redis.h"

#include <hiredis/async.h>
#include <hiredis/hiredis.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "inventory/store/redis_poll.h"

enum { TICK_MS = 50, LATE_MS = 500, FIRST_PAUSE_MS = 20, LAST_PAUSE_MS = 1000 };

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

/* ---- going up and down ---- */

void redis_note_error(struct redis *redis, const char *text) {
    snprintf(redis->error, sizeof redis->error, "%s", text && *text ? text : "the connection was closed");
}

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

static void went_down(struct redis *redis) {
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
        went_down(redis); /* it was never up, so on_disconnect() is not called */
}

static void on_disconnect(const redisAsyncContext *hiredis, int status) {
    struct redis *redis = hiredis->data;
    if (status != REDIS_OK)
        redis_note_error(redis, hiredis->errstr);
    if (redis->hiredis)
        went_down(redis);
}

static bool queue(struct redis *redis, redis_reply_fn *fn, void *ctx, const struct redis_command *command);

void redis_greet(struct redis *redis, redis_reply_fn *fn, void *ctx, int argc, const char **argv) {
    struct redis_command command = redis_command_make(argc, argv);
    if (!redis->hiredis || !queue(redis, fn, ctx, &command)) {
        redis_break(redis, "out of memory");
        if (fn)
            fn(ctx, redis_unsent);
    }
    redis_command_free(&command);
}

static void greet(struct redis *redis, redis_reply_fn *fn, int argc, const char **argv) {
    redis_greet(redis, fn, redis, argc, argv);
}

static void auth_reply(void *ctx, const struct redis_value *value) {
    if (value && redis_value_type(value) == REDIS_ERROR)
        redis_break(ctx, redis_value_text(value));
}

static void log_in(struct redis *redis) {
    const struct redis_target *target = &redis->config.target;
    redis->logged_in = true;
    if (target->user[0])
        greet(redis, auth_reply, 3, (const char *[]){"AUTH", target->user, target->password});
    else
        greet(redis, auth_reply, 2, (const char *[]){"AUTH", target->password});
}

/* Why the connection cannot be used, by the reply to the last command of the greeting; NULL: it can. */
static const char *find_fault(struct redis *redis, const struct redis_value *value) {
    enum redis_role role = redis->config.role;
    bool refused = redis_value_type(value) == REDIS_ERROR;
    const char *text = redis_value_text(value);
    redis->history = (struct replication){.id = ""};
    bool told = !refused && role != REDIS_ROLE_SENTINEL && text && replication_read(&redis->history, text);
    if (told)
        return role == REDIS_ROLE_MASTER && !redis->history.is_master ? "it is a replica" : NULL;
    if (role == REDIS_ROLE_MASTER || role == REDIS_ROLE_NODE)
        return refused ? text : "INFO replication does not tell its history";
    return role == REDIS_ROLE_SENTINEL && refused ? text : NULL;
}

static void admit(struct redis *redis) {
    redis->preparing = false;
    redis->up = true;
    redis->pause_ms = FIRST_PAUSE_MS;
    redis->error[0] = '\0';
    if (redis->config.on_state)
        redis->config.on_state(redis->config.ctx, true);
}

void redis_admit(struct redis *redis) {
    if (redis->preparing)
        admit(redis);
}

static void greeting_reply(void *ctx, const struct redis_value *value) {
    struct redis *redis = ctx;
    if (!value || redis->closing)
        return;
    const char *fault = find_fault(redis, value);
    if (fault && redis->config.role == REDIS_ROLE_SENTINEL && !redis->logged_in &&
        redis->config.target.password[0] && strncmp(fault, "NOAUTH", 6) == 0) {
        log_in(redis);
        greet(redis, greeting_reply, 1, (const char *[]){"PING"});
        return;
    }
    if (fault) {
        redis_break(redis, fault);
        return;
    }
    redis->reached_ms = clock_mono_ms(redis->config.clock);
    redis->preparing = redis->config.prepare && redis->history.id[0];
    if (redis->preparing)
        redis->config.prepare(redis->config.ctx, redis);
    else
        admit(redis);
}

/* A Sentinel has no databases, and is told the password only if it asks for one: it may have none. */
static void begin_greeting(struct redis *redis) {
    enum redis_role role = redis->config.role;
    char database[16];
    redis->logged_in = false;
    if (role == REDIS_ROLE_SENTINEL) {
        greet(redis, greeting_reply, 1, (const char *[]){"PING"});
        return;
    }
    if (redis->config.target.password[0])
        log_in(redis);
    snprintf(database, sizeof database, "%d", redis->config.target.database);
    greet(redis, auth_reply, 2, (const char *[]){"SELECT", database});
    greet(redis, greeting_reply, 2, (const char *[]){"INFO", "replication"});
}

static void on_connect(const redisAsyncContext *hiredis, int status) {
    struct redis *redis = hiredis->data;
    if (status == REDIS_OK) {
        begin_greeting(redis);
        return;
    }
    redis_note_error(redis, hiredis->errstr[0] ? hiredis->errstr : strerror(errno));
    went_down(redis);
}

/* NULL when out of memory. */
static redisAsyncContext *dial(const struct redis_target *target) {
    redisAsyncContext *hiredis =
        target->port ? redisAsyncConnect(target->host, target->port) : redisAsyncConnectUnix(target->host);
    /* SO_LINGER 0: bytes that were not delivered when the connection is given up are never delivered. */
    struct linger drop = {.l_onoff = 1};
    if (hiredis && !hiredis->err)
        (void)setsockopt(hiredis->c.fd, SOL_SOCKET, SO_LINGER, &drop, sizeof drop);
    return hiredis;
}

static void connect_now(struct redis *redis) {
    redisAsyncContext *hiredis = dial(&redis->config.target);
    redis->connecting_since_ms = clock_mono_ms(redis->config.clock);
    bool failed = !hiredis || hiredis->err;
    redis->poll = failed ? NULL : redis_poll_start(redis->config.loop, hiredis);
    if (!redis->poll) {
        redis_note_error(redis, hiredis && hiredis->err ? hiredis->errstr : "out of memory");
        if (hiredis)
            redisAsyncFree(hiredis);
        went_down(redis);
        return;
    }
    redis->hiredis = hiredis;
    hiredis->data = redis;
    redisAsyncSetConnectCallback(hiredis, on_connect);
    redisAsyncSetDisconnectCallback(hiredis, on_disconnect);
}

static void connect_start(struct redis *redis) {
    redis->connecting_since_ms = clock_mono_ms(redis->config.clock);
    redis->finding = redis->config.find != NULL;
    if (redis->finding)
        redis->config.find(redis->config.ctx, redis);
    else
        connect_now(redis);
}

void redis_found(struct redis *redis, const struct redis_target *target, const char *why) {
    redis->finding = false;
    if (target) {
        redis->config.target = *target;
        connect_now(redis);
    } else {
        redis_note_error(redis, why);
        went_down(redis);
    }
}

static void on_tick(uv_timer_t *timer) {
    struct redis *redis = timer->data;
    int64_t now_ms = clock_mono_ms(redis->config.clock), since_ms = now_ms - redis->ticked_ms;
    redis->ticked_ms = now_ms;
    /* This process was stopped, not the store: it reads what has come before the next tick. */
    redis->late = !redis->late && since_ms > LATE_MS;
    if (redis->late)
        return;
    if (!redis->hiredis) {
        if (!redis->finding && now_ms >= redis->retry_at_ms)
            connect_start(redis);
    } else if (redis->oldest && now_ms - redis->oldest->since_ms > redis->config.timeout_ms) {
        redis_break(redis, "no reply within the time-out");
    } else if (redis->held && now_ms - redis->held->since_ms > redis->config.timeout_ms) {
        redis_break(redis, "no replica has answered within the time-out");
    } else if (!redis->up && !redis->preparing &&
               now_ms - redis->connecting_since_ms > redis->config.timeout_ms) {
        redis_break(redis, "no connection within the time-out");
    } else if (redis->preparing) {
        redis->config.prepare(redis->config.ctx, redis);
    }
}

/* ---- calls ---- */

/* Also within the error of a script. */
static bool says_read_only(const struct redis_value *reply) {
    return redis_value_type(reply) == REDIS_ERROR && strstr(redis_value_text(reply), "READONLY");
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

static bool queue(struct redis *redis, redis_reply_fn *fn, void *ctx, const struct redis_command *command) {
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
    if (up && queue(redis, fn, ctx, command))
        return;
    if (up)
        redis_break(redis, "out of memory"); /* calls that belong together are not torn */
    if (fn)
        fn(ctx, redis_unsent);
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
    bool same = strcmp(now->id, redis->history.id) == 0;
    if (same || (now->is_master && redis->history.is_master && !now->before[0]))
        redis->history = *now;
    else
        redis_break(redis, "the server's history changed");
}

const char *redis_error(const struct redis *redis) {
    return redis->error;
}

static void on_prepare(uv_prepare_t *flush) {
    redis_flush(flush->data);
}

struct redis *redis_open(const struct redis_config *config) {
    struct redis *redis = calloc(1, sizeof *redis);
    if (!redis)
        return NULL;
    redis->config = *config;
    redis->pause_ms = FIRST_PAUSE_MS;
    redis->tick.data = redis;
    uv_timer_init(config->loop, &redis->tick);
    uv_timer_start(&redis->tick, on_tick, TICK_MS, TICK_MS);
    redis->flush.data = redis;
    uv_prepare_init(config->loop, &redis->flush);
    uv_prepare_start(&redis->flush, on_prepare);
    connect_start(redis);
    return redis;
}

static void on_closed(uv_handle_t *handle) {
    struct redis *redis = handle->data;
    if (--redis->handles > 0)
        return;
    while (redis->spare) {
        struct call *next = redis->spare->next;
        free(redis->spare);
        redis->spare = next;
    }
    free(redis);
}

void redis_close(struct redis *redis) {
    if (!redis)
        return;
    redis->closing = true;
    redis->handles = 2;
    redis_break(redis, "closed");
    uv_close((uv_handle_t *)&redis->flush, on_closed);
    uv_close((uv_handle_t *)&redis->tick, on_closed);
}
