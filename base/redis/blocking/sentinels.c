#include "base/redis/blocking/driver.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/waiter.h"

/* ---- one Sentinel, asked by a thread of its own ---- */

struct question {
    const struct redis_url *url;
    pthread_t thread;
    int i; /* of url->servers */
    int timeout_ms;
    bool started;
    struct redis_vote vote;
    char why[128]; /* why there is no answer; "": there is one */
};

/* Tells a Sentinel the password only if it demands one. NULL: no reply came. */
static redisReply *question_ask(redisContext *sentinel, const struct redis_url *url, int64_t until_ns,
                                const char *subject) {
    const char *question[] = {"SENTINEL", subject, url->master}, *login[3];
    redisReply *reply = redis_dial_ask(sentinel, until_ns, 3, question);
    const char *error = redis_value_error(redis_value_of(reply));
    if (error && strncmp(error, "NOAUTH", 6) == 0 && url->servers[0].password[0]) {
        int argc = redis_target_login(&url->servers[0], login);
        freeReplyObject(redis_dial_ask(sentinel, until_ns, argc, login));
        freeReplyObject(reply);
        reply = redis_dial_ask(sentinel, until_ns, 3, question);
    }
    return reply;
}

/* Reads the vote, or why there is none. */
static void question_hear(struct question *question, redisContext *sentinel, int64_t until_ns) {
    redisReply *state = question_ask(sentinel, question->url, until_ns, "MASTER");
    redisReply *master =
        state ? question_ask(sentinel, question->url, until_ns, "GET-MASTER-ADDR-BY-NAME") : NULL;
    redis_vote_read_state(&question->vote, redis_value_of(state));
    const char *why = master ? redis_vote_read_master(&question->vote, redis_value_of(master)) : "no answer";
    snprintf(question->why, sizeof question->why, why ? "Sentinel: %s" : "%s", why ? why : "");
    freeReplyObject(master);
    freeReplyObject(state);
}

static void *question_run(void *arg) {
    struct question *question = arg;
    const char *why = NULL;
    int64_t until_ns;
    redisContext *sentinel =
        redis_dial_connect(&question->url->servers[question->i], question->timeout_ms, &until_ns, &why);
    if (why)
        snprintf(question->why, sizeof question->why, "%s", why);
    else
        question_hear(question, sentinel, until_ns);
    redisFree(sentinel);
    return NULL;
}

/* ---- all of them ---- */

bool redis_master_ask(const struct redis_url *url, int timeout_ms, struct redis_named *named, char *error,
                      size_t error_size) {
    struct question questions[REDIS_URL_SERVERS_MAX];
    struct redis_election *election = &named->election;
    named->asked_epoch = election->epoch;
    for (int i = 0; i < url->count; i++) {
        struct question *each = &questions[i];
        *each = (struct question){.url = url, .i = i, .timeout_ms = timeout_ms, .why = "out of threads"};
        each->started = thread_start(&each->thread, question_run, each);
    }
    redis_election_begin(election);
    named->master = url->servers[url->count - 1];
    for (int i = 0; i < url->count; i++) {
        const struct question *each = &questions[i];
        if (each->started)
            pthread_join(each->thread, NULL);
        if (!each->why[0]) {
            redis_election_add(election, &each->vote);
            continue;
        }
        named->master = url->servers[i];
        snprintf(error, error_size, "%s", each->why);
    }
    enum redis_elected elected = redis_election_end(election, url->count, clock_now_ms());
    if (elected == REDIS_ELECTED) {
        named->master = redis_url_target(url, &election->best.master);
    } else if (elected != REDIS_ELECTION_SILENT) {
        snprintf(error, error_size, "%s", redis_elected_text(elected));
    }
    return elected == REDIS_ELECTED;
}

/* Whether the server itself says so. */
static bool is_master(redisContext *hiredis) {
    redisReply *reply = redisCommand(hiredis, "ROLE");
    const struct redis_value *value = redis_value_of(reply);
    const char *role =
        reply && redis_value_count(value) > 0 ? redis_value_text(redis_value_at(value, 0)) : NULL;
    bool master = role && strcmp(role, "master") == 0;
    freeReplyObject(reply);
    return master;
}

redisContext *redis_master_dial(const struct redis_url *url, int timeout_ms, struct redis_named *named,
                                char *error, size_t error_size) {
    if (url->kind != REDIS_URL_SENTINEL) {
        named->master = url->servers[0];
        return redis_dial(&named->master, timeout_ms, error, error_size);
    }
    if (!redis_master_ask(url, timeout_ms / 2, named, error, error_size))
        return NULL;
    redisContext *hiredis = redis_dial(&named->master, timeout_ms / 2, error, error_size);
    if (!hiredis || is_master(hiredis))
        return hiredis;
    snprintf(error, error_size, "it is a replica");
    redisFree(hiredis);
    return NULL;
}
