#include "inventory/store/sentinel.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/redis_slots.h"

enum { TICK_MS = 10, WATCH_MS = 1000 };

/* A question to one Sentinel. */
struct question {
    struct sentinel *sentinel;
    struct redis *redis; /* NULL: it is over */
    /* By its state: */
    int64_t epoch;                /* of the failover that it heard of last */
    struct redis_address leaving; /* the master that it is replacing now; port 0: none */
};

struct sentinel {
    uv_loop_t *loop;
    const struct redis_url *url;
    const struct clock *clock;
    int timeout_ms;
    struct redis *finder; /* who wants to know; NULL before the first search */
    bool searching;       /* for `finder`; otherwise a round only watches */
    struct question questions[REDIS_URL_SERVERS_MAX];
    int open, answers; /* of this round */
    int64_t epoch;     /* of the best answer so far */
    bool failing_over; /* one of them is about to promote a replica, and still names the old master */
    struct redis_target master;
    int64_t since_ms; /* when the round began, or the last one ended */
    uv_timer_t tick;
    char why[256]; /* the last failure of this round */
};

/* ---- a round: all are asked ---- */

static void close_question(struct question *question) {
    struct redis *redis = question->redis;
    if (!redis)
        return;
    question->redis = NULL;
    question->sentinel->open--;
    redis_close(redis);
}

static void end_round(struct sentinel *sentinel) {
    for (int i = 0; i < sentinel->url->count; i++)
        close_question(&sentinel->questions[i]);
    sentinel->since_ms = clock_mono_ms(sentinel->clock);
}

static bool is_at(const struct redis *redis, const struct redis_target *target) {
    const struct redis_target *now = redis_address_now(redis);
    return strcmp(now->host, target->host) == 0 && now->port == target->port;
}

static void finish(struct sentinel *sentinel) {
    struct redis *finder = sentinel->finder;
    end_round(sentinel);
    bool found = sentinel->answers > 0 && !sentinel->failing_over;
    if (sentinel->failing_over)
        snprintf(sentinel->why, sizeof sentinel->why, "the Sentinels are replacing the master");
    if (sentinel->searching) {
        sentinel->searching = false;
        redis_found(finder, found ? &sentinel->master : NULL, sentinel->why);
    } else if (found && redis_is_reached(finder) && !is_at(finder, &sentinel->master)) {
        redis_break(finder, "the Sentinels name another master");
    } else if (sentinel->failing_over && redis_is_reached(finder) && !redis_is_up(finder)) {
        redis_break(finder, sentinel->why);
    }
}

/* All are heard: one may be the first to know of a failover. */
static void finish_if_decided(struct sentinel *sentinel) {
    if (sentinel->open == 0)
        finish(sentinel);
}

static void fail(struct question *question, const char *why) {
    struct sentinel *sentinel = question->sentinel;
    const struct redis_target *target = &sentinel->url->servers[question - sentinel->questions];
    snprintf(sentinel->why, sizeof sentinel->why, "Sentinel %s:%d: %.100s", target->host, target->port, why);
    close_question(question);
}

/* Of a list of names and values the value; NULL: there is none. */
static const struct redis_value *find(const struct redis_value *list, const char *name) {
    for (size_t i = 0; i + 1 < redis_value_count(list); i += 2) {
        const char *text = redis_value_text(redis_value_at(list, i));
        if (text && strcmp(text, name) == 0)
            return redis_value_at(list, i + 1);
    }
    return NULL;
}

static int port_of(const struct redis_value *value) {
    int64_t port = value ? redis_value_integer(value, 0) : 0;
    return port < 1 || port > 65535 ? 0 : (int)port;
}

/* Its address is of the old master until a failover has ended, and its epoch is the new one from the moment
 * on that the replica is promoted: so the address is asked for by a question of its own. */
static void on_state_told(void *ctx, const struct redis_value *value) {
    struct question *question = ctx;
    question->epoch = 0;
    question->leaving.port = 0;
    const struct redis_value *epoch = value ? find(value, "config-epoch") : NULL;
    const struct redis_value *host = value ? find(value, "ip") : NULL,
                             *flags = host ? find(value, "flags") : NULL;
    if (!epoch || !flags || !redis_value_text(host) || !redis_value_text(flags))
        return;
    question->epoch = redis_value_integer(epoch, 0);
    if (!strstr(redis_value_text(flags), "failover_in_progress"))
        return;
    snprintf(question->leaving.host, sizeof question->leaving.host, "%s", redis_value_text(host));
    question->leaving.port = port_of(find(value, "port"));
}

/* False: it is no address. */
static bool read_address(struct question *question, const struct redis_value *value) {
    struct sentinel *sentinel = question->sentinel;
    bool told = redis_value_count(value) == 2;
    const char *host = told ? redis_value_text(redis_value_at(value, 0)) : NULL;
    int port = told ? port_of(redis_value_at(value, 1)) : 0;
    if (!host || !port)
        return false;
    sentinel->failing_over |= port == question->leaving.port && strcmp(host, question->leaving.host) == 0;
    if (sentinel->answers++ > 0 && question->epoch <= sentinel->epoch)
        return true;
    sentinel->epoch = question->epoch;
    sentinel->master = sentinel->url->servers[0]; /* user and password */
    snprintf(sentinel->master.host, sizeof sentinel->master.host, "%s", host);
    sentinel->master.port = port;
    return true;
}

static void on_address(void *ctx, const struct redis_value *value) {
    struct question *question = ctx;
    if (!question->redis) /* it is being closed */
        return;
    if (!value)
        fail(question, "the connection broke");
    else if (redis_value_type(value) == REDIS_ERROR)
        fail(question, redis_value_text(value));
    else if (redis_value_type(value) == REDIS_NIL)
        fail(question, "No such master with that name");
    else if (!read_address(question, value))
        fail(question, "it does not tell the master's address");
    else
        close_question(question);
    finish_if_decided(question->sentinel);
}

static void on_state(void *ctx, bool up) {
    struct question *question = ctx;
    const char *name = question->sentinel->url->master;
    if (!up || !question->redis)
        return;
    redis_callf(question->redis, on_state_told, question, "SENTINEL MASTER %s", name);
    redis_callf(question->redis, on_address, question, "SENTINEL GET-MASTER-ADDR-BY-NAME %s", name);
}

static void ask(struct sentinel *sentinel, int i) {
    struct question *question = &sentinel->questions[i];
    struct redis_config config = {.loop = sentinel->loop,
                                  .clock = sentinel->clock,
                                  .timeout_ms = sentinel->timeout_ms,
                                  .role = REDIS_ROLE_SENTINEL,
                                  .target = sentinel->url->servers[i],
                                  .on_state = on_state,
                                  .ctx = question};
    question->sentinel = sentinel;
    question->redis = redis_open(&config);
    if (question->redis)
        sentinel->open++;
    else
        snprintf(sentinel->why, sizeof sentinel->why, "out of memory");
}

static void begin_round(struct sentinel *sentinel) {
    end_round(sentinel);
    sentinel->answers = 0;
    sentinel->failing_over = false;
    for (int i = 0; i < sentinel->url->count; i++)
        ask(sentinel, i);
}

/* ---- time ---- */

static void check_round(struct sentinel *sentinel) {
    for (int i = 0; i < sentinel->url->count; i++) {
        struct question *question = &sentinel->questions[i];
        if (question->redis && *redis_error(question->redis))
            fail(question, redis_error(question->redis));
    }
    if (clock_mono_ms(sentinel->clock) - sentinel->since_ms > sentinel->timeout_ms) {
        for (int i = 0; i < sentinel->url->count; i++) {
            if (sentinel->questions[i].redis)
                fail(&sentinel->questions[i], "no answer within the time-out");
        }
    }
    finish_if_decided(sentinel);
}

static void on_tick(uv_timer_t *tick) {
    struct sentinel *sentinel = tick->data;
    if (sentinel->open > 0 || sentinel->searching)
        check_round(sentinel);
    else if (redis_is_reached(sentinel->finder) &&
             clock_mono_ms(sentinel->clock) - sentinel->since_ms >= WATCH_MS)
        begin_round(sentinel);
}

void sentinel_find(struct sentinel *sentinel, struct redis *redis) {
    sentinel->finder = redis;
    sentinel->searching = true;
    begin_round(sentinel);
    uv_timer_start(&sentinel->tick, on_tick, TICK_MS, TICK_MS);
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
    end_round(sentinel);
    uv_close((uv_handle_t *)&sentinel->tick, on_closed);
}
