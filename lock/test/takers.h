/* The clients of a lesson (takers), and its stage: one Redis, one clock that tests control, one key "k". */
#ifndef LOCK_TEST_TAKERS_H
#define LOCK_TEST_TAKERS_H

#include "lock/test/tools.h"

/* TTL_MS: no test takes so long; time passes where a test says so. */
enum { TTL_MS = 60000, SHORT_TTL_MS = 450 };

/* With a lock_open() and a connection of its own, so a process of its own, as far as the store can tell. */
struct taker {
    struct lock *lock;
    struct lock_grant grant;
    bool got;
    const char *point;                  /* the last that it came to */
    void (*meanwhile)(struct taker *i); /* what happens at the next point, once */
};

extern struct stage {
    struct redis_server redis;
    const char *variant;
    int port; /* where locks find it: the server's, or that of a proxy before it */
    _Atomic int64_t clock_ns;
} stage;

/* An empty store, and the clock at its beginning. */
void stage_begin(void);
/* The URL of a lock on it. */
const char *stage_url(const char *variant, int ttl_ms);
/* A time to live passes in the store; what has no end there stays. And by the clock too. */
void stage_expire(void);
void stage_time_passes(void);

/* False where it is refused; not closed by itself. */
bool taker_open_url(struct taker *taker, const char *url);
/* One of the stage's variant. */
void taker_open(struct taker *taker);
bool taker_try(struct taker *taker);
enum lock_status taker_release(struct taker *taker);
/* For lock_config.at_point. */
void taker_at_point(void *ctx, const char *point, const char *key);

#endif
