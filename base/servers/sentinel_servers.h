/* Real Redis Sentinels: one alone, or a group of three with the servers that they watch. */
#ifndef BASE_SERVERS_SENTINEL_SERVERS_H
#define BASE_SERVERS_SENTINEL_SERVERS_H

#include "base/servers/redis_server.h"

struct sentinel_watch {
    const char *name; /* of the master */
    int master_port;  /* on 127.0.0.1 */
    int quorum;       /* so many must agree that the master is down */
    int down_after_ms, failover_timeout_ms;
};

/* Starts one Sentinel; it makes `dir`. Returns before it answers. */
const char *sentinel_server_start(struct redis_server *sentinel, const char *dir,
                                  const struct sentinel_watch *watch);
/* Blocks until it answers. */
const char *sentinel_server_await(struct redis_server *sentinel);

enum { REDIS_SENTINELS = 3, REDIS_SENTINEL_SERVERS_MAX = 3 };

/* A master with one replica or two, and three Sentinels that watch them by the name `shop`. */
struct redis_sentinel {
    int count;
    struct redis_server server[REDIS_SENTINEL_SERVERS_MAX]; /* at first the first is the master */
    struct redis_server sentinel[REDIS_SENTINELS];
};

/* Starts the Sentinels; `count` servers run. They make their directories below `under`. Blocks until they
 * know the servers and each other. A failover takes about two seconds. */
const char *sentinel_servers_watch(struct redis_sentinel *all, const char *under);

#endif
