/* Where the master is: at the first server of a URL, or where its Sentinels say (base/redis/election.h). */
#ifndef BASE_REDIS_BLOCKING_SENTINELS_H
#define BASE_REDIS_BLOCKING_SENTINELS_H

#include <hiredis/hiredis.h>
#include <stddef.h>

#include "base/redis/election.h"
#include "base/redis/url.h"

/* What the Sentinels say; all 0 before they are asked for the first time. */
struct redis_named {
    struct redis_target master;     /* with the URL's account. If none is named: the server asked last */
    struct redis_election election; /* kept from one time to the next */
    int64_t asked_epoch; /* election.epoch when they were asked. A connection that has heard of a newer
                            failover since does not believe this answer */
};

/* Asks all Sentinels at once, each in a thread of its own. Blocks for `timeout_ms` at most, whatever single
 * Sentinels do, and for the look-up of their names. False: no master is named, and `error` says why. */
bool redis_master_ask(const struct redis_url *url, int timeout_ms, struct redis_named *named, char *error,
                      size_t error_size);

/* As redis_dial(), to the master. A server that Sentinels name must say itself that it is a master.
 * `named->master` is the server that was reached, or the one that could not be. */
redisContext *redis_master_dial(const struct redis_url *url, int timeout_ms, struct redis_named *named,
                                char *error, size_t error_size);

#endif
