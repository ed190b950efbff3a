#include "lock/redis/store.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "delete_if.lua.h"
#include "extend.lua.h"
#include "lock/redis/subscriber.h"
#include "turn.lua.h"

enum { POLL_MS = 4 };

const struct redis_script redis_script_turn = {turn_lua, turn_lua_sha1},
                          redis_script_extend = {extend_lua, extend_lua_sha1},
                          redis_script_delete_if = {delete_if_lua, delete_if_lua_sha1};

void redis_store_key(char out[REDIS_KEY_SIZE], const char *key, const char *suffix) {
    char *end = stpcpy(stpcpy(out, "lock:{"), key); /* keys are valid: at most LOCK_KEY_MAX */
    *end++ = '}';
    stpcpy(end, suffix);
}

int64_t redis_store_deadline_ns(int64_t sent_ns, int64_t ttl_ms) {
    /* As Redlock counts: a hundredth, and 2 ms for the precision with which Redis expires. */
    return sent_ns + ttl_ms * 990000 - 2000000;
}

enum lock_status redis_store_open(const struct lock_url *url, const struct lock_env *env, void **store,
                                  char *error, size_t error_size) {
    struct redis_target target;
    char address[sizeof url->address + 16], what[200];
    snprintf(address, sizeof address, "redis://%s", url->address);
    if (!url->address[0] || !redis_target_parse(&target, address, what, sizeof what)) {
        snprintf(error, error_size, "redis: %s",
                 url->address[0] ? what : "has no address; want redis://[[USER]:PASSWORD@]HOST[:PORT][/DB]");
        return LOCK_CONFIG;
    }
    struct redis_store *opened = calloc(1, sizeof *opened);
    if (!opened)
        return LOCK_NOMEM;
    opened->env = env;
    opened->target = target;
    opened->ttl_ms = url->ttl_ms;
    snprintf(opened->ttl_text, sizeof opened->ttl_text, "%lld", (long long)url->ttl_ms);
    opened->link = redis_link_open(&target, lock_env_timeout_ms(url->ttl_ms, 8), env);
    if (!opened->link) {
        free(opened);
        return LOCK_NOMEM;
    }
    pthread_mutex_init(&opened->mutex, NULL);
    *store = opened;
    return LOCK_OK;
}

void redis_store_close(void *store) {
    struct redis_store *opened = store;
    redis_listener_close(opened->listener);
    redis_link_close(opened->link);
    pthread_mutex_destroy(&opened->mutex);
    free(opened);
}

bool redis_store_hears(struct redis_store *store, bool listen) {
    pthread_mutex_lock(&store->mutex);
    if (listen && !store->listener)
        store->listener = redis_listener_open(&store->target, store->env);
    bool hears = redis_listener_hears(store->listener);
    pthread_mutex_unlock(&store->mutex);
    return hears;
}

/* Once another server answers what is published there must be heard too: the one that was left before says
 * nothing, or late. */
static void follow_name(struct redis_store *store, bool is_replica) {
    if (is_replica) {
        atomic_store(&store->moves, true);
    } else if (atomic_load_explicit(&store->moves, memory_order_relaxed) &&
               atomic_exchange(&store->moves, false)) {
        pthread_mutex_lock(&store->mutex);
        redis_listener_move(store->listener);
        pthread_mutex_unlock(&store->mutex);
    }
}

static enum lock_status call_until(struct redis_store *store, struct redis_answer *answer, int argc,
                                   const char *const argv[], const struct lock_cancel *cancel) {
    enum lock_status status = redis_link_call(store->link, argc, argv, answer, cancel);
    if (status == LOCK_OK)
        follow_name(store, redis_answer_is_replica(answer));
    return status == LOCK_OK && answer->type == REDIS_ANSWER_ERROR ? LOCK_UNAVAILABLE : status;
}

enum lock_status redis_store_call(struct redis_store *store, struct redis_answer *answer, int argc,
                                  const char *const argv[]) {
    return call_until(store, answer, argc, argv, NULL);
}

enum lock_status redis_store_script_until(struct redis_store *store, const struct redis_script *script,
                                          struct redis_answer *answer, int argc, const char *argv[],
                                          const struct lock_cancel *cancel) {
    argv[0] = "EVALSHA";
    argv[1] = script->sha1;
    enum lock_status status = call_until(store, answer, argc, argv, cancel);
    if (status != LOCK_UNAVAILABLE || answer->type != REDIS_ANSWER_ERROR ||
        strncmp(answer->text, "NOSCRIPT", 8) != 0)
        return status;
    argv[0] = "EVAL";
    argv[1] = script->text;
    return call_until(store, answer, argc, argv, cancel);
}

enum lock_status redis_store_script(struct redis_store *store, const struct redis_script *script,
                                    struct redis_answer *answer, int argc, const char *argv[]) {
    return redis_store_script_until(store, script, answer, argc, argv, NULL);
}

enum lock_status redis_store_delete_if(struct redis_store *store, const char *key, const char *value) {
    char name[REDIS_KEY_SIZE];
    redis_store_key(name, key, "");
    const char *argv[] = {NULL, NULL, "1", name, value};
    struct redis_answer answer;
    enum lock_status status = redis_store_script(store, &redis_script_delete_if, &answer, 5, argv);
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
    } else if (status == LOCK_OK && answer.type != REDIS_ANSWER_TEXT) {
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
