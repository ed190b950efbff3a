#include "lock/redis/redis_store.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "delete_if.lua.h"
#include "extend.lua.h"
#include "owner.lua.h"

enum { POLL_MS = 4 };

/* In a cluster an operation may take three calls, and the map of slots is read once meanwhile, which takes
 * half as long as a call: all within the second of lock.h. */
enum { CLUSTER_TIMEOUT_MAX_MS = LOCK_TIMEOUT_MAX_MS * 3 / 5 };

const struct redis_script redis_script_owner = {owner_lua, owner_lua_sha1},
                          redis_script_extend = {extend_lua, extend_lua_sha1};
static const struct redis_script script_delete_if = {delete_if_lua, delete_if_lua_sha1};

void redis_store_key(char out[REDIS_KEY_SIZE], const char *key, const char *suffix) {
    /* Empty braces would mean nothing to a cluster. No key has a space, so no two locks share a name. */
    char *end = stpcpy(out, *key == '}' ? "lock:{ " : "lock:{");
    end = stpcpy(end, key); /* keys are valid: at most LOCK_KEY_MAX */
    *end++ = '}';
    stpcpy(end, suffix);
}

int64_t redis_store_deadline_ns(int64_t sent_ns, int64_t ttl_ms) {
    /* As in Redlock: less a hundredth, and less 2 ms for the precision with which Redis expires keys. */
    return sent_ns + ttl_ms * 990000 - 2000000;
}

/* ---- what the driver reports ---- */

/* OWNER KEY, as owner.lua publishes it. */
static void store_on_message(void *store, const char *text) {
    const struct lock_env *env = ((struct redis_store *)store)->env;
    char owner[LOCK_OWNER_SIZE];
    size_t length = text ? strlen(text) : 0;
    if (!text) {
        env->wake(env->lock, NULL, NULL);
    } else if (length >= sizeof owner && text[sizeof owner - 1] == ' ' &&
               length <= LOCK_KEY_MAX + sizeof owner) {
        memcpy(owner, text, sizeof owner - 1);
        owner[sizeof owner - 1] = '\0';
        env->wake(env->lock, text + sizeof owner, owner);
    }
}

struct redis_hooks redis_store_hooks(const struct lock_env *env) {
    return (struct redis_hooks){
        .ctx = env->lock, .failed = env->failed, .moved = env->moved, .requests = env->requests};
}

/* ---- opening and closing ---- */

enum lock_status redis_store_open(const struct lock_url *url, const struct lock_env *env, void **store,
                                  char *error, size_t error_size) {
    struct redis_url servers;
    char text[sizeof url->address + sizeof url->scheme + 8], what[200];
    snprintf(text, sizeof text, "%s://%s", url->scheme, url->address);
    if (!url->address[0] || !redis_url_parse(&servers, text, what, sizeof what)) {
        snprintf(error, error_size, "%s: %s", url->scheme,
                 url->address[0] ? what : "has no address; want redis://[[USER]:PASSWORD@]HOST[:PORT][/DB]");
        return LOCK_CONFIG;
    }
    struct redis_store *opened = calloc(1, sizeof *opened);
    if (!opened)
        return LOCK_NOMEM;
    opened->env = env;
    opened->ttl_ms = url->ttl_ms;
    snprintf(opened->ttl_text, sizeof opened->ttl_text, "%lld", (long long)url->ttl_ms);
    snprintf(opened->channel, sizeof opened->channel, "lock:wake:%016llx", (unsigned long long)env->session);
    opened->hooks = redis_store_hooks(env);
    opened->hooks.message = store_on_message;
    opened->hooks.message_ctx = opened;
    opened->hooks.channel = opened->channel;
    int timeout_ms = lock_env_timeout_ms(url->ttl_ms, 8);
    if (servers.kind == REDIS_URL_CLUSTER && timeout_ms > CLUSTER_TIMEOUT_MAX_MS)
        timeout_ms = CLUSTER_TIMEOUT_MAX_MS;
    opened->servers = redis_servers_open(&servers, timeout_ms, &opened->hooks);
    if (!opened->servers) {
        free(opened);
        return LOCK_NOMEM;
    }
    *store = opened;
    return LOCK_OK;
}

void redis_store_close(void *store) {
    struct redis_store *opened = store;
    redis_servers_close(opened->servers);
    free(opened);
}

/* ---- calls ---- */

static enum lock_status store_status(enum redis_status status, const struct redis_answer *answer) {
    static const enum lock_status statuses[] = {
        [REDIS_ANSWERED] = LOCK_OK,
        [REDIS_UNKNOWN] = LOCK_UNKNOWN,
        [REDIS_UNAVAILABLE] = LOCK_UNAVAILABLE,
        [REDIS_NOMEM] = LOCK_NOMEM,
    };
    return status == REDIS_ANSWERED && answer->type == REDIS_ERROR ? LOCK_UNAVAILABLE : statuses[status];
}

enum lock_status redis_store_call(struct redis_store *store, struct redis_answer *answer, int argc,
                                  const char *const argv[]) {
    return store_status(redis_servers_call(store->servers, argv[1], argc, argv, answer, NULL), answer);
}

enum lock_status redis_store_run(struct redis_store *store, const struct redis_script *script,
                                 struct redis_answer *answer, int argc, const char *argv[],
                                 struct cancel *cancel) {
    const char *key = argv[3];
    argv[0] = "EVALSHA";
    argv[1] = script->sha1;
    enum redis_status status = redis_servers_call(store->servers, key, argc, argv, answer, cancel);
    if (status == REDIS_ANSWERED && redis_answer_meaning(answer, "", NULL) == REDIS_NO_SCRIPT) {
        argv[0] = "EVAL";
        argv[1] = script->text;
        status = redis_servers_call(store->servers, key, argc, argv, answer, cancel);
    }
    return store_status(status, answer);
}

bool redis_store_is_subscribed(struct redis_store *store, const char *key, bool subscribe) {
    char name[REDIS_KEY_SIZE];
    redis_store_key(name, key, "");
    return redis_servers_are_subscribed(store->servers, name, subscribe);
}

enum lock_status redis_store_release(void *store, const char *key, const char *owner) {
    char name[REDIS_KEY_SIZE];
    redis_store_key(name, key, "");
    const char *argv[] = {NULL, NULL, "1", name, owner};
    struct redis_answer answer;
    enum lock_status status = redis_store_run(store, &script_delete_if, &answer, 5, argv, NULL);
    return status == LOCK_OK && answer.integer != 1 ? LOCK_NOT_OWNER : status;
}

enum lock_status redis_store_set_nx(struct redis_store *store, struct lock_attempt *attempt,
                                    const char *value) {
    char name[REDIS_KEY_SIZE];
    redis_store_key(name, attempt->grant.key, "");
    const char *set[] = {"SET", name, value, "NX", "PX", store->ttl_text}, *get[] = {"GET", name};
    int64_t sent_ns = lock_env_now_ns(store->env);
    struct redis_answer answer;
    enum lock_status status = redis_store_call(store, &answer, 6, set);
    if (status == LOCK_UNKNOWN) {
        status = redis_store_call(store, &answer, 2, get);
        if (status == LOCK_OK && strcmp(answer.text, value) != 0)
            status = LOCK_UNAVAILABLE; /* it was not done */
    } else if (status == LOCK_OK && answer.type != REDIS_STRING) {
        return redis_store_busy(store, attempt);
    }
    if (status == LOCK_OK)
        attempt->grant.deadline_ns = redis_store_deadline_ns(sent_ns, store->ttl_ms);
    return status;
}

enum lock_status redis_store_busy(const struct redis_store *store, struct lock_attempt *attempt) {
    attempt->retry_ns = lock_env_now_ns(store->env) + 500000 +
                        (int64_t)lock_env_random(store->env, (uint64_t)POLL_MS * 1000000);
    return LOCK_BUSY;
}
