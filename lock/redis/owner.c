/* redis, variant owner (V3.1): the lock in one Redis as it should be written. Variant watchdog: the same, as
 * Redisson has it.
 *
 * The key's value is the owner, which is unique, and the key expires. One script acquires the lock and counts
 * the fence; releasing and extending compare the owner first, in a script too (owner.lua, extend.lua).
 *
 * Waiters stand in a list beside the key, one for each process. A release passes the lock, in the same call,
 * to the first in the list whose process is subscribed, and wakes it by PUBLISH. So a hundred waiters are
 * served in order, and each is woken once. A woken waiter asks again, because only its own request tells it
 * when its time to live began. A message can be lost, so a waiter also asks when the holder's time is up, and
 * every second.
 *
 * Flaw: a Redis that fails over to a replica which had not heard of the grant grants it again. And a holder
 * that is paused past its deadline does not notice. The fence stops the writes of the older one.
 *
 * Watchdog: grants are renewed every third of the time to live, and the lock is reentrant: the thread that
 * holds it may acquire it again, without a request to the store, and releases it as often. The fence stays
 * the same then: a new one would outdate what the holder has sent with the old one. A watchdog without a
 * bound would let a hung thread in a live process hold the lock for ever (redsync's authors refuse to renew
 * for that reason). So the holder must report progress, by lock_progress(): three times to live after the
 * last report it is renewed no more, and after the fourth the lock is free. */
#include <stdio.h>

#include "lock/redis/redis_store.h"

/* A waiter asks again after RETRY_MS, in case a wake-up is lost; sooner without a subscription, since then
 * there are no wake-ups. */
enum { OWNER_FENCES = 16, RETRY_MS = 1000, UNSUBSCRIBED_RETRY_MS = 20 };

/* The list of waiters expires if none has asked for so long. */
#define LIST_MS "10000"

/* Runs owner.lua; `list_ms` may be NULL. */
static enum lock_status owner_run(struct redis_store *store, const char *key, const char *releasing,
                                  const char *acquiring, const char *list_ms, struct cancel *cancel,
                                  struct redis_answer *answer) {
    char lock[REDIS_KEY_SIZE], fence[REDIS_KEY_SIZE], list[REDIS_KEY_SIZE];
    redis_store_key(lock, key, "");
    redis_store_key(fence, key, ":fence");
    redis_store_key(list, key, ":line");
    const char *argv[] = {NULL, NULL, "3", lock, fence, list, releasing, acquiring, store->ttl_text, list_ms};
    enum lock_status status =
        redis_store_run(store, &redis_script_owner, answer, list_ms ? 10 : 9, argv, cancel);
    if (status == LOCK_OK && answer->type != REDIS_INTEGER)
        return LOCK_UNAVAILABLE; /* not a Redis */
    return status;
}

static enum lock_status owner_attempt(void *opened, struct lock_attempt *attempt) {
    struct redis_store *store = opened;
    struct lock_grant *grant = &attempt->grant;
    bool queues = attempt->waits && redis_store_is_subscribed(store, grant->key, false);
    int64_t sent_ns = lock_env_now_ns(store->env);
    struct redis_answer answer;
    enum lock_status status = owner_run(store, grant->key, attempt->releasing, grant->owner,
                                        queues ? LIST_MS : NULL, attempt->limit.cancel, &answer);
    attempt->nothing_left = status == LOCK_UNAVAILABLE;
    if (status != LOCK_OK)
        return status;
    attempt->releasing[0] = '\0';
    if (answer.integer > 0) {
        grant->fence = (uint64_t)answer.integer - OWNER_FENCES + 1;
        grant->deadline_ns = redis_store_deadline_ns(sent_ns, store->ttl_ms);
        return LOCK_OK;
    }
    if (attempt->waits && !queues)
        redis_store_is_subscribed(store, grant->key, true);
    int64_t retry_ms = queues ? RETRY_MS : UNSUBSCRIBED_RETRY_MS;
    int64_t left_ms = -answer.integer; /* one more than the holder has left */
    if (left_ms < retry_ms)
        retry_ms = left_ms;
    attempt->retry_ns = lock_env_now_ns(store->env) + retry_ms * 1000000;
    return LOCK_BUSY;
}

static enum lock_status owner_release_by(struct redis_store *store, const char *key, const char *owner,
                                         const char *list_ms) {
    struct redis_answer answer;
    enum lock_status status = owner_run(store, key, owner, "", list_ms, NULL, &answer);
    return status == LOCK_OK && answer.integer != 1 ? LOCK_NOT_OWNER : status;
}

static enum lock_status owner_release(void *store, const char *key, const char *owner) {
    return owner_release_by(store, key, owner, NULL);
}

static enum lock_status owner_withdraw(void *store, const char *key, const char *owner, int64_t until_ns) {
    (void)until_ns;
    return owner_release_by(store, key, owner, "-1");
}

static void owner_check(void *opened, struct lock_check *check, size_t count) {
    struct redis_store *store = opened;
    struct redis_answer answer;
    char name[REDIS_KEY_SIZE];
    (void)count;
    redis_store_key(name, check->grant.key, "");
    /* A server that was promoted may lack the last extension: it keeps the grant for as long as the holder
     * believes in it. */
    int64_t sent_ns = lock_env_now_ns(store->env),
            left_ms = (check->grant.deadline_ns - sent_ns) / 1000000 + 1;
    char left_text[REDIS_NUMBER_SIZE];
    snprintf(left_text, sizeof left_text, "%lld", (long long)(left_ms > 0 ? left_ms : 0));
    const char *ttl_text = check->extends ? store->ttl_text : left_text;
    const char *argv[] = {NULL, NULL, "1", name, check->grant.owner, ttl_text};
    check->status = redis_store_run(store, &redis_script_extend, &answer, 6, argv, NULL);
    if (check->status == LOCK_OK && answer.integer != 1)
        check->status = LOCK_NOT_OWNER;
    else if (check->status == LOCK_OK)
        check->grant.deadline_ns = redis_store_deadline_ns(sent_ns, store->ttl_ms);
}

enum {
    OWNER_CAPS =
        LOCK_CAN_FENCE | LOCK_CAN_EXTEND | LOCK_IS_FAIR | LOCK_CAN_WAKE | LOCK_IS_SHARED | LOCK_IS_SAFE
};

/* The two variants, for each kind of URL. */
#define OWNER_FUNCTIONS                                                                                      \
    .queues_locally = true, .attempt_releases = true, .fences_per_grant = OWNER_FENCES,                      \
    .open = redis_store_open, .close = redis_store_close, .attempt = owner_attempt,                          \
    .release = owner_release, .withdraw = owner_withdraw, .check = owner_check

#define OWNER                                                                                                \
    OWNER_FUNCTIONS, .variant = "owner", .caps = OWNER_CAPS,                                                 \
                     .flaw = "forgets a grant when it fails over; two hold it after a pause, and the fence " \
                             "stops the second"
#define WATCHDOG                                                                                             \
    OWNER_FUNCTIONS, .variant = "watchdog", .caps = OWNER_CAPS | LOCK_IS_REENTRANT | LOCK_RENEWS,            \
                     .renews_active = true,                                                                  \
                     .flaw = "is held by a hung holder for three times to live longer; otherwise as owner"

const struct lock_backend lock_redis_owner = {.scheme = "redis", OWNER};
const struct lock_backend lock_redis_watchdog = {.scheme = "redis", WATCHDOG};
const struct lock_backend lock_redis_sentinel_owner = {.scheme = "redis-sentinel", OWNER};
const struct lock_backend lock_redis_sentinel_watchdog = {.scheme = "redis-sentinel", WATCHDOG};
const struct lock_backend lock_redis_cluster_owner = {.scheme = "redis-cluster", OWNER};
const struct lock_backend lock_redis_cluster_watchdog = {.scheme = "redis-cluster", WATCHDOG};
