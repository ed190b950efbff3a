/* The two sides of a backend. The core gives it the lock's clock and random numbers, limits for its waits,
 * and functions to report by (backend.c). It gives the core a table of functions: open and close; one
 * attempt, release, withdraw, and check. The core does what is the same for all locks: keys and URLs, the
 * local queue, deadlines, cancelling, renewal, losses, several keys, metrics. A backend is one file with its
 * table at the end. Not for users. */
#ifndef LOCK_CORE_BACKEND_H
#define LOCK_CORE_BACKEND_H

#include <pthread.h>

#include "base/clock.h"
#include "base/waiter.h"
#include "lock/lock.h"

/* ---- the environment of a lock ---- */

/* No call to a store takes longer. Two of them fit into the second that lock.h allows a call beyond its
 * deadline. */
enum { LOCK_TIMEOUT_MAX_MS = 450 };

/* Belongs to the lock, and outlives its backend's store. */
struct lock_env {
    /* From lock_config. NULL: the machine's clock and random numbers; no points. */
    int64_t (*now_ns)(void *ctx);
    uint64_t (*random)(void *ctx);
    void (*at_point)(void *ctx, const char *point, const char *key);
    void *ctx;
    uint64_t session; /* the first half of all owner ids of this lock: a store finds the process by it */
    /* The backend's reports to the core; any thread may call them.
     * - wake: the waiter `owner` of `key` asks the store again. If no thread waits under that name any more,
     *   the grant that the store gave it is released. With `key` NULL all waiters ask again. Not called
     *   inside a call that the core makes to the backend.
     * - failed: see lock_env_failed(), which calls it.
     * - moved: another server is the store from now on, or was in between. Earlier grants may be gone, so the
     *   core verifies every grant soon. A call must report a move before it asks the new server. */
    void (*wake)(void *lock, const char *key, const char *owner);
    void (*failed)(void *lock, const char *server, const char *why);
    void (*moved)(void *lock);
    void *lock;
    _Atomic uint64_t *requests; /* see lock_env_count_requests(); NULL: not counted */
};

/* Sets what comes from `config`, and a random session. The caller sets the reports. */
void lock_env_init(struct lock_env *env, const struct lock_config *config);

/* The lock's own clock, for deadlines of grants. Threads sleep by CLOCK_MONOTONIC (clock_now_ns()). */
int64_t lock_env_now_ns(const struct lock_env *env);
/* Converts a time of the lock's own clock to CLOCK_MONOTONIC. */
int64_t lock_env_machine_ns(const struct lock_env *env, int64_t until_ns);
/* 0 to `below` - 1. */
uint64_t lock_env_random(const struct lock_env *env, uint64_t below);
void lock_env_at_point(const struct lock_env *env, const char *point, const char *key);
/* How long a call to the store may take: this fraction of the time to live, but at least 50 ms (or a third of
 * the time to live if that is less), and at most LOCK_TIMEOUT_MAX_MS. */
int lock_env_timeout_ms(int64_t ttl_ms, int64_t divisor);

/* Sets what lock_last_error() returns: "SERVER: WHY". `why` never contains a password. */
void lock_env_failed(const struct lock_env *env, const char *server, const char *why);
/* Every backend counts here what it sends to its store (lock_metrics.requests). */
void lock_env_count_requests(const struct lock_env *env, int count);

/* ---- waiting ---- */

/* What lock.h gives to users. */
struct lock_cancel {
    struct cancel cancel;
};

/* NULL for NULL. */
static inline struct cancel *lock_cancel_of(struct lock_cancel *cancel) {
    return cancel ? &cancel->cancel : NULL;
}

/* How long a call may wait for its store: until this time of CLOCK_MONOTONIC, or until soon after `cancel`
 * (which may be NULL) is called. A backend that cannot abandon a call in flight ends it within
 * lock_env_timeout_ms(). */
struct lock_limit {
    int64_t until_ns;
    struct cancel *cancel;
};

bool lock_limit_is_over(const struct lock_limit *limit);
/* Waits on a condition until the limit is over, or it is time to check whether it is. */
void lock_limit_wait(const struct lock_limit *limit, pthread_cond_t *cond, pthread_mutex_t *mutex);

/* ---- hash tables ---- */

/* FNV-1a */
static inline uint32_t lock_hash_text(const char *text) {
    uint32_t hash = 2166136261U;
    for (const char *c = text; *c; c++)
        hash = (hash ^ (unsigned char)*c) * 16777619U;
    return hash;
}

/* ---- backends ---- */

enum { LOCK_TTL_MIN_MS = 10, LOCK_TTL_MAX_MS = 24 * 3600 * 1000 };

/* SCHEME:[//ADDRESS][?OPTION&OPTION]. The options are variant=NAME, ttl=MS and renew=on, and for stores that
 * speak TLS ca=FILE, cert=FILE and key=FILE. */
struct lock_url {
    char scheme[16];
    char address[2048]; /* what stands between // and ?; "" if there is none */
    char variant[32];   /* "": the scheme's default */
    int64_t ttl_ms;     /* 0: not given */
    bool renew;
    char ca_file[256], cert_file[256], key_file[256]; /* "": not given */
};

/* In open.c. On failure `url` is untouched, and `error` says what is wrong without quoting an address, which
 * may contain a password. */
bool lock_url_parse(struct lock_url *url, const char *text, char *error, size_t error_size);

/* One question to the store whether an owner gets a key. */
struct lock_attempt {
    struct lock_limit limit;
    struct lock_grant grant; /* in: key and owner. Out, if granted: fence and deadline */
    /* In: the owner of a grant of the same key that this call also releases; "": there is none. Out: "" if it
     * is released. Only for backends with `attempt_releases`. */
    char releasing[LOCK_OWNER_SIZE];
    bool waits;        /* in: the caller will wait: it joins the store's queue, and is to be woken */
    bool nothing_left; /* out, if not granted: this call has left nothing, in the store or in this process */
    int64_t notes[2];  /* the backend's, kept from one call for this owner to the next; 0 at first */
    int64_t retry_ns;  /* out, with LOCK_BUSY: when to ask again, unless woken before */
};

/* One question to the store whether it still has a grant. */
struct lock_check {
    struct lock_grant grant; /* its owner is the one that the store knows; LOCK_OK may move its deadline */
    bool extends;            /* in: also hold it for another time to live. LOCK_OK moves its deadline */
    enum lock_status status; /* out: LOCK_OK, LOCK_NOT_OWNER, LOCK_UNKNOWN, LOCK_UNAVAILABLE, LOCK_NOMEM */
};

enum { LOCK_CHECKS_MAX = 64 };

struct lock_backend {
    const char *scheme, *variant; /* `variant` is "" if the scheme has only one */
    const char *flaw;             /* what goes wrong with it; shown by programs that list the locks */
    unsigned caps;
    bool is_lesson;      /* wrong on purpose: refused unless asked for */
    bool has_tls;        /* takes ca=, cert= and key= */
    bool queues_locally; /* of the threads of this process only the first in the local queue asks the store */
    bool checks_together;   /* check() answers for up to LOCK_CHECKS_MAX grants with one request */
    bool attempt_releases;  /* attempt() understands `releasing` */
    bool renews_active;     /* grants are extended as long as their holders report progress */
    bool outlives_deadline; /* as long as its process lives, a grant stays in the store until it is released,
                               also after its deadline */
    /* Each grant comes with so many fences, from grant.fence on: it serves so many holders in this process,
     * one after the other, before the store is asked again. 0 means 1. */
    unsigned fences_per_grant;

    /* The functions are NULL for a lock without a store, which is the local queue alone. Any
     * thread may call them, except `open` and `close`. A request to the store takes at most
     * lock_env_timeout_ms(), and ends with the limit of the call. */

    /* On failure `*store` is untouched and `error` says why. */
    enum lock_status (*open)(const struct lock_url *url, const struct lock_env *env, void **store,
                             char *error, size_t error_size);
    void (*close)(void *store);
    /* LOCK_OK; LOCK_BUSY: another owner has the lock; LOCK_UNKNOWN; LOCK_UNAVAILABLE; LOCK_NOMEM. Called
     * again for the same owner after anything but LOCK_OK, it continues: it finds what an earlier attempt was
     * granted whose reply was lost. */
    enum lock_status (*attempt)(void *store, struct lock_attempt *attempt);
    /* LOCK_OK, LOCK_NOT_OWNER, LOCK_UNKNOWN, LOCK_UNAVAILABLE. */
    enum lock_status (*release)(void *store, const char *key, const char *owner);
    /* Releases what an attempt may have been granted that is given up; the owner also leaves the store's
     * queue. Answers as `release`. `until_ns` as in struct lock_limit. NULL: an attempt that is not granted
     * leaves nothing. Every backend that queues locally and has a store has it. */
    enum lock_status (*withdraw)(void *store, const char *key, const char *owner, int64_t until_ns);
    /* Verifies or extends grants: one with each call, unless `checks_together`. NULL: losses are not noticed.
     */
    void (*check)(void *store, struct lock_check checks[], size_t count);
};

extern const struct lock_backend lock_redis_owner, lock_redis_watchdog, lock_redis_sentinel_owner,
    lock_redis_sentinel_watchdog, lock_redis_cluster_owner, lock_redis_cluster_watchdog, lock_redis_get_set,
    lock_redis_setnx_expire, lock_redis_getset, lock_redis_set_del, lock_redis_timestamp, lock_redlock,
    lock_etcd_queue, lock_etcd_fixed_key, lock_etcd_rpc, lock_zookeeper;

#endif
