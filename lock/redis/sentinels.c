#include "lock/redis/sentinels.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lock/core/runtime.h"
#include "lock/redis/dial.h"

/* ---- one Sentinel, asked by a thread of its own ---- */

struct question {
    const struct redis_url *url;
    pthread_t thread;
    int i, timeout_ms;
    bool started;
    struct redis_vote vote;
    char why[128]; /* there is no answer; "": there is one */
};

/* With the password only if it demands one. NULL: no reply came. */
static redisReply *question_ask(redisContext *sentinel, const struct redis_url *url, int64_t until_ns,
                                const char *subject) {
    const struct redis_target *account = &url->servers[0];
    const char *question[] = {"SENTINEL", subject, url->master};
    const char *login[] = {"AUTH", account->user[0] ? account->user : account->password, account->password};
    redisReply *reply = redis_dial_ask(sentinel, until_ns, 3, question);
    const char *error = redis_value_error(redis_value_of(reply));
    if (error && strncmp(error, "NOAUTH", 6) == 0 && account->password[0]) {
        freeReplyObject(redis_dial_ask(sentinel, until_ns, account->user[0] ? 3 : 2, login));
        freeReplyObject(reply);
        reply = redis_dial_ask(sentinel, until_ns, 3, question);
    }
    return reply;
}

/* The vote, or why there is none. */
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

static void ask_all(struct question questions[], const struct redis_url *url, int timeout_ms) {
    for (int i = 0; i < url->count; i++) {
        struct question *each = &questions[i];
        *each = (struct question){.url = url, .i = i, .timeout_ms = timeout_ms, .why = "out of threads"};
        each->started = lock_env_start_thread(&each->thread, question_run, each);
    }
    for (int i = 0; i < url->count; i++) {
        if (questions[i].started)
            pthread_join(questions[i].thread, NULL);
    }
}

bool redis_master_ask(const struct redis_url *url, int timeout_ms, struct redis_named *named, char *error,
                      size_t error_size) {
    struct question questions[REDIS_URL_SERVERS_MAX];
    struct redis_election *election = &named->election;
    named->asked_epoch = election->epoch;
    ask_all(questions, url, timeout_ms);
    redis_election_begin(election);
    named->master = url->servers[url->count - 1];
    for (int i = 0; i < url->count; i++) {
        const struct question *each = &questions[i];
        if (!each->why[0]) {
            redis_election_add(election, &each->vote);
            continue;
        }
        named->master = url->servers[i];
        snprintf(error, error_size, "%s", each->why);
    }
    enum redis_elected elected = redis_election_end(election, url->count, lock_mono_ns() / 1000000);
    if (elected == REDIS_ELECTED) {
        named->master = url->servers[0]; /* user and password */
        snprintf(named->master.host, sizeof named->master.host, "%s", election->best.master.host);
        named->master.port = election->best.master.port;
    } else if (elected != REDIS_ELECTION_SILENT) {
        snprintf(error, error_size, "%s", redis_elected_text(elected));
    }
    return elected == REDIS_ELECTED;
}

static bool is_master(redisContext *hiredis) {
    redisReply *reply = redisCommand(hiredis, "ROLE");
    bool master = reply && reply->type == REDIS_REPLY_ARRAY && reply->elements > 0 &&
                  reply->element[0]->str && strcmp(reply->element[0]->str, "master") == 0;
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
