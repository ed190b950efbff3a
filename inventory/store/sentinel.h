/* Asks Sentinels where the master is, before each connection and once a second while one is up.
 *
 * A Sentinel may not have heard of a failover yet. So all are asked at once, and of those that answer in time
 * the one with the highest config epoch counts, which Sentinels count failovers by. One that did not answer
 * in time is asked again each time, but not waited for until it has answered: otherwise one that hangs would
 * make each search as long as an outage. While one of them is replacing the master, no master is found: the
 * old one may be back, and takes writes that its successor will not have. A connection that is up stays so
 * until the Sentinels name another master. That the server found is a master is checked by INFO replication
 * (redis.h). */
#ifndef INVENTORY_STORE_SENTINEL_H
#define INVENTORY_STORE_SENTINEL_H

#include "base/redis_url.h"
#include "inventory/store/redis.h"

struct sentinel;

/* NULL when out of memory. `url` and `clock` must outlive it. A Sentinel that does not answer within
 * `timeout_ms` is silent. */
struct sentinel *sentinel_open(uv_loop_t *loop, const struct redis_url *url, const struct clock *clock,
                               int timeout_ms);

/* Looks the master up for a connection: `find` of struct redis_config. Always for the same one, which is
 * broken later if the Sentinels name another master. */
void sentinel_find(struct sentinel *sentinel, struct redis *redis);

/* Ends a search without an answer. The memory goes when the loop has run once more. NULL does nothing. */
void sentinel_close(struct sentinel *sentinel);

#endif
