/* redis, variant set-del: WRONG, for lessons. V2.0: SET NX PX takes the lock, DEL gives it back.
 *
 * Why it looks right: one command takes it and gives it an end, so there is one holder and no crash locks for
 * ever. And who is done deletes the lock; whose else should it be?
 *
 * What is wrong: it may be another's. Work that takes longer than the time to live goes on without a lock;
 * the next one has it by then, and the DEL at the end of the first one's work lets in a third beside the
 * second, whose DEL lets in a fourth: once it is late, it stays broken as long as the crowd is there. It is
 * told that a hundred bottles of Maotai were oversold that way, when a slow service behind the lock made
 * purchases take longer than the lock. To look at the clock, or to GET whose it
 * is, before the DEL only makes it rarer: the process can be paused between the look and the DEL.
 *
 * What fixes it: a value that says whose lock it is, compared and deleted in one script (lua/delete_if.lua).
 * The value must be nobody else's: see redis_timestamp.c. That the late one worked without a lock is not
 * fixed by it; that takes a fence (lock.h).
 *
 * Point: "before DEL". */
#include "lock/redis/store.h"

static enum lock_status set_del_attempt(void *store, struct lock_attempt *attempt) {
    return redis_store_set_nx(store, attempt, attempt->grant.owner);
}

/* Does not look at `owner`: that is all of the flaw. */
static enum lock_status set_del_release(void *opened, const char *key, const char *owner) {
    (void)owner;
    struct redis_store *store = opened;
    char name[REDIS_KEY_SIZE];
    redis_store_key(name, key, "");
    const char *del[] = {"DEL", name};
    struct redis_answer answer;
    lock_env_at_point(store->env, "before DEL", key);
    enum lock_status status = redis_store_call(store, &answer, 2, del, NULL);
    return status == LOCK_OK && answer.integer == 0 ? LOCK_NOT_OWNER : status; /* nobody's */
}

const struct lock_backend lock_redis_set_del = {
    .scheme = "redis",
    .variant = "set-del",
    .flaw = "deletes another's lock, if its own had run out",
    .caps = LOCK_IS_SHARED,
    .is_lesson = true,
    .open = redis_store_open,
    .close = redis_store_close,
    .attempt = set_del_attempt,
    .release = set_del_release,
};
