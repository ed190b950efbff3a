/* What the layer and a backend know of each other. Not for users.
 *
 * A backend makes one attempt, gives back, extends, looks. The layer has what is the same for all: keys and
 * URLs, the line of those who wait in this process, deadlines, cancelling, renewal, losses, many keys,
 * metrics. Each backend is one file with its table at the end. */
#ifndef LOCK_CORE_BACKEND_H
#define LOCK_CORE_BACKEND_H

#include "lock/core/url.h"
#include "lock/lock.h"

/* What a backend has from the layer; outlives the store. */
struct lock_env {
    /* Time and chance as the user gave them, or the machine's. */
    int64_t (*now_ns)(void *ctx);
    uint64_t (*random)(void *ctx);
    void (*at_point)(void *ctx, const char *point, const char *key);
    void *ctx;
    /* Half of all owner ids of this lock: by it a store finds the process. */
    uint64_t session;
    /* Who waits as `owner` for `key` shall look again; if nobody does, what was left to it is taken back.
     * `key` NULL: everybody looks again. From any thread, not from within a call of the layer. */
    void (*wake)(void *layer, const char *key, const char *owner);
    /* For lock_last_error(): `server` could not be used, and why (never a password). From any thread. See
     * lock_env_failed(). */
    void (*failed)(void *layer, const char *server, const char *why);
    void *layer;
};

/* How long a call may wait for its store: CLOCK_MONOTONIC, and until soon after `cancel` (which may be NULL)
 * is called. A backend that cannot leave a call that is under way ends it within lock_env_timeout_ms(). */
struct lock_limit {
    int64_t until_ns;
    struct lock_cancel *cancel;
};

struct lock_attempt {
    struct lock_limit limit;
    struct lock_grant grant; /* key and owner are set; an attempt that has it sets fence and deadline */
    /* The owner of a grant of this key that is given back with the same call, "" once it was (or if there is
     * none). Only where the table says `hands_over`. */
    char giving[LOCK_OWNER_SIZE];
    bool waits;       /* the caller will wait: to be lined up, and woken */
    bool clean;       /* where it is not granted: this call has surely left nothing, here or in the store */
    int64_t again_ns; /* LOCK_BUSY: when to look again, if not woken before */
};

struct lock_backend {
    const char *scheme, *variant; /* `variant` is "" where the scheme has but one */
    const char *flaw;             /* what goes wrong with it, for those who list the locks */
    unsigned caps;
    bool teaches;    /* wrong on purpose: refused unless asked for */
    bool tls;        /* takes ca=, cert= and key= */
    bool lines_up;   /* of this process only the first in line goes to the store */
    bool hands_over; /* attempt() understands `giving` */
    bool renews;     /* grants are extended as long as their holders report progress */
    bool lasts;      /* what is granted stays in the store until it is given back, if its holder lives: a
                        grant that ran out is over for its holder only */
    /* How many fences a grant comes with, from grant.fence on: so many turns it serves within this process
     * before the store is asked again. 0 is 1. */
    unsigned fences;
    /* The rest is NULL where there is no store: the line is all.
     *
     * On failure `*store` is untouched and `error` says why. */
    enum lock_status (*open)(const struct lock_url *url, const struct lock_env *env, void **store,
                             char *error, size_t error_size);
    void (*close)(void *store);
    /* LOCK_OK; LOCK_BUSY: somebody else has it; LOCK_UNKNOWN, LOCK_UNAVAILABLE. Repeated with the same owner
     * after anything but LOCK_OK it goes on where it was: what an attempt with a lost reply was given is
     * found. */
    enum lock_status (*attempt)(void *store, struct lock_attempt *attempt);
    /* LOCK_OK, LOCK_NOT_OWNER, LOCK_UNKNOWN, LOCK_UNAVAILABLE. */
    enum lock_status (*release)(void *store, const char *key, const char *owner);
    /* The same for an attempt that is given up, whatever came of it: out of the store's line too. `until_ns`
     * as of a limit. NULL: what is not granted leaves nothing. Where there is a keeper it must be there. */
    enum lock_status (*withdraw)(void *store, const char *key, const char *owner, int64_t until_ns);
    /* The same answers; LOCK_OK moves the deadline. NULL where it cannot. */
    enum lock_status (*extend)(void *store, struct lock_grant *grant);
    /* The same answers: is it still there? NULL: losses are not looked for. */
    enum lock_status (*look)(void *store, const struct lock_grant *grant);
    /* The same for many, up to 64, in one call; NULL where it cannot. */
    void (*look_many)(void *store, const struct lock_grant grants[], enum lock_status statuses[],
                      size_t count);
};

extern const struct lock_backend lock_none, lock_local, lock_redis_owner, lock_redis_watchdog,
    lock_redis_get_set, lock_redis_setnx_expire, lock_redis_getset, lock_redis_set_del, lock_redis_timestamp,
    lock_redlock, lock_etcd_queue, lock_etcd_fixed_key, lock_etcd_rpc, lock_zookeeper;

#endif
