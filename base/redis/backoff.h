/* How long the client waits before it tries again: one table for both drivers. Pure.
 *
 * Each pause is twice as long as the one before, up to a bound. Calls have jitter, so that all who wait for
 * one server do not come back at once. */
#ifndef BASE_REDIS_BACKOFF_H
#define BASE_REDIS_BACKOFF_H

#include <stdint.h>

struct redis_backoff {
    int first_ms, last_ms;
};

/* Before the next attempt to connect; and before a call is sent again that a cluster has asked to come later
 * (redirect.h), or that no server could be sent. */
static const struct redis_backoff redis_backoff_connect = {20, 1000}, redis_backoff_call = {5, 160};

/* A call that is redirected is sent again at once so many times; then it pauses before it goes on. */
enum { REDIS_REDIRECTS_AT_ONCE = 5 };

/* The map of a cluster is read at least so long after the last reading; sooner while a master is gone, since
 * who calls waits for its successor. */
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
