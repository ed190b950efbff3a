#include "inventory/store/sentinel.h"

#include <stdio.h>
#include <stdlib.h>

enum { TICK_MS = 10 };

struct sentinel {
    uv_loop_t *loop;
    const struct redis_url *url;
    const struct clock *clock;
    int timeout_ms;
    int next;             /* to be asked */
    int tried;            /* in this search */
    struct redis *asked;  /* NULL: none is being asked */
    struct redis *finder; /* who wants to know; NULL: nobody */
    int64_t since_ms;
    uv_timer_t tick; /* runs while one is being asked */
    char why[256];   /* the last failure of this search */
};

static void ask_next(struct sentinel *sentinel);

static void leave(struct sentinel *sentinel) {
    uv_timer_stop(&sentinel->tick);
    redis_close(sentinel->asked);
    sentinel->asked = NULL;
}

static void pass_over(struct sentinel *sentinel, const char *why) {
    const struct redis_target *target = &sentinel->url->servers[sentinel->next];
    snprintf(sentinel->why, sizeof sentinel->why, "Sentinel %s:%d: %.100s", target->host, target->port, why);
    leave(sentinel);
    sentinel->next = (sentinel->next + 1) % sentinel->url->count;
    ask_next(sentinel);
}

static void finish(struct sentinel *sentinel, const struct redis_target *target) {
    struct redis *finder = sentinel->finder;
    sentinel->finder = NULL;
    redis_found(finder, target, sentinel->why);
}

static void on_address(void *ctx, const struct redis_value *value) {
    struct sentinel *sentinel = ctx;
    if (!sentinel->asked) /* it was left before */
        return;
    const char *host =
        value && redis_value_count(value) == 2 ? redis_value_text(redis_value_at(value, 0)) : NULL;
    int64_t port = host ? redis_value_integer(redis_value_at(value, 1), 0) : 0;
    if (!value) {
        pass_over(sentinel, "the connection broke");
    } else if (redis_value_type(value) == REDIS_ERROR) {
        pass_over(sentinel, redis_value_text(value));
    } else if (!host || port < 1 || port > 65535) {
        pass_over(sentinel, "knows no master of this name");
    } else {
        struct redis_target target = sentinel->url->servers[0]; /* user and password */
        snprintf(target.host, sizeof target.host, "%s", host);
        target.port = (int)port;
        leave(sentinel);
        finish(sentinel, &target);
    }
}

static void on_state(void *ctx, bool up) {
    struct sentinel *sentinel = ctx;
    if (up && sentinel->asked)
        redis_callf(sentinel->asked, on_address, sentinel, "SENTINEL get-master-addr-by-name %s",
                    sentinel->url->master);
}

static void on_tick(uv_timer_t *tick) {
    struct sentinel *sentinel = tick->data;
    const char *error = redis_error(sentinel->asked);
    if (*error)
        pass_over(sentinel, error);
    else if (clock_mono_ms(sentinel->clock) - sentinel->since_ms > sentinel->timeout_ms)
        pass_over(sentinel, "no answer within the time-out");
}

static void ask_next(struct sentinel *sentinel) {
    if (sentinel->tried == sentinel->url->count) {
        finish(sentinel, NULL);
        return;
    }
    sentinel->tried++;
    sentinel->since_ms = clock_mono_ms(sentinel->clock);
    sentinel->asked = redis_open(&(struct redis_config){.loop = sentinel->loop,
                                                        .clock = sentinel->clock,
                                                        .timeout_ms = sentinel->timeout_ms,
                                                        .role = REDIS_ROLE_SENTINEL,
                                                        .target = sentinel->url->servers[sentinel->next],
                                                        .on_state = on_state,
                                                        .ctx = sentinel});
    if (!sentinel->asked) {
        snprintf(sentinel->why, sizeof sentinel->why, "out of memory");
        finish(sentinel, NULL);
        return;
    }
    uv_timer_start(&sentinel->tick, on_tick, TICK_MS, TICK_MS);
}

void sentinel_find(struct sentinel *sentinel, struct redis *redis) {
    sentinel->finder = redis;
    sentinel->tried = 0;
    ask_next(sentinel);
}

struct sentinel *sentinel_open(uv_loop_t *loop, const struct redis_url *url, const struct clock *clock,
                               int timeout_ms) {
    struct sentinel *sentinel = calloc(1, sizeof *sentinel);
    if (!sentinel)
        return NULL;
    *sentinel = (struct sentinel){.loop = loop, .url = url, .clock = clock, .timeout_ms = timeout_ms};
    sentinel->tick.data = sentinel;
    uv_timer_init(loop, &sentinel->tick);
    return sentinel;
}

static void on_closed(uv_handle_t *handle) {
    free(handle->data);
}

void sentinel_close(struct sentinel *sentinel) {
    if (!sentinel)
        return;
    leave(sentinel);
    uv_close((uv_handle_t *)&sentinel->tick, on_closed);
}
