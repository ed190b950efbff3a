/* redis, variant set-del (V2.0): WRONG, for lessons. SET NX PX acquires the lock, DEL releases it.
 *
 * Why it looks right: one command acquires it and limits its life, so there is one holder, and no crash locks
 * for ever. A client that is done deletes the lock; whose lock else should it be?
 *
 * What is wrong: it may be another client's. Work that takes longer than the time to live goes on without a
 * lock; by then the next client holds it, and the DEL at the end of the first one's work lets in a third
 * beside the second, whose DEL lets in a fourth. Once a client is late the lock stays broken as long as the
 * crowd is there. It is said that a hundred bottles of Maotai were oversold this way, when a slow service
 * behind the lock made purchases take longer than the lock. If a client reads the clock, or GETs the owner,
 * before the DEL, it only gets rarer: the process can be paused in between.
 *
 * What fixes it: a value that names the owner, compared and deleted in one script (redis/delete_if.lua). The
 * value must be unique: see v3_0_timestamp.c. The late client still worked without a lock; only a fence
 * fixes that (lock.h).
 *
 * Point: "before DEL". */
#include "lock/redis/redis_store.h"

static enum lock_status set_del_attempt(void *store, struct lock_attempt *attempt) {
    return redis_store_set_nx(store, attempt, attempt->grant.owner);
}

/* Ignores `owner`: that is the whole flaw. */
static enum lock_status set_del_release(void *opened, const char *key, const char *owner) {
    (void)owner;
    struct redis_store *store = opened;
    char name[REDIS_KEY_SIZE];
    redis_store_key(name, key, "");
    const char *del[] = {"DEL", name};
    struct redis_answer answer;
    lock_env_at_point(store->env, "before DEL", key);
    enum lock_status status = redis_store_call(store, &answer, 2, del);
    return status == LOCK_OK && answer.integer == 0 ? LOCK_NOT_OWNER : status; /* there was no holder */
}

const struct lock_backend lock_redis_set_del = {
    REDIS_STORE_LESSON,
    .variant = "set-del",
    .flaw = "deletes another's lock, if its own has expired",
    .attempt = set_del_attempt,
    .release = set_del_release,
};
