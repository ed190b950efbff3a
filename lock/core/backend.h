/* The interface of a backend: open and close; one attempt, release, withdraw, and check. The core does what
 * is the same for all locks: keys and URLs, the local queue, deadlines, cancelling, renewal, losses, several
 * keys, metrics. A backend is one file with its table at the end. Not for users. */
#ifndef LOCK_CORE_BACKEND_H
#define LOCK_CORE_BACKEND_H

#include "lock/core/runtime.h"

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
