/* Asks Sentinels where the master is (election.h): before each connection, and once a second while one is up.
 *
 * All are asked at once, and all are heard, since one may be the first to know of a failover. One that did
 * not answer in time is asked again each time, but not waited for until it has answered: otherwise one that
 * hangs would make each search as long as an outage. A connection that is up stays so until the Sentinels
 * name another master. That the server found is a master is checked by INFO replication (connection.h). */
#ifndef BASE_REDIS_ASYNC_SENTINELS_H
#define BASE_REDIS_ASYNC_SENTINELS_H

#include "base/redis/async/connection.h"

struct sentinels;

/* NULL when out of memory. `url` and `clock` must outlive it. A Sentinel that does not answer within
 * `timeout_ms` is silent. */
struct sentinels *sentinels_open(uv_loop_t *loop, const struct redis_url *url, const struct clock *clock,
                                 int timeout_ms);

/* Looks the master up for a connection: `find` of struct redis_config. Always for the same one, which is
 * broken later if the Sentinels name another master. */
void sentinels_find(struct sentinels *sentinels, struct redis *redis);

/* Ends a search without an answer. The memory goes when the loop has run once more. NULL does nothing. */
void sentinels_close(struct sentinels *sentinels);

#endif
