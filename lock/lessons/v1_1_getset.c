/* redis, variant getset: WRONG, for lessons. V1.1: no EXPIRE to be missed: the value of the key is the time
 * at which the lock is over, and who finds it over swaps in a time of its own by GETSET.
 *
 * Why it looks right: it is in the manual of SETNX. No crash leaves a lock without an end; and of all who
 * find it over only one gets from GETSET the time that it had read, so there is one winner.
 *
 * What is wrong: GETSET writes also where it loses. A loser moves the winner's time: a dead winner's lock
 * lasts longer with each loser, a live one's value is gone, so that it cannot give its lock back, and if it
 * had already done so the lock is shut and nobody has it. Under contention that is what happens, once each
 * time to live. Besides, all must have the same clock: people write the wall clock; here it is the layer's,
 * which tests can turn, and which is that of one machine. (Who reckons the new time before it waits, and not
 * when it writes, moves the winner's time back, and there are two holders.)
 *
 * What fixes it: let Redis keep the time, and a value say who: SET NX PX with an owner (redis_owner.c).
 *
 * The classic gives back by DEL, unless its own time is over: pause it in between, and it is redis_set_del.c.
 * A time is no owner: either one deletes what may be another's, or one cannot delete what a loser has moved.
 * Here it is the latter, so that this file has but one flaw. Nor can a lost reply be resolved by a time: what
 * it left is over by itself.
 *
 * Point: "between GET and GETSET". */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lock/redis/store.h"

/* As if it were taken now. The end is all the owner that there is. */
static void set_end(const struct redis_store *store, struct lock_grant *grant) {
    int64_t now_ns = lock_env_now_ns(store->env);
    snprintf(grant->owner, sizeof grant->owner, "%" PRId64, now_ns / 1000000 + store->ttl_ms);
    grant->deadline_ns = redis_store_deadline_ns(now_ns, store->ttl_ms);
}

static enum lock_status getset_attempt(void *opened, struct lock_attempt *attempt) {
    struct redis_store *store = opened;
    const struct lock_env *env = store->env;
    struct lock_grant *grant = &attempt->grant;
    char name[REDIS_KEY_SIZE];
    redis_store_key(name, grant->key, "");
    const char *setnx[] = {"SETNX", name, grant->owner}, *get[] = {"GET", name};
    const char *getset[] = {"GETSET", name, grant->owner};
    struct redis_answer end, was;
    set_end(store, grant);
    enum lock_status status = redis_store_call(store, &was, 3, setnx, NULL);
    if (status != LOCK_OK || was.integer == 1)
        return status;
    status = redis_store_call(store, &end, 2, get, NULL);
    if (status != LOCK_OK)
        return status;
    if (end.type == REDIS_ANSWER_NIL || lock_env_now_ns(env) / 1000000 < strtoll(end.text, NULL, 10))
        return redis_store_busy(store, attempt);
    lock_env_at_point(env, "between GET and GETSET", grant->key);
    set_end(store, grant);
    status = redis_store_call(store, &was, 3, getset, NULL);
    if (status == LOCK_OK && strcmp(was.text, end.text) != 0)
        return redis_store_busy(store, attempt); /* lost; and its time is where the winner's was */
    return status;
}

const struct lock_backend lock_redis_getset = {
    .scheme = "redis",
    .variant = "getset",
    .flaw = "lets those who lose move the winner's time, and in the end nobody has it",
    .caps = LOCK_IS_SHARED,
    .is_lesson = true,
    .open = redis_store_open,
    .close = redis_store_close,
    .attempt = getset_attempt,
    .release = redis_store_release,
};
