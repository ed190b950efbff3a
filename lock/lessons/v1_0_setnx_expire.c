/* redis, variant setnx-expire (V1.0): WRONG, for lessons. SETNX acquires the lock, EXPIRE limits its life.
 *
 * Why it looks right: SETNX checks and writes in one command, so there is one holder; and thanks to EXPIRE
 * the lock of a client that died is free again after a while.
 *
 * What is wrong: a client that dies between the two leaves a lock without expiry. Nobody ever gets it again
 * until somebody deletes the key by hand. It does not take a crash of the machine: a deployment, a process
 * out of memory, a connection that breaks, or a restart of Redis at that moment is enough.
 *
 * What fixes it: both in one command, SET NX PX (v2_0_set_del.c; Redis has it since 2.6.12, of 2013, which is
 * why so much older code looks like this).
 *
 * The classic releases by a plain DEL. That is another flaw, shown by v2_0_set_del.c; this file compares and
 * deletes, so that it has only one flaw.
 *
 * Point: "after SETNX". */
#include <string.h>

#include "lock/redis/redis_store.h"

static enum lock_status setnx_expire_attempt(void *opened, struct lock_attempt *attempt) {
    struct redis_store *store = opened;
    const struct lock_env *env = store->env;
    struct lock_grant *grant = &attempt->grant;
    char name[REDIS_KEY_SIZE];
    redis_store_key(name, grant->key, "");
    const char *setnx[] = {"SETNX", name, grant->owner}, *get[] = {"GET", name};
    const char *pexpire[] = {"PEXPIRE", name, store->ttl_text};
    struct redis_answer answer;
    enum lock_status status = redis_store_call(store, &answer, 3, setnx);
    if (status == LOCK_OK && answer.integer == 0) {
        /* The value may be the owner's own, from a call whose reply was lost. */
        status = redis_store_call(store, &answer, 2, get);
        if (status == LOCK_OK && strcmp(answer.text, grant->owner) != 0)
            return redis_store_busy(store, attempt);
    }
    if (status != LOCK_OK)
        return status;
    lock_env_at_point(env, "after SETNX", grant->key);
    int64_t sent_ns = lock_env_now_ns(env);
    status = redis_store_call(store, &answer, 3, pexpire);
    if (status == LOCK_OK)
        grant->deadline_ns = redis_store_deadline_ns(sent_ns, store->ttl_ms);
    return status;
}

const struct lock_backend lock_redis_setnx_expire = {
    REDIS_STORE_LESSON,
    .variant = "setnx-expire",
    .flaw = "stays locked for ever when its holder dies between SETNX and EXPIRE",
    .attempt = setnx_expire_attempt,
    .release = redis_store_release,
};
