/* redis, variant get-set: WRONG, for lessons. Look whether anybody has it, and if not, write that you do.
 *
 * Why it looks right: Redis does one command after the other, so neither GET nor SET can be caught halfway.
 *
 * What is wrong: between the two everybody else has a turn. Two who GET before either SETs both see nobody,
 * both SET, both are sure. It is the flaw of `naive`, which reads the stock and then writes it, one floor up:
 * a lock built on check-then-act needs a lock itself. Time to live, owner and compare-and-delete are all as
 * they should be, and do not help.
 *
 * What fixes it: looking and taking in one command: SET NX (redis_set_del.c), or a script (redis_owner.c).
 *
 * Point: "between GET and SET". */
#include <string.h>

#include "lock/redis/store.h"

static enum lock_status get_set_attempt(void *opened, struct lock_attempt *attempt) {
    struct redis_store *store = opened;
    const struct lock_env *env = store->env;
    struct lock_grant *grant = &attempt->grant;
    char name[REDIS_KEY_SIZE];
    redis_store_key(name, grant->key, "");
    const char *get[] = {"GET", name}, *set[] = {"SET", name, grant->owner, "PX", store->ttl_text};
    struct redis_answer answer;
    enum lock_status status = redis_store_call(store, &answer, 2, get, NULL);
    if (status != LOCK_OK)
        return status;
    /* Its own, of a SET whose reply was lost, is as good as nobody. */
    if (answer.type != REDIS_ANSWER_NIL && strcmp(answer.text, grant->owner) != 0)
        return redis_store_busy(store, attempt);
    lock_env_at_point(env, "between GET and SET", grant->key);
    int64_t sent_ns = lock_env_now_ns(env);
    status = redis_store_call(store, &answer, 5, set, NULL);
    if (status == LOCK_OK)
        grant->deadline_ns = redis_store_deadline_ns(sent_ns, store->ttl_ms);
    return status;
}

const struct lock_backend lock_redis_get_set = {
    .scheme = "redis",
    .variant = "get-set",
    .flaw = "lets two hold it at once: both GET before either SETs",
    .caps = LOCK_IS_SHARED,
    .is_lesson = true,
    .open = redis_store_open,
    .close = redis_store_close,
    .attempt = get_set_attempt,
    .release = redis_store_release,
};
