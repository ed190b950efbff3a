/* The session of a lock in etcd: the client, the lease of this process, and the epoch that stops late puts.
 */
#include "lock/etcd/etcd_store.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/url_parts.h"

/* A deposed leader can answer renewals for an election timeout, by default a second: so nobody trusts the
 * last second of a lease. The session renews the lease eight times in each time to live of a grant, so a
 * lease lasts an eighth longer than a grant; and a hundredth longer, because clocks drift. */
enum { MARGIN_S = 1, LEASE_LEAST_S = 3, RENEWALS = 8, EVERY_LEAST_MS = 250, DRIFT = 100 };

const int64_t etcd_session_grace_ns = 50000000;

/* A caller with less than an eighth of the timeout left sends nothing: its request would end as unknown, and
 * so would all the requests that share its batch (txn_batch.c). */
enum { LEAST = 8 };

/* ---- opening ---- */

enum { NAME_SIZE = 256 };

/* Reads [USER:PASSWORD@]HOSTS, and returns the hosts; NULL: not valid. A comma before the @ is not valid,
 * since it looks as if each host had its own user. */
static const char *session_read_user(const char *address, char user[NAME_SIZE], char password[NAME_SIZE]) {
    const char *at = strrchr(address, '@'), *colon = strchr(address, ':');
    user[0] = password[0] = '\0';
    if (!at)
        return address;
    if (!colon || colon > at || colon == address || memchr(address, ',', (size_t)(at - address)) ||
        !percent_decode(user, NAME_SIZE, address, (size_t)(colon - address)) ||
        !percent_decode(password, NAME_SIZE, colon + 1, (size_t)(at - colon - 1)))
        return NULL;
    return at + 1;
}

static void session_on_error(void *env, const char *member, const char *why) {
    lock_env_failed(env, member, why);
}

static enum lock_status session_open_client(const struct lock_url *url, const struct lock_env *env,
                                            int64_t timeout_ns, struct etcd **etcd, char *error,
                                            size_t error_size) {
    char user[NAME_SIZE], password[NAME_SIZE],
        what[ETCD_ERROR_SIZE] =
            "the user makes no sense: USER:PASSWORD stands once, before all hosts, a comma in "
            "it is written %2C";
    struct etcd_config config = {
        .endpoints = session_read_user(url->address, user, password),
        .user = user[0] ? user : NULL,
        .password = user[0] ? password : NULL,
        .ca_file = url->ca_file[0] ? url->ca_file : NULL,
        .cert_file = url->cert_file[0] ? url->cert_file : NULL,
        .key_file = url->key_file[0] ? url->key_file : NULL,
        .timeout_ms = timeout_ns / 1000000,
        .on_error = session_on_error,
        .ctx = (void *)(uintptr_t)env, /* session_on_error() does not write to it */
    };
    enum etcd_status status = config.endpoints ? etcd_open(&config, etcd, what, sizeof what) : ETCD_CONFIG;
    if (status == ETCD_CONFIG)
        snprintf(error, error_size, "etcd: %s; want etcd://[USER:PASSWORD@]HOST[:PORT],HOST[:PORT],…", what);
    return status == ETCD_OK ? LOCK_OK : status == ETCD_CONFIG ? LOCK_CONFIG : LOCK_NOMEM;
}

enum lock_status etcd_session_open(const struct lock_url *url, const struct lock_env *env, void **store,
                                   char *error, size_t error_size) {
    struct etcd_session *session = calloc(1, sizeof *session);
    if (!session)
        return LOCK_NOMEM;
    session->env = env;
    session->ttl_ms = url->ttl_ms;
    session->every_ms = url->ttl_ms / RENEWALS < EVERY_LEAST_MS ? EVERY_LEAST_MS : url->ttl_ms / RENEWALS;
    session->lease_ttl_s = (url->ttl_ms + session->every_ms + url->ttl_ms / DRIFT + 999) / 1000 + MARGIN_S;
    if (session->lease_ttl_s < LEASE_LEAST_S)
        session->lease_ttl_s = LEASE_LEAST_S;
    session->timeout_ns = (int64_t)lock_env_timeout_ms(url->ttl_ms, 8) * 1000000;
    enum lock_status status =
        session_open_client(url, env, session->timeout_ns, &session->etcd, error, error_size);
    if (status != LOCK_OK) {
        free(session);
        return status;
    }
    pthread_mutex_init(&session->mutex, NULL);
    pthread_cond_init(&session->repaired, NULL);
    *store = session;
    return LOCK_OK;
}

void etcd_session_close(void *store) {
    struct etcd_session *session = store;
    etcd_close(session->etcd);
    pthread_cond_destroy(&session->repaired);
    pthread_mutex_destroy(&session->mutex);
    free(session);
}

/* ---- requests ---- */

struct etcd_call etcd_session_call(const struct etcd_session *session) {
    lock_env_count_requests(session->env, 1);
    return (struct etcd_call){.deadline_ns = clock_now_ns() + session->timeout_ns};
}

bool etcd_session_may_call(const struct etcd_session *session, const struct lock_limit *limit) {
    return !cancel_called(limit->cancel) && clock_now_ns() + session->timeout_ns / LEAST < limit->until_ns;
}

bool etcd_session_gives_up(void *ctx) {
    struct etcd_call_limit *call_limit = ctx;
    if (!cancel_called(call_limit->limit.cancel))
        return false;
    int64_t now_ns = clock_now_ns();
    if (!call_limit->cancelled_ns)
        call_limit->cancelled_ns = now_ns;
    return now_ns - call_limit->cancelled_ns >= etcd_session_grace_ns;
}

struct etcd_call etcd_session_call_within(const struct etcd_session *session,
                                          struct etcd_call_limit *call_limit) {
    struct etcd_call call = etcd_session_call(session);
    if (call_limit->limit.until_ns < call.deadline_ns)
        call.deadline_ns = call_limit->limit.until_ns;
    call.gives_up = call_limit->limit.cancel ? etcd_session_gives_up : NULL;
    call.ctx = call_limit;
    return call;
}

struct lock_limit etcd_session_limit(const struct etcd_session *session) {
    return (struct lock_limit){.until_ns = clock_now_ns() + session->timeout_ns};
}

enum lock_status etcd_session_status(enum etcd_status status) {
    switch (status) {
    case ETCD_OK: return LOCK_OK;
    case ETCD_UNKNOWN: return LOCK_UNKNOWN;
    case ETCD_NOMEM: return LOCK_NOMEM;
    default: return LOCK_UNAVAILABLE;
    }
}

/* ---- the lease ---- */

/* The client's loop calls it. All waiters have lost their places. */
static void session_on_lost(void *ctx, int64_t lease) {
    const struct etcd_session *session = ctx;
    (void)lease;
    session->env->wake(session->env->lock, NULL, NULL);
}

static bool session_is_alive(const struct etcd_session *session) {
    return session->keep && etcd_keep_deadline_ns(session->keep) > 0;
}

/* Writes the epoch key if it still has this version, which raises the version by one. `*written`: the key has
 * the next version now. May be repeated. */
static enum etcd_status session_write_epoch(const struct etcd_session *session,
                                            const struct etcd_epoch *epoch, bool *written,
                                            const struct lock_limit *limit) {
    const struct etcd_compare compare = etcd_session_compare(epoch);
    const struct etcd_op put = {ETCD_PUT, .put = {.key = etcd_text(epoch->key), .lease = epoch->lease}};
    const struct etcd_op get = {ETCD_RANGE, .range = {.key = etcd_text(epoch->key)}};
    const struct etcd_txn txn = {.compares = &compare,
                                 .compare_count = 1,
                                 .then = &put,
                                 .then_count = 1,
                                 .otherwise = &get,
                                 .otherwise_count = 1};
    struct etcd_call_limit call_limit = {.limit = *limit};
    struct etcd_call call = etcd_session_call_within(session, &call_limit);
    call.idempotent = true;
    struct etcd_reply *reply;
    enum etcd_status status = etcd_txn(session->etcd, &txn, &call, &reply);
    if (status != ETCD_OK)
        return status;
    const struct etcd_reply *found = &reply->replies[0];
    *written = reply->succeeded || (found->kv_count == 1 && found->kvs[0].version == epoch->version + 1);
    etcd_reply_free(reply);
    return ETCD_OK;
}

/* Gets a new lease, writes its epoch key, and keeps the lease alive. The server lets a lease expire whose
 * grant did not arrive here. */
static enum etcd_status session_new_lease(struct etcd_session *session, const struct lock_limit *limit) {
    struct etcd_call_limit call_limit = {.limit = *limit};
    struct etcd_call call = etcd_session_call_within(session, &call_limit);
    struct etcd_epoch epoch = {.version = 0};
    struct etcd_keep *keep, *old = session->keep;
    int64_t granted_ns = clock_now_ns(), ttl_s;
    bool written = false;
    call.idempotent = true;
    enum etcd_status status =
        etcd_lease_grant(session->etcd, session->lease_ttl_s, 0, &call, &epoch.lease, &ttl_s);
    if (status != ETCD_OK)
        return status;
    snprintf(epoch.key, sizeof epoch.key, "lock session %016llx", (unsigned long long)epoch.lease);
    if (lock_limit_is_over(limit)) /* the next request would wait for the grace time again */
        return ETCD_TIMEOUT;
    status = session_write_epoch(session, &epoch, &written, limit);
    if (status == ETCD_OK && !written) /* the new lease is lost already: there will be another */
        status = ETCD_FAILED;
    if (status == ETCD_OK)
        status = etcd_keep(session->etcd, epoch.lease, ttl_s, granted_ns, session->every_ms, session_on_lost,
                           session, &keep);
    if (status != ETCD_OK)
        return status;
    epoch.version = 1;
    pthread_mutex_lock(&session->mutex);
    session->epoch = epoch;
    session->keep = keep;
    session->doubt = false;
    pthread_mutex_unlock(&session->mutex);
    etcd_keep_drop(old);
    return ETCD_OK;
}

/* Raises the epoch; or gets a lease, if there is none or the epoch key shows that it is gone. */
static enum lock_status session_repair(struct etcd_session *session, const struct lock_limit *limit) {
    bool written = false;
    enum etcd_status status = ETCD_OK;
    if (session_is_alive(session))
        status = session_write_epoch(session, &session->epoch, &written, limit);
    if (status == ETCD_NOT_FOUND || (status == ETCD_OK && !written)) {
        status = lock_limit_is_over(limit) ? ETCD_UNAVAILABLE : session_new_lease(session, limit);
    } else if (status == ETCD_OK) {
        pthread_mutex_lock(&session->mutex);
        session->epoch.version++;
        session->doubt = false;
        pthread_mutex_unlock(&session->mutex);
    }
    /* After ETCD_UNKNOWN it does not matter whether the write was done: it may be repeated. */
    return status == ETCD_UNKNOWN ? LOCK_UNAVAILABLE : etcd_session_status(status);
}

/* Called, and returns, with the mutex held. One thread repairs at a time, and a hundred threads that need a
 * repair share it: if the store does not answer they wait together, not one after the other. If the repairing
 * thread gives up for its own reasons, that says nothing about the store, and another thread begins. */
static enum lock_status session_repair_once(struct etcd_session *session, const struct lock_limit *limit) {
    if (session->repairing) {
        uint64_t before = session->repairs;
        while (session->repairs == before && !lock_limit_is_over(limit))
            lock_limit_wait(limit, &session->repaired, &session->mutex);
        return session->repairs != before ? session->last_repair : LOCK_UNAVAILABLE;
    }
    session->repairing = true;
    pthread_mutex_unlock(&session->mutex);
    enum lock_status status = session_repair(session, limit);
    pthread_mutex_lock(&session->mutex);
    session->repairing = false;
    session->repairs++;
    session->last_repair = status != LOCK_OK && lock_limit_is_over(limit) ? LOCK_OK : status;
    pthread_cond_broadcast(&session->repaired);
    return status;
}

enum lock_status etcd_session_get_epoch(struct etcd_session *session, struct etcd_epoch *epoch,
                                        const struct lock_limit *limit) {
    enum lock_status status = LOCK_OK;
    pthread_mutex_lock(&session->mutex);
    while (status == LOCK_OK && (session->doubt || !session_is_alive(session)))
        status = lock_limit_is_over(limit) ? LOCK_UNAVAILABLE : session_repair_once(session, limit);
    if (status == LOCK_OK)
        *epoch = session->epoch;
    pthread_mutex_unlock(&session->mutex);
    return status;
}

void etcd_session_doubt_epoch(struct etcd_session *session, const struct etcd_epoch *epoch) {
    pthread_mutex_lock(&session->mutex);
    if (session->epoch.lease == epoch->lease && session->epoch.version == epoch->version)
        session->doubt = true;
    pthread_mutex_unlock(&session->mutex);
}

enum lock_status etcd_session_end_doubt(struct etcd_session *session, const struct lock_limit *limit) {
    struct etcd_epoch epoch;
    pthread_mutex_lock(&session->mutex);
    bool doubt = session->doubt;
    pthread_mutex_unlock(&session->mutex);
    return doubt ? etcd_session_get_epoch(session, &epoch, limit) : LOCK_OK;
}

struct etcd_compare etcd_session_compare(const struct etcd_epoch *epoch) {
    return (struct etcd_compare){.key = etcd_text(epoch->key),
                                 .target = ETCD_VERSION,
                                 .relation = ETCD_EQUAL,
                                 .number = epoch->version};
}

/* ---- grants ---- */

enum lock_status etcd_session_set_deadline(struct etcd_session *session, int64_t lease, int64_t sent_ns,
                                           struct lock_grant *grant) {
    pthread_mutex_lock(&session->mutex);
    int64_t lease_ns =
        session->keep && session->epoch.lease == lease ? etcd_keep_deadline_ns(session->keep) : 0;
    pthread_mutex_unlock(&session->mutex);
    int64_t ttl_ns = session->ttl_ms * 1000000, until_ns = sent_ns + ttl_ns;
    int64_t left_ns = lease_ns - MARGIN_S * 1000000000L - ttl_ns / DRIFT - clock_now_ns();
    if (left_ns <= 0)
        return LOCK_UNKNOWN;
    int64_t lease_until_ns = lock_env_now_ns(session->env) + left_ns;
    grant->deadline_ns = until_ns < lease_until_ns ? until_ns : lease_until_ns;
    return LOCK_OK;
}
