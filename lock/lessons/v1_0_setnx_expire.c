/* redis, variant setnx-expire: WRONG, for lessons. V1.0: SETNX takes the lock, EXPIRE gives it an end.
 *
 * Why it looks right: SETNX looks and takes in one command, so there is one holder; and thanks to EXPIRE the
 * lock of one who died is free again after a while.
 *
 * What is wrong: who dies between the two has a lock without an end, and nobody ever has it again until
 * somebody deletes the key by hand. It takes no crash of the machine: a deployment, a process out of memory,
 * a connection that breaks, a Redis that is restarted just then.
 *
 * What fixes it: both in one command, SET NX PX (redis_set_del.c; Redis has it since 2.6.12, of 2013, which
 * is why so much older code looks like this).
 *
 * The classic gives back by a plain DEL. That is another flaw, shown by redis_set_del.c; here it is
 * compare-and-delete, so that this file has but one.
 *
 * Point: "after SETNX". */
#include <string.h>

#include "lock/redis/store.h"

static enum lock_status setnx_expire_attempt(void *opened, struct lock_attempt *attempt) {
    struct redis_store *store = opened;
    const struct lock_env *env = store->env;
    struct lock_grant *grant = &attempt->grant;
    char name[REDIS_KEY_SIZE];
    redis_store_key(name, grant->key, "");
    const char *setnx[] = {"SETNX", name, grant->owner}, *get[] = {"GET", name};
    const char *pexpire[] = {"PEXPIRE", name, store->ttl_text};
    struct redis_answer answer;
    enum lock_status status = redis_store_call(store, &answer, 3, setnx, NULL);
    if (status == LOCK_OK && answer.integer == 0) {
        /* Perhaps it is its own, of a call whose reply was lost. */
        status = redis_store_call(store, &answer, 2, get, NULL);
        if (status == LOCK_OK && strcmp(answer.text, grant->owner) != 0)
            return redis_store_busy(store, attempt);
    }
    if (status != LOCK_OK)
        return status;
    lock_env_at_point(env, "after SETNX", grant->key);
    int64_t sent_ns = lock_env_now_ns(env);
    status = redis_store_call(store, &answer, 3, pexpire, NULL);
    if (status == LOCK_OK)
        grant->deadline_ns = redis_store_deadline_ns(sent_ns, store->ttl_ms);
    return status;
}

const struct lock_backend lock_redis_setnx_expire = {
    .scheme = "redis",
    .variant = "setnx-expire",
    .flaw = "stays locked for ever when its holder dies between SETNX and EXPIRE",
    .caps = LOCK_IS_SHARED,
    .is_lesson = true,
    .open = redis_store_open,
    .close = redis_store_close,
    .attempt = setnx_expire_attempt,
    .release = redis_store_release,
};
