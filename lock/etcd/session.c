#include "lock/etcd/session.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/percent.h"
#include "lock/core/waiter.h"

/* A deposed leader can go on answering renewals for an election time-out, a second unless etcd is told
 * otherwise: so a lease is not trusted for its last second. And it is renewed eight times in each time to
 * live of a grant, so that an eighth more is always left of it than a grant wants; and a hundredth, for
 * clocks that drift. */
enum { MARGIN_S = 1, LEASE_LEAST_S = 3, RENEWALS = 8, EVERY_LEAST_MS = 250, DRIFT = 100 };

const int64_t etcd_session_grace_ns = 50000000;

/* Who has less than that part of what a call may take sends nothing any more: it would end as unknown, and
 * with it all that go along (etcd_batch.c). */
enum { LEAST = 8 };

/* Who waits for what another thread of this process does. */
struct follower {
    struct follower *older, **link;
    struct lock_waiter waiter;
    bool told;
};

struct etcd_session {
    const struct lock_env *env;
    struct etcd *etcd;
    int64_t ttl_ms, every_ms, lease_ttl_s, call_ns;
    pthread_mutex_t mutex;   /* for what follows; not held while the store is asked */
    bool busy;               /* somebody gets a lease, or raises the epoch; */
    struct follower *newest; /* who waits for that, */
    enum lock_status mended; /* and what came of it the last time */
    bool doubt;              /* a write with this epoch may still be on its way, or was refused */
    struct etcd_epoch epoch;
    struct etcd_keep *keep; /* NULL: no lease yet */
};

/* ---- opening ---- */

enum { NAME_SIZE = 256 };

/* [USER:PASSWORD@]HOSTS: the hosts; NULL: it makes no sense. With a comma in it a user would be given to each
 * host, and all but the last be taken for a password. */
static const char *read_user(const char *address, char user[NAME_SIZE], char password[NAME_SIZE]) {
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

static void on_error(void *env, const char *member, const char *why) {
    lock_env_failed(env, member, why);
}

static enum lock_status open_client(const struct lock_url *url, const struct lock_env *env, int64_t call_ns,
                                    struct etcd **etcd, char *error, size_t error_size) {
    char user[NAME_SIZE], password[NAME_SIZE],
        what[ETCD_ERROR_SIZE] =
            "the user makes no sense: USER:PASSWORD stands once, before all hosts, a comma in "
            "it is written %2C";
    struct etcd_config config = {
        .endpoints = read_user(url->address, user, password),
        .user = user[0] ? user : NULL,
        .password = user[0] ? password : NULL,
        .ca_file = url->ca_file[0] ? url->ca_file : NULL,
        .cert_file = url->cert_file[0] ? url->cert_file : NULL,
        .key_file = url->key_file[0] ? url->key_file : NULL,
        .timeout_ms = call_ns / 1000000,
        .on_error = on_error,
        .ctx = (void *)(uintptr_t)env, /* it comes back as what it was */
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
    session->call_ns = (int64_t)lock_env_timeout_ms(url->ttl_ms, 8) * 1000000;
    enum lock_status status = open_client(url, env, session->call_ns, &session->etcd, error, error_size);
    if (status != LOCK_OK) {
        free(session);
        return status;
    }
    pthread_mutex_init(&session->mutex, NULL);
    *store = session;
    return LOCK_OK;
}

/* What is held is left to run out, with the lease. */
void etcd_session_close(void *store) {
    struct etcd_session *session = store;
    etcd_close(session->etcd);
    pthread_mutex_destroy(&session->mutex);
    free(session);
}

struct etcd *etcd_session_client(struct etcd_session *session) {
    return session->etcd;
}

const struct lock_env *etcd_session_env(const struct etcd_session *session) {
    return session->env;
}

struct etcd_call etcd_session_call(const struct etcd_session *session) {
    return (struct etcd_call){.deadline_ns = clock_mono_ns(&clock_system) + session->call_ns};
}

bool etcd_session_may_call(const struct etcd_session *session, const struct lock_limit *limit) {
    return !lock_cancel_called(limit->cancel) &&
           clock_mono_ns(&clock_system) + session->call_ns / LEAST < limit->until_ns;
}

bool etcd_session_gives_up(void *ctx) {
    struct etcd_patience *patience = ctx;
    if (!lock_cancel_called(patience->limit.cancel))
        return false;
    int64_t now_ns = clock_mono_ns(&clock_system);
    if (!patience->cancelled_ns)
        patience->cancelled_ns = now_ns;
    return now_ns - patience->cancelled_ns >= etcd_session_grace_ns;
}

struct etcd_call etcd_session_call_within(const struct etcd_session *session,
                                          struct etcd_patience *patience) {
    int64_t until_ns = clock_mono_ns(&clock_system) + session->call_ns;
    return (struct etcd_call){.deadline_ns =
                                  until_ns < patience->limit.until_ns ? until_ns : patience->limit.until_ns,
                              .gives_up = patience->limit.cancel ? etcd_session_gives_up : NULL,
                              .ctx = patience};
}

struct lock_limit etcd_session_limit(const struct etcd_session *session) {
    return (struct lock_limit){.until_ns = clock_mono_ns(&clock_system) + session->call_ns};
}

enum lock_status etcd_session_status(enum etcd_status status) {
    switch (status) {
    case ETCD_OK: return LOCK_OK;
    case ETCD_UNKNOWN: return LOCK_UNKNOWN;
    case ETCD_NOT_FOUND: /* the lease */ return LOCK_NOT_OWNER;
    case ETCD_NOMEM: return LOCK_NOMEM;
    default: return LOCK_UNAVAILABLE;
    }
}

/* ---- the lease ---- */

/* From the loop of the client. Whoever waits has lost its place. */
static void on_lost(void *ctx, int64_t lease) {
    const struct etcd_session *session = ctx;
    (void)lease;
    session->env->wake(session->env->lock, NULL, NULL);
}

static bool is_alive(const struct etcd_session *session) {
    return session->keep && etcd_keep_deadline_ns(session->keep) > 0;
}

static bool is_over(const struct lock_limit *limit) {
    return lock_cancel_called(limit->cancel) || clock_mono_ns(&clock_system) >= limit->until_ns;
}

/* The epoch's key, if it has that version still, gets the next one: so it can be repeated. */
static enum etcd_status write_epoch(const struct etcd_session *session, const struct etcd_epoch *epoch,
                                    bool *written, const struct lock_limit *limit) {
    const struct etcd_compare compare = etcd_session_compare(epoch);
    const struct etcd_op put = {ETCD_PUT, .put = {.key = etcd_text(epoch->key), .lease = epoch->lease}};
    const struct etcd_op get = {ETCD_RANGE, .range = {.key = etcd_text(epoch->key)}};
    const struct etcd_txn txn = {.compares = &compare,
                                 .compare_count = 1,
                                 .then = &put,
                                 .then_count = 1,
                                 .otherwise = &get,
                                 .otherwise_count = 1};
    struct etcd_patience patience = {.limit = *limit};
    struct etcd_call call = etcd_session_call_within(session, &patience);
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

/* A new lease, and its epoch's key. One that is granted without our knowing runs out by itself. */
static enum etcd_status grant(struct etcd_session *session, struct etcd_epoch *epoch, struct etcd_keep **keep,
                              const struct lock_limit *limit) {
    struct etcd_patience patience = {.limit = *limit};
    struct etcd_call call = etcd_session_call_within(session, &patience);
    int64_t granted_ns = clock_mono_ns(&clock_system), ttl_s;
    bool written = false;
    call.idempotent = true;
    enum etcd_status status =
        etcd_lease_grant(session->etcd, session->lease_ttl_s, 0, &call, &epoch->lease, &ttl_s);
    if (status != ETCD_OK)
        return status;
    epoch->version = 0;
    snprintf(epoch->key, sizeof epoch->key, "lock session %016llx", (unsigned long long)epoch->lease);
    if (is_over(limit)) /* each call gives an answer that is about to come its time */
        return ETCD_TIMEOUT;
    status = write_epoch(session, epoch, &written, limit);
    epoch->version = 1;
    if (status == ETCD_OK)
        status = written ? etcd_keep(session->etcd, epoch->lease, ttl_s, granted_ns, session->every_ms,
                                     on_lost, session, keep)
                         : ETCD_FAILED;
    return status;
}

/* Alone. A new lease instead of one that is lost. */
static enum lock_status renew(struct etcd_session *session, const struct lock_limit *limit) {
    struct etcd_epoch fresh;
    struct etcd_keep *keep, *old = session->keep;
    enum etcd_status status = grant(session, &fresh, &keep, limit);
    if (status != ETCD_OK) /* also where the new one is lost already: later there will be another */
        return status == ETCD_NOMEM ? LOCK_NOMEM : LOCK_UNAVAILABLE;
    pthread_mutex_lock(&session->mutex);
    session->epoch = fresh;
    session->keep = keep;
    session->doubt = false;
    pthread_mutex_unlock(&session->mutex);
    etcd_keep_drop(old);
    return LOCK_OK;
}

/* Alone. LOCK_NOT_OWNER: the lease is gone. */
static enum lock_status raise_epoch(struct etcd_session *session, const struct lock_limit *limit) {
    bool written = false;
    enum etcd_status status = write_epoch(session, &session->epoch, &written, limit);
    if (status == ETCD_OK && !written)
        status = ETCD_NOT_FOUND;
    if (status != ETCD_OK)
        return etcd_session_status(status == ETCD_UNKNOWN ? ETCD_UNAVAILABLE : status);
    pthread_mutex_lock(&session->mutex);
    session->epoch.version++;
    session->doubt = false;
    pthread_mutex_unlock(&session->mutex);
    return LOCK_OK;
}

/* Alone. */
static enum lock_status mend(struct etcd_session *session, const struct lock_limit *limit) {
    enum lock_status status = is_alive(session) ? raise_epoch(session, limit) : LOCK_NOT_OWNER;
    if (status != LOCK_NOT_OWNER)
        return status;
    return is_over(limit) ? LOCK_UNAVAILABLE : renew(session, limit);
}

/* Called, and returns, with the mutex held. */
static enum lock_status follow(struct etcd_session *session, const struct lock_limit *limit) {
    struct follower follower = {.older = session->newest, .link = &session->newest};
    lock_waiter_init(&follower.waiter);
    if (follower.older)
        follower.older->link = &follower.older;
    /* cppcheck-suppress autoVariables ; it is out of the list again when this returns */
    session->newest = &follower;
    pthread_mutex_unlock(&session->mutex);
    lock_waiter_wait(&follower.waiter, limit->until_ns, limit->cancel);
    pthread_mutex_lock(&session->mutex);
    if (!follower.told) {
        *follower.link = follower.older;
        if (follower.older)
            follower.older->link = follower.link;
    }
    lock_waiter_destroy(&follower.waiter);
    return follower.told ? session->mended : LOCK_UNAVAILABLE;
}

/* With the mutex held. */
static void tell_followers(struct etcd_session *session) {
    for (struct follower *follower = session->newest, *older; follower; follower = older) {
        older = follower->older;
        follower->told = true;
        lock_waiter_wake(&follower->waiter);
    }
    session->newest = NULL;
}

/* Called, and returns, with the mutex held. Who comes while somebody is at it has what comes of that: a
 * hundred that ask a store that does not answer do so together, not one after the other. Where that one gives
 * up for reasons of its own it says nothing of the store, and the next is at it. */
static enum lock_status mend_once(struct etcd_session *session, const struct lock_limit *limit) {
    if (session->busy)
        return follow(session, limit);
    session->busy = true;
    pthread_mutex_unlock(&session->mutex);
    enum lock_status status = mend(session, limit);
    pthread_mutex_lock(&session->mutex);
    session->busy = false;
    session->mended = status != LOCK_OK && is_over(limit) ? LOCK_OK : status;
    tell_followers(session);
    return status;
}

enum lock_status etcd_session_begin(struct etcd_session *session, struct etcd_epoch *epoch,
                                    const struct lock_limit *limit) {
    enum lock_status status = LOCK_OK;
    pthread_mutex_lock(&session->mutex);
    while (status == LOCK_OK && (session->doubt || !is_alive(session)))
        status = is_over(limit) ? LOCK_UNAVAILABLE : mend_once(session, limit);
    if (status == LOCK_OK)
        *epoch = session->epoch;
    pthread_mutex_unlock(&session->mutex);
    return status;
}

void etcd_session_doubt(struct etcd_session *session, const struct etcd_epoch *epoch) {
    pthread_mutex_lock(&session->mutex);
    if (session->epoch.lease == epoch->lease && session->epoch.version == epoch->version)
        session->doubt = true;
    pthread_mutex_unlock(&session->mutex);
}

enum lock_status etcd_session_settle(struct etcd_session *session, const struct lock_limit *limit) {
    struct etcd_epoch epoch;
    pthread_mutex_lock(&session->mutex);
    bool doubt = session->doubt;
    pthread_mutex_unlock(&session->mutex);
    return doubt ? etcd_session_begin(session, &epoch, limit) : LOCK_OK;
}

struct etcd_compare etcd_session_compare(const struct etcd_epoch *epoch) {
    return (struct etcd_compare){.key = etcd_text(epoch->key),
                                 .target = ETCD_VERSION,
                                 .relation = ETCD_EQUAL,
                                 .number = epoch->version};
}

enum lock_status etcd_session_grant(struct etcd_session *session, int64_t lease, int64_t sent_ns,
                                    struct lock_grant *grant) {
    pthread_mutex_lock(&session->mutex);
    int64_t lease_ns =
        session->keep && session->epoch.lease == lease ? etcd_keep_deadline_ns(session->keep) : 0;
    pthread_mutex_unlock(&session->mutex);
    int64_t ttl_ns = session->ttl_ms * 1000000, until_ns = sent_ns + ttl_ns;
    int64_t left_ns = lease_ns - MARGIN_S * 1000000000L - ttl_ns / DRIFT - clock_mono_ns(&clock_system);
    if (left_ns <= 0)
        return LOCK_UNKNOWN;
    int64_t lease_until_ns = lock_env_now_ns(session->env) + left_ns;
    grant->deadline_ns = until_ns < lease_until_ns ? until_ns : lease_until_ns;
    return LOCK_OK;
}

/* The lease of the grant's key, if it is among those that were found; 0. */
static int64_t lease_of(const struct etcd_reply *range, const struct lock_grant *grant) {
    for (size_t i = 0; i < range->kv_count; i++) {
        if ((uint64_t)range->kvs[i].create_revision == grant->fence)
            return range->kvs[i].lease;
    }
    return 0;
}

static enum lock_status read_check(struct etcd_session *session, const struct etcd_reply *range,
                                   int64_t sent_ns, struct lock_grant *grant) {
    int64_t lease = lease_of(range, grant);
    if (lease == 0)
        return LOCK_NOT_OWNER;
    return etcd_session_grant(session, lease, sent_ns, grant) == LOCK_OK ? LOCK_OK : LOCK_UNAVAILABLE;
}

enum lock_status etcd_session_extend(struct etcd_session *session, const char *name, bool prefix,
                                     struct lock_grant *grant) {
    const struct etcd_range range = {.key = etcd_text(name), .prefix = prefix, .keys_only = true};
    const struct etcd_call call = etcd_session_call(session);
    int64_t sent_ns = lock_env_now_ns(session->env);
    struct etcd_reply *reply;
    enum etcd_status status = etcd_range(session->etcd, &range, &call, &reply);
    if (status != ETCD_OK)
        return etcd_session_status(status);
    enum lock_status result = read_check(session, reply, sent_ns, grant);
    etcd_reply_free(reply);
    return result;
}

void etcd_session_verify(struct etcd_session *session, struct lock_check checks[], size_t count, bool prefix,
                         void (*name)(char out[ETCD_KEY_SIZE], const struct lock_grant *grant)) {
    char names[LOCK_CHECKS_MAX][ETCD_KEY_SIZE];
    struct etcd_op ops[LOCK_CHECKS_MAX];
    for (size_t i = 0; i < count; i++) {
        name(names[i], &checks[i].grant);
        ops[i] = (struct etcd_op){ETCD_RANGE,
                                  .range = {.key = etcd_text(names[i]), .prefix = prefix, .keys_only = true}};
    }
    const struct etcd_txn all = {.then = ops, .then_count = count};
    const struct etcd_call call = etcd_session_call(session);
    int64_t sent_ns = lock_env_now_ns(session->env);
    struct etcd_reply *reply;
    enum etcd_status status = etcd_txn(session->etcd, &all, &call, &reply);
    for (size_t i = 0; i < count; i++)
        checks[i].status = status != ETCD_OK
                               ? etcd_session_status(status)
                               : read_check(session, &reply->replies[i], sent_ns, &checks[i].grant);
    if (status == ETCD_OK)
        etcd_reply_free(reply);
}
