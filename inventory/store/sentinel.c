#include "inventory/store/sentinel.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/redis_slots.h"

enum { TICK_MS = 10, LATE_MS = 200, WATCH_MS = 1000 };

/* A question to one Sentinel. */
struct question {
    struct sentinel *sentinel;
    struct redis *redis; /* NULL: it is over */
    int64_t asked_ms;
    /* The last one had no answer in time. A round does not wait for this one, which goes on beside it. */
    bool silent;
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
    bool running;      /* a round */
    int answers;       /* of this round, */
    int prompt;        /* and of those the ones that it waited for */
    int64_t epoch;     /* of the best answer so far */
    bool failing_over; /* one of them is about to promote a replica, and still names the old master */
    struct redis_target master;
    int64_t watch_ms; /* when the next round begins */
    int64_t ticked_ms;
    uv_timer_t tick;
    char why[256]; /* the last failure of this round */
};

/* ---- a round: all are asked ---- */

static void close_question(struct question *question) {
    struct redis *redis = question->redis;
    if (!redis)
        return;
    question->redis = NULL;
    redis_close(redis);
}

static bool is_at(const struct redis *redis, const struct redis_target *target) {
    const struct redis_target *now = redis_address_now(redis);
    return strcmp(now->host, target->host) == 0 && now->port == target->port;
}

static void finish(struct sentinel *sentinel) {
    struct redis *finder = sentinel->finder;
    sentinel->running = false;
    sentinel->watch_ms = clock_mono_ms(sentinel->clock) + WATCH_MS;
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

/* All are heard, since one may be the first to know of a failover. One that was silent the last time is
 * waited for only if all that answer now were. */
static void finish_if_decided(struct sentinel *sentinel) {
    bool waits = false;
    for (int i = 0; i < sentinel->url->count; i++)
        waits |= sentinel->questions[i].redis && !(sentinel->questions[i].silent && sentinel->prompt > 0);
    if (sentinel->running && !waits)
        finish(sentinel);
}

static void fail(struct question *question, const char *why) {
    struct sentinel *sentinel = question->sentinel;
    const struct redis_target *target = &sentinel->url->servers[question - sentinel->questions];
    snprintf(sentinel->why, sizeof sentinel->why, "Sentinel %s:%d: %.100s", target->host, target->port, why);
    close_question(question);
}

/* It answers, and was silent: what it says may be news to a round that is over. */
static void note_voice(struct question *question) {
    if (question->silent && !question->sentinel->running)
        question->sentinel->watch_ms = 0;
    question->silent = false;
}

/* Of a list of names and values the value; "": there is none. */
static const char *find(const struct redis_value *list, const char *name) {
    for (size_t i = 0; i + 1 < redis_value_count(list); i += 2) {
        const char *text = redis_value_text(redis_value_at(list, i));
        const char *value = redis_value_text(redis_value_at(list, i + 1));
        if (text && value && strcmp(text, name) == 0)
            return value;
    }
    return "";
}

/* False: it is none. */
static bool read_address(struct redis_address *address, const char *host, const char *port) {
    long number = strtol(port, NULL, 10);
    bool good = *host && strlen(host) < sizeof address->host && number > 0 && number <= 65535;
    if (good) {
        snprintf(address->host, sizeof address->host, "%s", host);
        address->port = (int)number;
    }
    return good;
}

/* The state has the old master's address until a failover has ended, and the new epoch from the moment on
 * that the replica is promoted: so the address is asked for by a question of its own. */
static void on_state_told(void *ctx, const struct redis_value *value) {
    struct question *question = ctx;
    question->epoch = value ? strtoll(find(value, "config-epoch"), NULL, 10) : 0;
    question->leaving.port = 0;
    if (value && strstr(find(value, "flags"), "failover_in_progress"))
        read_address(&question->leaving, find(value, "ip"), find(value, "port"));
}

static void note_address(struct question *question, const struct redis_address *address) {
    struct sentinel *sentinel = question->sentinel;
    sentinel->failing_over |= redis_address_is_same(address, &question->leaving);
    sentinel->prompt += !question->silent;
    if (sentinel->answers++ > 0 && question->epoch <= sentinel->epoch)
        return;
    sentinel->epoch = question->epoch;
    sentinel->master = sentinel->url->servers[0]; /* user and password */
    snprintf(sentinel->master.host, sizeof sentinel->master.host, "%s", address->host);
    sentinel->master.port = address->port;
}

/* NULL, or why it is no address. */
static const char *read_reply(const struct redis_value *value, struct redis_address *address) {
    if (!value)
        return "the connection broke";
    if (redis_value_type(value) == REDIS_ERROR)
        return redis_value_text(value);
    if (redis_value_type(value) == REDIS_NIL)
        return "No such master with that name";
    const char *host = redis_value_count(value) == 2 ? redis_value_text(redis_value_at(value, 0)) : NULL;
    const char *port = host ? redis_value_text(redis_value_at(value, 1)) : NULL;
    return port && read_address(address, host, port) ? NULL : "it does not tell the master's address";
}

static void on_address(void *ctx, const struct redis_value *value) {
    struct question *question = ctx;
    struct redis_address address;
    if (!question->redis) /* it is being closed */
        return;
    const char *why = read_reply(value, &address);
    if (why) {
        fail(question, why);
    } else {
        note_address(question, &address);
        close_question(question);
    }
    note_voice(question);
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
    question->asked_ms = clock_mono_ms(sentinel->clock);
    question->redis = redis_open(&config);
    if (!question->redis)
        snprintf(sentinel->why, sizeof sentinel->why, "out of memory");
}

static void begin_round(struct sentinel *sentinel) {
    sentinel->running = true;
    sentinel->answers = sentinel->prompt = 0;
    sentinel->failing_over = false;
    for (int i = 0; i < sentinel->url->count; i++) {
        struct question *question = &sentinel->questions[i];
        if (!question->silent)
            close_question(question);
        if (!question->redis)
            ask(sentinel, i);
    }
}

/* ---- time ---- */

static void check_questions(struct sentinel *sentinel, int64_t now_ms) {
    for (int i = 0; i < sentinel->url->count; i++) {
        struct question *question = &sentinel->questions[i];
        if (question->redis && now_ms - question->asked_ms > sentinel->timeout_ms) {
            fail(question, "no answer within the time-out");
            question->silent = true;
        } else if (question->redis && *redis_error(question->redis)) {
            fail(question, redis_error(question->redis));
            question->silent = false; /* it is down, which costs no time */
        }
    }
    finish_if_decided(sentinel);
}

static void on_tick(uv_timer_t *tick) {
    struct sentinel *sentinel = tick->data;
    int64_t now_ms = clock_mono_ms(sentinel->clock), since_ms = now_ms - sentinel->ticked_ms;
    sentinel->ticked_ms = now_ms;
    if (since_ms > LATE_MS) /* this process was stopped: it hears first what they have said meanwhile */
        return;
    check_questions(sentinel, now_ms);
    if (!sentinel->running && redis_is_reached(sentinel->finder) && now_ms >= sentinel->watch_ms)
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
    for (int i = 0; i < sentinel->url->count; i++)
        close_question(&sentinel->questions[i]);
    uv_close((uv_handle_t *)&sentinel->tick, on_closed);
}
