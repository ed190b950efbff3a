/* A real Redis Cluster: masters, and behind them as many replicas of each as asked for. */
#ifndef BASE_SERVERS_CLUSTER_SERVERS_H
#define BASE_SERVERS_CLUSTER_SERVERS_H

#include "base/servers/redis_server.h"

enum { REDIS_CLUSTER_MAX = 12 };

struct redis_cluster {
    int masters, count;
    struct redis_server server[REDIS_CLUSTER_MAX]; /* replica i of master m: masters * (1 + i) + m */
    char under[LOCAL_SERVER_DIR_SIZE];             /* where the servers have their directories */
    const struct redis_server_clock *clock;
    const char *const *options; /* of each server, see redis_server_start() */
};

/* Starts the servers with `under`, `clock` and `options` as they are set in `cluster`. Blocks until all know
 * each other and all slots are served. A slot is served also while another one is not, and a failover takes
 * about two seconds. Where it fails, `count` is the number of servers whose `proc` may run. */
const char *cluster_servers_start(struct redis_cluster *cluster, int masters, int replicas);
/* Adds a master without slots to a cluster without replicas: server[count - 1]. Blocks until all know it. */
const char *cluster_servers_add(struct redis_cluster *cluster);

#endif
