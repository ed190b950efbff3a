/* redis, variant owner: V3.1, the lock in one Redis as it should be written.
 *
 * The key holds the owner, a number nobody else has, and expires. To take it and to count the fence is one
 * script; to give it back or to extend it compares the owner first, in a script too (lua/turn.lua,
 * lua/extend.lua).
 *
 * Who must wait stands in a list beside the key, one of each process. Whoever gives the lock back passes it
 * to the first in that list whose process still listens, in the same call, and tells it by PUBLISH: a list
 * rather than a message to all, so that a hundred who wait are told once, and are served in turn. The one who
 * was told asks again, since only what it sends itself tells it from when its time counts. A message can be
 * lost; so who waits looks again when the holder's time is up, and every second.
 *
 * What it cannot do: a Redis that fails over to a replica which had not heard of the grant gives it again,
 * and the fence with it; a holder that is paused beyond its time does not know, which is what the fence is
 * for. */
#include "lock/redis/owner.h"

/* A wake-up that was lost costs so much; deaf is who does not hear any. */
enum { LOOK_MS = 1000, DEAF_LOOK_MS = 20 };

/* A list in which nobody has looked for so long is gone. */
#define LINE_MS "10000"

/* `line_ms`: of turn.lua, or NULL. */
static enum lock_status turn(struct redis_store *store, const char *key, const char *giving,
                             const char *wanting, const char *line_ms, const struct lock_cancel *cancel,
                             struct redis_answer *answer) {
    char lock[REDIS_KEY_SIZE], fence[REDIS_KEY_SIZE], line[REDIS_KEY_SIZE];
    redis_store_key(lock, key, "");
    redis_store_key(fence, key, ":fence");
    redis_store_key(line, key, ":line");
    const char *argv[] = {NULL, NULL, "3", lock, fence, line, giving, wanting, store->ttl_text, line_ms};
    enum lock_status status =
        redis_store_script_until(store, &redis_script_turn, answer, line_ms ? 10 : 9, argv, cancel);
    if (status == LOCK_OK && answer->type != REDIS_ANSWER_INTEGER)
        return LOCK_UNAVAILABLE; /* not a Redis */
    return status;
}

enum lock_status redis_owner_attempt(void *opened, struct lock_attempt *attempt) {
    struct redis_store *store = opened;
    struct lock_grant *grant = &attempt->grant;
    bool lines_up = attempt->waits && redis_store_hears(store, false);
    int64_t sent_ns = lock_env_now_ns(store->env);
    struct redis_answer answer;
    enum lock_status status = turn(store, grant->key, attempt->releasing, grant->owner,
                                   lines_up ? LINE_MS : NULL, attempt->limit.cancel, &answer);
    attempt->nothing_left = status == LOCK_UNAVAILABLE;
    if (status != LOCK_OK)
        return status;
    attempt->releasing[0] = '\0';
    if (answer.integer > 0) {
        grant->fence = (uint64_t)answer.integer - REDIS_OWNER_FENCES + 1;
        grant->deadline_ns = redis_store_deadline_ns(sent_ns, store->ttl_ms);
        return LOCK_OK;
    }
    if (attempt->waits && !lines_up)
        redis_store_hears(store, true);
    int64_t look_ms = lines_up ? LOOK_MS : DEAF_LOOK_MS;
    int64_t left_ms = -answer.integer; /* and one more */
    if (left_ms < look_ms)
        look_ms = left_ms;
    attempt->retry_ns = lock_env_now_ns(store->env) + look_ms * 1000000;
    return LOCK_BUSY;
}

static enum lock_status give(struct redis_store *store, const char *key, const char *owner,
                             const char *line_ms) {
    struct redis_answer answer;
    enum lock_status status = turn(store, key, owner, "", line_ms, NULL, &answer);
    return status == LOCK_OK && answer.integer != 1 ? LOCK_NOT_OWNER : status;
}

enum lock_status redis_owner_release(void *store, const char *key, const char *owner) {
    return give(store, key, owner, NULL);
}

enum lock_status redis_owner_withdraw(void *store, const char *key, const char *owner, int64_t until_ns) {
    (void)until_ns;
    return give(store, key, owner, "-1");
}

static enum lock_status extend(struct redis_store *store, const struct lock_grant *grant,
                               const char *ttl_text) {
    char name[REDIS_KEY_SIZE];
    redis_store_key(name, grant->key, "");
    const char *argv[] = {NULL, NULL, "1", name, grant->owner, ttl_text};
    struct redis_answer answer;
    enum lock_status status = redis_store_script(store, &redis_script_extend, &answer, 6, argv);
    return status == LOCK_OK && answer.integer != 1 ? LOCK_NOT_OWNER : status;
}

enum lock_status redis_owner_extend(void *opened, struct lock_grant *grant) {
    struct redis_store *store = opened;
    int64_t sent_ns = lock_env_now_ns(store->env);
    enum lock_status status = extend(store, grant, store->ttl_text);
    if (status == LOCK_OK)
        grant->deadline_ns = redis_store_deadline_ns(sent_ns, store->ttl_ms);
    return status;
}

enum lock_status redis_owner_look(void *store, const struct lock_grant *grant) {
    return extend(store, grant, "0");
}

const struct lock_backend lock_redis_owner = {
    .scheme = "redis",
    .variant = "owner",
    .flaw = "forgets a grant when it fails over; two hold it after a pause, and the fence stops the second",
    .caps = LOCK_CAN_FENCE | LOCK_CAN_EXTEND | LOCK_IS_FAIR | LOCK_CAN_WAKE | LOCK_IS_SHARED | LOCK_IS_SAFE,
    .queues_locally = true,
    .attempt_releases = true,
    .fences_per_grant = REDIS_OWNER_FENCES,
    .open = redis_store_open,
    .close = redis_store_close,
    .attempt = redis_owner_attempt,
    .release = redis_owner_release,
    .withdraw = redis_owner_withdraw,
    .extend = redis_owner_extend,
    .verify = redis_owner_look,
};
