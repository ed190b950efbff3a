/* redis, variant getset (V1.1): WRONG, for lessons. There is no EXPIRE that can be missed: the value of the
 * key is the time at which the lock ends. A client that reads a time in the past writes its own time by
 * GETSET.
 *
 * Why it looks right: it is in the manual of SETNX. No crash leaves a lock without an end; and of all clients
 * that read the old time, GETSET returns it to only one, so there is one winner.
 *
 * What is wrong: GETSET also writes when it loses. A loser replaces the winner's time. So the lock of a dead
 * winner lasts longer with each loser. A live winner cannot release its lock any more, because its value is
 * gone; and if it had released already, the lock is taken and nobody holds it. Under contention this happens
 * once in each time to live. Also, all clients must have the same clock. People use the wall clock; here it
 * is the lock's own clock, which tests can control and which is the same for one machine. (A client that
 * computes the new time before it waits, and not when it writes, moves the winner's time back, and there are
 * two holders.)
 *
 * What fixes it: Redis keeps the time, and the value is an owner: SET NX PX (owner.c).
 *
 * The classic releases by DEL unless its own time has passed; with a pause in between that is the flaw of
 * v2_0_set_del.c. A time is no owner: either a client deletes a lock that may be another's, or it cannot
 * delete its own lock once a loser has replaced the time. This file does the latter, so that it has only one
 * flaw. Nor can a time show whose write it was when the reply was lost: what such a write left ends by
 * itself.
 *
 * Point: "between GET and GETSET". */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lock/redis/redis_store.h"

/* Sets the end of the grant, counted from now. The end serves as the owner. */
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
    enum lock_status status = redis_store_call(store, &was, 3, setnx);
    if (status != LOCK_OK || was.integer == 1)
        return status;
    status = redis_store_call(store, &end, 2, get);
    if (status != LOCK_OK)
        return status;
    if (end.type == REDIS_NIL || lock_env_now_ns(env) / 1000000 < strtoll(end.text, NULL, 10))
        return redis_store_busy(store, attempt);
    lock_env_at_point(env, "between GET and GETSET", grant->key);
    set_end(store, grant);
    status = redis_store_call(store, &was, 3, getset);
    if (status == LOCK_OK && strcmp(was.text, end.text) != 0)
        return redis_store_busy(store, attempt); /* lost; and it has replaced the winner's time */
    return status;
}

const struct lock_backend lock_redis_getset = {
    REDIS_STORE_LESSON,
    .variant = "getset",
    .flaw = "lets losers replace the winner's time, so that in the end nobody can release it",
    .attempt = getset_attempt,
    .release = redis_store_release,
};
