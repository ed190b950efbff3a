/* Asks Sentinels where the master is: one after the other, from the one that answered last. It looks the
 * master up before each connection; that the server found is a master still is checked by ROLE (redis.h). */
#ifndef INVENTORY_STORE_SENTINEL_H
#define INVENTORY_STORE_SENTINEL_H

#include "base/redis_url.h"
#include "inventory/store/redis.h"

struct sentinel;

/* NULL when out of memory. `url` and `clock` must outlive it. A Sentinel that does not answer within
 * `timeout_ms` is passed over. */
struct sentinel *sentinel_open(uv_loop_t *loop, const struct redis_url *url, const struct clock *clock,
                               int timeout_ms);

/* Looks the master up for a connection: `find` of struct redis_config. One search at a time. */
void sentinel_find(struct sentinel *sentinel, struct redis *redis);

/* Ends a search without an answer. The memory goes when the loop has run once more. NULL does nothing. */
void sentinel_close(struct sentinel *sentinel);

#endif
