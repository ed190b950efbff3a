/* redis, variant get-set: WRONG, for lessons. A client reads whether the lock has a holder; if not, it writes
 * that it holds it.
 *
 * Why it looks right: Redis carries out one command after the other, so neither GET nor SET can be
 * interrupted.
 *
 * What is wrong: other clients' commands come between the two. If two clients GET before either SETs, both
 * read that there is no holder, both SET, and both believe that they hold it. It is the flaw of the strategy
 * `naive`, which reads the stock and then writes it, one level up: a lock that checks and then acts needs a
 * lock itself. Time to live, owner and compare-and-delete are as they should be, and do not help.
 *
 * What fixes it: check and write in one command, SET NX (v2_0_set_del.c), or in a script (owner.c).
 *
 * Point: "between GET and SET". */
#include <string.h>

#include "lock/redis/redis_store.h"

static enum lock_status get_set_attempt(void *opened, struct lock_attempt *attempt) {
    struct redis_store *store = opened;
    const struct lock_env *env = store->env;
    struct lock_grant *grant = &attempt->grant;
    char name[REDIS_KEY_SIZE];
    redis_store_key(name, grant->key, "");
    const char *get[] = {"GET", name}, *set[] = {"SET", name, grant->owner, "PX", store->ttl_text};
    struct redis_answer answer;
    enum lock_status status = redis_store_call(store, &answer, 2, get);
    if (status != LOCK_OK)
        return status;
    /* The owner's own value, from a SET whose reply was lost, counts as no holder. */
    if (answer.type != REDIS_NIL && strcmp(answer.text, grant->owner) != 0)
        return redis_store_busy(store, attempt);
    lock_env_at_point(env, "between GET and SET", grant->key);
    int64_t sent_ns = lock_env_now_ns(env);
    status = redis_store_call(store, &answer, 5, set);
    if (status == LOCK_OK)
        grant->deadline_ns = redis_store_deadline_ns(sent_ns, store->ttl_ms);
    return status;
}

const struct lock_backend lock_redis_get_set = {
    REDIS_STORE_LESSON,
    .variant = "get-set",
    .flaw = "lets two hold it at once: both GET before either SETs",
    .attempt = get_set_attempt,
    .release = redis_store_release,
};
