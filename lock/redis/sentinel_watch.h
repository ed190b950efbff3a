/* A thread that asks the Sentinels again and again while a connection is in use: the old master of a failover
 * takes commands for another ten seconds. Not for users. */
#ifndef LOCK_REDIS_SENTINEL_WATCH_H
#define LOCK_REDIS_SENTINEL_WATCH_H

#include "lock/redis/connection.h"

struct redis_sentinel_watch;

/* The connection follows what the Sentinels say; `on_changed` is called when they say something new. A
 * Sentinel that does not answer within `timeout_ms` is passed over. NULL when out of memory, or of threads.
 */
struct redis_sentinel_watch *redis_sentinel_watch_start(const struct redis_url *url, int timeout_ms,
                                                        struct redis_connection *connection,
                                                        void (*on_changed)(void *ctx), void *ctx);
/* NULL does nothing. */
void redis_sentinel_watch_stop(struct redis_sentinel_watch *watch);

#endif
