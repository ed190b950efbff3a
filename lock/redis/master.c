#include "lock/redis/master.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lock/core/runtime.h"
#include "lock/redis/dial.h"

/* A question to one Sentinel, by a thread of its own. */
struct question {
    const struct redis_url *url;
    pthread_t thread;
    int64_t epoch;
    int i, timeout_ms;
    bool started;
    bool replacing; /* it is about to promote a replica, and still names the old master */
    char why[128];  /* there is no answer; "": there is one */
    struct redis_target master;
};

/* ---- one Sentinel ---- */

static bool is_refused(const redisReply *reply, const char *error) {
    return reply && reply->type == REDIS_REPLY_ERROR && strncmp(reply->str, error, strlen(error)) == 0;
}

/* With the password only if it demands one. NULL: no reply came. */
static redisReply *ask_about(redisContext *sentinel, const struct redis_url *url, int64_t until_ns,
                             const char *subject) {
    const struct redis_target *account = &url->servers[0];
    const char *question[] = {"SENTINEL", subject, url->master};
    const char *login[] = {"AUTH", account->user[0] ? account->user : account->password, account->password};
    redisReply *reply = redis_dial_ask(sentinel, until_ns, 3, question);
    if (is_refused(reply, "NOAUTH") && account->password[0]) {
        freeReplyObject(redis_dial_ask(sentinel, until_ns, account->user[0] ? 3 : 2, login));
        freeReplyObject(reply);
        reply = redis_dial_ask(sentinel, until_ns, 3, question);
    }
    return reply;
}

/* Of a list of names and values the value; "": there is none. */
static const char *find(const redisReply *list, const char *name) {
    for (size_t i = 0; list->type == REDIS_REPLY_ARRAY && i + 1 < list->elements; i += 2) {
        const char *key = list->element[i]->str, *value = list->element[i + 1]->str;
        if (key && value && strcmp(key, name) == 0)
            return value;
    }
    return "";
}

/* False: the reply is no address. */
static bool read_address(struct redis_target *master, const redisReply *reply) {
    bool pair = reply->type == REDIS_REPLY_ARRAY && reply->elements == 2;
    const char *host = pair ? reply->element[0]->str : NULL, *port = pair ? reply->element[1]->str : NULL;
    long number = port ? strtol(port, NULL, 10) : 0;
    if (!host || !*host || strlen(host) >= sizeof master->host || number < 1 || number > 65535)
        return false;
    snprintf(master->host, sizeof master->host, "%s", host);
    master->port = (int)number;
    return true;
}

static bool is_same(const struct redis_target *master, const char *host, const char *port) {
    return strcmp(master->host, host) == 0 && master->port == strtol(port, NULL, 10);
}

/* NULL, or why it names no master. The epoch of the newest failover that it has heard of is in its state. But
 * the address there is the old one until a failover that it carries out has ended, so the address is asked
 * for by a question of its own: it is the new one as soon as the replica is promoted. */
static const char *ask(struct question *question, redisContext *sentinel, int64_t until_ns) {
    redisReply *state = ask_about(sentinel, question->url, until_ns, "MASTER");
    bool known = state && state->type == REDIS_REPLY_ARRAY;
    redisReply *address =
        known ? ask_about(sentinel, question->url, until_ns, "GET-MASTER-ADDR-BY-NAME") : NULL;
    const char *why = NULL;
    if (!state || (known && !address)) {
        why = "a Sentinel does not answer";
    } else if (!known) {
        why = "no Sentinel knows a master of this name";
    } else if (!read_address(&question->master, address)) {
        why = "a Sentinel does not tell the master's address";
    } else {
        question->epoch = strtoll(find(state, "config-epoch"), NULL, 10);
        question->replacing = strstr(find(state, "flags"), "failover_in_progress") &&
                              is_same(&question->master, find(state, "ip"), find(state, "port"));
    }
    freeReplyObject(address);
    freeReplyObject(state);
    return why;
}

static void *run(void *arg) {
    struct question *question = arg;
    const char *why = NULL;
    int64_t until_ns;
    redisContext *sentinel =
        redis_dial_connect(&question->url->servers[question->i], question->timeout_ms, &until_ns, &why);
    if (!why)
        why = ask(question, sentinel, until_ns);
    snprintf(question->why, sizeof question->why, "%s", why ? why : "");
    redisFree(sentinel);
    return NULL;
}

/* ---- all of them ---- */

static void ask_all(struct question questions[], const struct redis_url *url, int timeout_ms) {
    for (int i = 0; i < url->count; i++) {
        struct question *each = &questions[i];
        *each = (struct question){
            .url = url, .i = i, .timeout_ms = timeout_ms, .why = "out of threads", .master = url->servers[0]};
        each->started = lock_env_start_thread(&each->thread, run, each);
    }
    for (int i = 0; i < url->count; i++) {
        if (questions[i].started)
            pthread_join(questions[i].thread, NULL);
    }
}

/* Whether the newest answer is older than one before, and does not count. A minority may be cut off. */
static bool is_older(struct redis_named *named, int64_t epoch, int answers, int asked) {
    int64_t now_ns = lock_mono_ns();
    if (epoch >= named->epoch || answers == asked)
        return false;
    if (named->older_since_ns == 0 || 2 * answers < asked)
        named->older_since_ns = now_ns;
    return now_ns - named->older_since_ns < REDIS_MASTER_OLDER_MS * INT64_C(1000000);
}

bool redis_master_ask(const struct redis_url *url, int timeout_ms, struct redis_named *named, char *error,
                      size_t error_size) {
    struct question questions[REDIS_URL_SERVERS_MAX];
    const struct question *best = NULL;
    int answers = 0;
    named->asked_epoch = named->epoch;
    ask_all(questions, url, timeout_ms);
    named->replacing = false;
    named->master = url->servers[url->count - 1];
    for (int i = 0; i < url->count; i++) {
        const struct question *each = &questions[i];
        if (each->why[0]) {
            named->master = url->servers[i];
            snprintf(error, error_size, "%s", each->why);
            continue;
        }
        answers++;
        named->replacing |= each->replacing;
        if (!best || each->epoch > best->epoch)
            best = each;
    }
    if (named->replacing) {
        snprintf(error, error_size, "the Sentinels are replacing the master");
    } else if (best && is_older(named, best->epoch, answers, url->count)) {
        snprintf(error, error_size, "the Sentinels that answer have not heard of the newest failover");
    } else if (best) {
        named->master = best->master;
        named->epoch = best->epoch;
        named->older_since_ns = 0;
        return true;
    }
    return false;
}

/* ---- connecting ---- */

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
