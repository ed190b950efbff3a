/* Makes a connection, and makes it anew: dials, greets the server, and watches the time. */
#include <errno.h>
#include <hiredis/async.h>
#include <hiredis/hiredis.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/redis/async/driver.h"

enum { TICK_MS = 50, LATE_MS = 500 };

/* ---- the greeting ---- */

static void dial_on_auth(void *ctx, const struct redis_value *value) {
    if (value && redis_value_type(value) == REDIS_ERROR)
        redis_break(ctx, redis_value_text(value));
}

static void dial_log_in(struct redis *redis) {
    const struct redis_target *target = &redis->config.target;
    const char *login[3];
    redis->logged_in = true;
    redis_greet(redis, dial_on_auth, redis, redis_target_login(target, login), login);
}

/* Why the connection cannot be used, by the reply to the last command of the greeting; NULL: it can. */
static const char *dial_find_fault(struct redis *redis, const struct redis_value *value) {
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

static void dial_admit(struct redis *redis) {
    redis->preparing = false;
    redis->up = true;
    redis->pause_ms = 0;
    redis->error[0] = '\0';
    if (redis->config.on_state)
        redis->config.on_state(redis->config.ctx, true);
}

void redis_admit(struct redis *redis) {
    if (redis->preparing)
        dial_admit(redis);
}

static void dial_on_greeting(void *ctx, const struct redis_value *value) {
    struct redis *redis = ctx;
    if (!value || redis->closing)
        return;
    const char *fault = dial_find_fault(redis, value);
    if (fault && redis->config.role == REDIS_ROLE_SENTINEL && !redis->logged_in &&
        redis->config.target.password[0] && strncmp(fault, "NOAUTH", 6) == 0) {
        dial_log_in(redis);
        redis_greet(redis, dial_on_greeting, redis, 1, (const char *[]){"PING"});
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
        dial_admit(redis);
}

/* A Sentinel has no databases, and is told the password only if it asks for one: it may have none. */
static void dial_begin_greeting(struct redis *redis) {
    enum redis_role role = redis->config.role;
    char database[16];
    redis->logged_in = false;
    if (role == REDIS_ROLE_SENTINEL) {
        redis_greet(redis, dial_on_greeting, redis, 1, (const char *[]){"PING"});
        return;
    }
    if (redis->config.target.password[0])
        dial_log_in(redis);
    snprintf(database, sizeof database, "%d", redis->config.target.database);
    redis_greet(redis, dial_on_auth, redis, 2, (const char *[]){"SELECT", database});
    redis_greet(redis, dial_on_greeting, redis, 2, (const char *[]){"INFO", "replication"});
}

/* ---- connecting ---- */

static void dial_on_disconnect(const redisAsyncContext *hiredis, int status) {
    struct redis *redis = hiredis->data;
    if (status != REDIS_OK)
        redis_note_error(redis, hiredis->errstr);
    if (redis->hiredis)
        redis_went_down(redis);
}

static void dial_on_connect(const redisAsyncContext *hiredis, int status) {
    struct redis *redis = hiredis->data;
    if (status == REDIS_OK) {
        dial_begin_greeting(redis);
        return;
    }
    redis_note_error(redis, hiredis->errstr[0] ? hiredis->errstr : strerror(errno));
    redis_went_down(redis);
}

/* NULL when out of memory. */
static redisAsyncContext *dial_socket(const struct redis_target *target) {
    redisAsyncContext *hiredis =
        target->port ? redisAsyncConnect(target->host, target->port) : redisAsyncConnectUnix(target->host);
    /* SO_LINGER 0: bytes that were not delivered when the connection is given up are never delivered. */
    struct linger drop = {.l_onoff = 1};
    if (hiredis && !hiredis->err)
        (void)setsockopt(hiredis->c.fd, SOL_SOCKET, SO_LINGER, &drop, sizeof drop);
    return hiredis;
}

static void dial_now(struct redis *redis) {
    redisAsyncContext *hiredis = dial_socket(&redis->config.target);
    redis->connecting_since_ms = clock_mono_ms(redis->config.clock);
    bool failed = !hiredis || hiredis->err;
    redis->poll = failed ? NULL : redis_poll_start(redis->config.loop, hiredis);
    if (!redis->poll) {
        redis_note_error(redis, hiredis && hiredis->err ? hiredis->errstr : "out of memory");
        if (hiredis)
            redisAsyncFree(hiredis);
        redis_went_down(redis);
        return;
    }
    redis->hiredis = hiredis;
    hiredis->data = redis;
    redisAsyncSetConnectCallback(hiredis, dial_on_connect);
    redisAsyncSetDisconnectCallback(hiredis, dial_on_disconnect);
}

static void dial_start(struct redis *redis) {
    redis->connecting_since_ms = clock_mono_ms(redis->config.clock);
    redis->finding = redis->config.find != NULL;
    if (redis->finding)
        redis->config.find(redis->config.ctx, redis);
    else
        dial_now(redis);
}

void redis_found(struct redis *redis, const struct redis_target *target, const char *why) {
    redis->finding = false;
    if (target) {
        redis->config.target = *target;
        dial_now(redis);
    } else {
        redis_note_error(redis, why);
        redis_went_down(redis);
    }
}

static void dial_on_tick(uv_timer_t *timer) {
    struct redis *redis = timer->data;
    int64_t now_ms = clock_mono_ms(redis->config.clock), since_ms = now_ms - redis->ticked_ms;
    redis->ticked_ms = now_ms;
    /* This process was stopped, not the store: what has come meanwhile is read before the next tick. */
    redis->late = !redis->late && since_ms > LATE_MS;
    if (redis->late)
        return;
    const struct redis_pending *call = STAILQ_FIRST(&redis->pending);
    const struct redis_held *held = STAILQ_FIRST(&redis->held);
    if (!redis->hiredis) {
        if (!redis->finding && now_ms >= redis->retry_at_ms)
            dial_start(redis);
    } else if (call && now_ms - call->since_ms > redis->config.timeout_ms) {
        redis_break(redis, "no reply within the time-out");
    } else if (held && now_ms - held->since_ms > redis->config.timeout_ms) {
        redis_break(redis, "no replica has answered within the time-out");
    } else if (!redis->up && !redis->preparing &&
               now_ms - redis->connecting_since_ms > redis->config.timeout_ms) {
        redis_break(redis, "no connection within the time-out");
    } else if (redis->preparing) {
        redis->config.prepare(redis->config.ctx, redis);
    }
}

/* ---- opening and closing ---- */

static void dial_on_prepare(uv_prepare_t *flush) {
    redis_flush(flush->data);
}

struct redis *redis_open(const struct redis_config *config) {
    struct redis *redis = calloc(1, sizeof *redis);
    if (!redis)
        return NULL;
    redis->config = *config;
    STAILQ_INIT(&redis->pending);
    STAILQ_INIT(&redis->spare);
    STAILQ_INIT(&redis->held);
    redis->tick.data = redis;
    uv_timer_init(config->loop, &redis->tick);
    uv_timer_start(&redis->tick, dial_on_tick, TICK_MS, TICK_MS);
    redis->flush.data = redis;
    uv_prepare_init(config->loop, &redis->flush);
    uv_prepare_start(&redis->flush, dial_on_prepare);
    dial_start(redis);
    return redis;
}

static void dial_on_closed(uv_handle_t *handle) {
    struct redis *redis = handle->data;
    if (--redis->handles > 0)
        return;
    for (struct redis_pending *call; (call = STAILQ_FIRST(&redis->spare));) {
        STAILQ_REMOVE_HEAD(&redis->spare, next);
        free(call);
    }
    free(redis->output.bytes);
    free(redis);
}

void redis_close(struct redis *redis) {
    if (!redis)
        return;
    redis->closing = true;
    redis->handles = 2;
    redis_break(redis, "closed");
    uv_close((uv_handle_t *)&redis->flush, dial_on_closed);
    uv_close((uv_handle_t *)&redis->tick, dial_on_closed);
}
