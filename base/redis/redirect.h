/* What an error means for the call that met it, and how long the client waits before it tries again: one rule
 * for both drivers. Pure; the text may be garbage.
 *
 * | error                               | meaning           | what the driver does                          |
 * |-------------------------------------|-------------------|-----------------------------------------------|
 * | NOSCRIPT                            | REDIS_NO_SCRIPT   | sends the text of the script, then the call   |
 * | MOVED SLOT HOST:PORT                | REDIS_MOVED       | sends it there, and reads the map of slots    |
 * | ASK SLOT HOST:PORT                  | REDIS_ASK         | sends it there after ASKING, this time only   |
 * | TRYAGAIN, CLUSTERDOWN, LOADING      | REDIS_LATER       | of a cluster: sends it again after a pause    |
 * | READONLY, also within that of a     | REDIS_IS_REPLICA  | leaves the connection, since the name may     |
 * | script (Redis 6); MASTERDOWN        |                   | mean another server by now; of a cluster also |
 * |                                     |                   | as REDIS_LATER                                |
 * | any other                           | REDIS_REFUSED     | hands it to the caller                        |
 *
 * With each but the last the call was not carried out, so that it may be sent again. */
#ifndef BASE_REDIS_REDIRECT_H
#define BASE_REDIS_REDIRECT_H

#include "base/redis/slots.h"

enum redis_meaning {
    REDIS_REFUSED,
    REDIS_NO_SCRIPT,
    REDIS_MOVED,
    REDIS_ASK,
    REDIS_LATER,
    REDIS_IS_REPLICA,
};

struct redis_redirect {
    int slot;
    struct redis_address to;
};

/* `redirect` is set for REDIS_MOVED and REDIS_ASK alone, and may be NULL. An empty host there is `asked`. A
 * redirection that makes no sense is REDIS_REFUSED. */
enum redis_meaning redis_error_read(const char *error, const char *asked, struct redis_redirect *redirect);

/* ---- pauses ----
 *
 * Each is twice as long as the one before, up to a bound. Calls have jitter, so that all who wait for one
 * server do not come back at once. */

struct redis_backoff {
    int first_ms, last_ms;
};

/* Before the next attempt to connect; and before a call is sent again that a cluster has asked to come later,
 * or that no server could be sent. */
static const struct redis_backoff redis_backoff_connect = {20, 1000}, redis_backoff_call = {5, 160};

/* A call that is redirected is sent again at once so many times; then it pauses before it goes on. */
enum { REDIS_REDIRECTS_AT_ONCE = 5 };

/* The map of a cluster is read at least so long after the last reading; sooner while a master is gone, since
 * callers are waiting for its successor. */
enum { REDIS_MAP_AGE_MS = 1000, REDIS_MAP_AGE_GONE_MS = 500 };

/* The pause after `pause_ms`; the first one after 0. */
static inline int redis_backoff_next(const struct redis_backoff *backoff, int pause_ms) {
    if (pause_ms == 0)
        return backoff->first_ms;
    return 2 * pause_ms < backoff->last_ms ? 2 * pause_ms : backoff->last_ms;
}

/* From a half of the pause to one and a half, by a random number. */
static inline int redis_backoff_jitter(int pause_ms, uint32_t random) {
    return pause_ms / 2 + (int)(random % (uint32_t)pause_ms);
}

#endif
