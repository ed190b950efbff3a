/* What the layer (lock.c) and a backend know of each other. Not for users.
 *
 * A backend makes one attempt, gives back, extends. The layer has what is the same for all: keys and URLs,
 * the line of those who wait in this process, deadlines, cancelling, many keys, metrics. Each backend is one
 * file with its table at the end. */
#ifndef LOCK_BACKEND_H
#define LOCK_BACKEND_H

#include "lock/lock.h"
#include "lock/url.h"

/* Time and chance as the user gave them, or the machine's. */
struct lock_env {
    int64_t (*now_ns)(void *ctx);
    uint64_t (*random)(void *ctx);
    void (*at_point)(void *ctx, const char *point, const char *key); /* never NULL */
    void *ctx;
};

struct lock_backend {
    const char *scheme, *variant; /* `variant` is "" where the scheme has but one */
    const char *flaw;             /* what goes wrong with it, for those who list the locks */
    unsigned caps;
    bool teaches;  /* wrong on purpose: refused unless asked for */
    bool lines_up; /* of this process only the first in line goes to the store */
    /* The rest is NULL where there is no store: the line is all.
     *
     * On failure `*store` is untouched and `error` says why. */
    enum lock_status (*open)(const struct lock_url *url, const struct lock_env *env, void **store,
                             char *error, size_t error_size);
    void (*close)(void *store);
    /* One attempt for `grant`, whose key and owner are set; fills in the fence and the deadline. LOCK_BUSY:
     * somebody else has it. */
    enum lock_status (*attempt)(void *store, struct lock_grant *grant);
    enum lock_status (*release)(void *store, const struct lock_grant *grant);
    /* NULL where it cannot. */
    enum lock_status (*extend)(void *store, struct lock_grant *grant);
};

extern const struct lock_backend lock_none, lock_local;

#endif
