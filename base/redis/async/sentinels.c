/* Asks Sentinels where the master is (election.h): before each connection, and once a second while one is up.
 *
 * All are asked at once, and all are heard, since one may be the first to know of a failover. A Sentinel that
 * did not answer in time is still asked each time, but not waited for until it has answered once: otherwise
 * one that hangs would make each search as long as an outage. A connection that is up stays so until the
 * Sentinels name another master. That the server found is a master is checked by INFO replication
 * (connection.h). */
#include "base/redis/async/driver.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/redis/election.h"

/* A Sentinel that does not answer within the time-out is silent. */
enum { TIMEOUT_MS = 500, TICK_MS = 10, LATE_MS = 200, WATCH_MS = 1000 };

/* A question to one Sentinel. */
struct question {
    struct sentinels *sentinels;
    struct redis *redis; /* NULL: it is over */
    int64_t asked_ms;
    /* The Sentinel did not answer the last question in time: a round does not wait for this one. */
    bool silent;
    struct redis_vote vote;
};

struct sentinels {
    const struct servers_config *config;
    struct redis *finder; /* the connection to the master; NULL before the first search */
    bool searching;       /* for `finder`; otherwise a round only watches */
    struct question questions[REDIS_URL_SERVERS_MAX];
    bool running; /* a round */
    int prompt;   /* how many of those that the round waits for have answered */
    struct redis_election election;
    int64_t watch_ms; /* when the next round begins */
    int64_t ticked_ms;
    uv_timer_t tick;
    char why[256]; /* the last failure of this round */
};

/* ---- a round: all are asked ---- */

static void question_close(struct question *question) {
    struct redis *redis = question->redis;
    if (!redis)
        return;
    question->redis = NULL;
    redis_close(redis);
}

static void round_end(struct sentinels *sentinels) {
    struct redis *finder = sentinels->finder;
    int64_t now_ms = clock_mono_ms(sentinels->config->clock);
    sentinels->running = false;
    sentinels->watch_ms = now_ms + WATCH_MS;
    enum redis_elected elected =
        redis_election_end(&sentinels->election, sentinels->config->url->count, now_ms);
    bool found = elected == REDIS_ELECTED;
    if (!found && elected != REDIS_ELECTION_SILENT)
        snprintf(sentinels->why, sizeof sentinels->why, "%s", redis_elected_text(elected));
    struct redis_target master = redis_url_target(sentinels->config->url, &sentinels->election.best.master);
    if (sentinels->searching) {
        sentinels->searching = false;
        redis_found(finder, found ? &master : NULL, sentinels->why);
    } else if (found && redis_is_reached(finder) &&
               !redis_target_is_same(redis_address_now(finder), &master)) {
        redis_break(finder, "the Sentinels name another master");
    } else if (elected == REDIS_ELECTION_REPLACING && redis_is_reached(finder) && !redis_is_up(finder)) {
        redis_break(finder, sentinels->why);
    }
}

/* A Sentinel that was silent the last time is waited for only until another one has answered in time. */
static void round_end_if_decided(struct sentinels *sentinels) {
    bool waits = false;
    for (int i = 0; i < sentinels->config->url->count; i++)
        waits |= sentinels->questions[i].redis && !(sentinels->questions[i].silent && sentinels->prompt > 0);
    if (sentinels->running && !waits)
        round_end(sentinels);
}

static void question_fail(struct question *question, const char *why) {
    struct sentinels *sentinels = question->sentinels;
    const struct redis_target *target = &sentinels->config->url->servers[question - sentinels->questions];
    snprintf(sentinels->why, sizeof sentinels->why, "Sentinel %s:%d: %.100s", target->host, target->port,
             why);
    question_close(question);
}

static void question_on_state(void *ctx, const struct redis_value *value) {
    struct question *question = ctx;
    redis_vote_read_state(&question->vote, value);
}

static void question_on_master(void *ctx, const struct redis_value *value) {
    struct question *question = ctx;
    struct sentinels *sentinels = question->sentinels;
    if (!question->redis) /* it is being closed */
        return;
    const char *why = redis_vote_read_master(&question->vote, value);
    if (why) {
        question_fail(question, why);
    } else {
        sentinels->prompt += !question->silent;
        redis_election_add(&sentinels->election, &question->vote);
        question_close(question);
    }
    if (question->silent && !sentinels->running)
        sentinels->watch_ms = 0; /* its answer may be news to a round that is over */
    question->silent = false;
    round_end_if_decided(sentinels);
}

static void question_on_up(void *ctx, bool up) {
    struct question *question = ctx;
    const char *name = question->sentinels->config->url->master;
    if (!up || !question->redis)
        return;
    redis_call(question->redis, question_on_state, question, 3, (const char *[]){"SENTINEL", "MASTER", name});
    redis_call(question->redis, question_on_master, question, 3,
               (const char *[]){"SENTINEL", "GET-MASTER-ADDR-BY-NAME", name});
}

static void round_ask(struct sentinels *sentinels, int i) {
    struct question *question = &sentinels->questions[i];
    struct redis_config config = {.loop = sentinels->config->loop,
                                  .clock = sentinels->config->clock,
                                  .timeout_ms = TIMEOUT_MS,
                                  .role = REDIS_ROLE_SENTINEL,
                                  .target = sentinels->config->url->servers[i],
                                  .on_state = question_on_up,
                                  .ctx = question};
    question->sentinels = sentinels;
    question->asked_ms = clock_mono_ms(sentinels->config->clock);
    question->redis = redis_open(&config);
    if (!question->redis)
        snprintf(sentinels->why, sizeof sentinels->why, "out of memory");
}

static void round_begin(struct sentinels *sentinels) {
    sentinels->running = true;
    sentinels->prompt = 0;
    redis_election_begin(&sentinels->election);
    for (int i = 0; i < sentinels->config->url->count; i++) {
        struct question *question = &sentinels->questions[i];
        if (!question->silent)
            question_close(question);
        if (!question->redis)
            round_ask(sentinels, i);
    }
}

/* ---- time ---- */

static void questions_check(struct sentinels *sentinels, int64_t now_ms) {
    for (int i = 0; i < sentinels->config->url->count; i++) {
        struct question *question = &sentinels->questions[i];
        if (question->redis && now_ms - question->asked_ms > TIMEOUT_MS) {
            question_fail(question, "no answer within the time-out");
            question->silent = true;
        } else if (question->redis && *redis_error(question->redis)) {
            question_fail(question, redis_error(question->redis));
            question->silent = false; /* it is down, which is known at once */
        }
    }
    round_end_if_decided(sentinels);
}

static void sentinels_on_tick(uv_timer_t *tick) {
    struct sentinels *sentinels = tick->data;
    int64_t now_ms = clock_mono_ms(sentinels->config->clock), since_ms = now_ms - sentinels->ticked_ms;
    sentinels->ticked_ms = now_ms;
    if (since_ms > LATE_MS) /* this process was stopped: what they have said meanwhile is read first */
        return;
    questions_check(sentinels, now_ms);
    if (!sentinels->running && redis_is_reached(sentinels->finder) && now_ms >= sentinels->watch_ms)
        round_begin(sentinels);
}

void sentinels_find(struct sentinels *sentinels, struct redis *redis) {
    sentinels->finder = redis;
    sentinels->searching = true;
    round_begin(sentinels);
    uv_timer_start(&sentinels->tick, sentinels_on_tick, TICK_MS, TICK_MS);
}

struct sentinels *sentinels_open(const struct servers_config *config) {
    struct sentinels *sentinels = calloc(1, sizeof *sentinels);
    if (!sentinels)
        return NULL;
    sentinels->config = config;
    sentinels->tick.data = sentinels;
    uv_timer_init(config->loop, &sentinels->tick);
    return sentinels;
}

static void sentinels_on_closed(uv_handle_t *handle) {
    free(handle->data);
}

void sentinels_close(struct sentinels *sentinels) {
    if (!sentinels)
        return;
    for (int i = 0; i < sentinels->config->url->count; i++)
        question_close(&sentinels->questions[i]);
    uv_close((uv_handle_t *)&sentinels->tick, sentinels_on_closed);
}
