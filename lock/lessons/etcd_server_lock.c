/* etcd, variant rpc: WRONG, for lessons. The server's own lock service, v3lock.
 *
 * Why it looks right: the server does the waiting. One request is answered when the lock is granted.
 *
 * What is wrong, with servers up to and including 3.4: when a lease expires while its owner waits, the server
 * deletes the owner's key. When the owner before it releases, the server answers all the same, without
 * checking that the key exists. So the server grants the lock to an owner that is not in the queue any more,
 * and also to the next one in the queue. And the key belongs to the lease, not to the acquisition: two
 * acquisitions with one lease share a grant. The reply has no fence that would show it.
 *
 * What fixes it: verify the own key after each wake-up (etcd_queue.c).
 *
 * A waiter repeats its request every second, and loses its place each time. */
#include <stdio.h>

#include "lock/etcd/etcd_store.h"
#include "lock/libetcd/v3lock.h"

enum { NAME_SIZE = LOCK_KEY_MAX + 32, WAIT_MS = 1000, TRY_MS = 250 };

static void server_lock_name(char out[NAME_SIZE], const char *key) {
    snprintf(out, NAME_SIZE, "lock-rpc/%s", key);
}

/* LOCK_OK also if there was no such key: the reply does not say so. */
static enum lock_status server_lock_unlock(struct etcd_session *session, const char *key,
                                           const struct lock_limit *limit) {
    char name[NAME_SIZE], own[NAME_SIZE + 24];
    struct etcd_epoch epoch;
    enum lock_status status = etcd_session_get_epoch(session, &epoch, limit);
    if (status != LOCK_OK)
        return status;
    server_lock_name(name, key);
    snprintf(own, sizeof own, "%s/%llx", name, (unsigned long long)epoch.lease);
    struct etcd_call_limit call_limit = {.limit = *limit};
    const struct etcd_call call = etcd_session_call_within(session, &call_limit);
    return etcd_session_status(etcd_unlock(session->etcd, etcd_text(own), &call));
}

static enum lock_status server_lock_release(void *store, const char *key, const char *owner) {
    const struct lock_limit limit = etcd_session_limit(store);
    (void)owner;
    return server_lock_unlock(store, key, &limit);
}

static enum lock_status server_lock_withdraw(void *store, const char *key, const char *owner,
                                             int64_t until_ns) {
    const struct lock_limit limit = {.until_ns = until_ns};
    (void)owner;
    return server_lock_unlock(store, key, &limit);
}

static enum lock_status server_lock_attempt(void *store, struct lock_attempt *attempt) {
    struct etcd_session *session = store;
    char name[NAME_SIZE];
    struct etcd_epoch epoch;
    int64_t sent_ns = lock_env_now_ns(session->env), revision;
    enum lock_status status = etcd_session_get_epoch(session, &epoch, &attempt->limit);
    if (status != LOCK_OK)
        return status;
    server_lock_name(name, attempt->grant.key);
    struct etcd_call_limit call_limit = {.limit = attempt->limit};
    struct etcd_call call = etcd_session_call_within(session, &call_limit);
    int64_t until_ns =
        lock_env_machine_ns(session->env, sent_ns) + (int64_t)(attempt->waits ? WAIT_MS : TRY_MS) * 1000000;
    call.deadline_ns = until_ns < attempt->limit.until_ns ? until_ns : attempt->limit.until_ns;
    struct etcd_bytes *key;
    enum etcd_status locked = etcd_lock(session->etcd, etcd_text(name), epoch.lease, &call, &key, &revision);
    attempt->retry_ns = lock_env_now_ns(session->env);
    /* The server probably still waits. If it has granted the lock, the next request finds the grant. */
    if (locked == ETCD_UNKNOWN) {
        status = attempt->waits ? LOCK_OK : server_lock_unlock(session, attempt->grant.key, &attempt->limit);
        return status == LOCK_OK || status == LOCK_NOT_OWNER ? LOCK_BUSY : status;
    }
    if (locked == ETCD_NOT_FOUND)
        etcd_session_doubt_epoch(session, &epoch);
    if (locked != ETCD_OK)
        return etcd_session_status(locked);
    etcd_lock_key_free(key);
    attempt->grant.fence = 0;
    return etcd_session_set_deadline(session, epoch.lease, sent_ns, &attempt->grant);
}

const struct lock_backend lock_etcd_rpc = {
    .scheme = "etcd",
    .variant = "rpc",
    .flaw = "is granted to one whose lease has gone while it waited, beside another",
    .caps = LOCK_CAN_WAKE | LOCK_IS_SHARED,
    .is_lesson = true,
    .has_tls = true,
    .queues_locally = true,
    .outlives_deadline = true,
    .open = etcd_session_open,
    .close = etcd_session_close,
    .attempt = server_lock_attempt,
    .release = server_lock_release,
    .withdraw = server_lock_withdraw,
};
