/* A thread that asks the Sentinels again and again while a connection is in use: the old master of a failover
 * takes commands for another ten seconds. */
#ifndef BASE_REDIS_BLOCKING_SENTINEL_WATCH_H
#define BASE_REDIS_BLOCKING_SENTINEL_WATCH_H

#include "base/redis/blocking/connection.h"

struct redis_sentinel_watch;

/* The connection follows what the Sentinels say; `on_changed` is called when they say something new. The
 * thread does not wait for a Sentinel that takes longer than `timeout_ms`. NULL when out of memory, or of
 * threads. */
struct redis_sentinel_watch *redis_sentinel_watch_start(const struct redis_url *url, int timeout_ms,
                                                        struct redis_connection *connection,
                                                        void (*on_changed)(void *ctx), void *ctx);
/* NULL does nothing. */
void redis_sentinel_watch_stop(struct redis_sentinel_watch *watch);

#endif
