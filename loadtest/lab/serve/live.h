/* Live plays: a sale in the ways that the user has chosen, and a lock that the user breaks. They are played
 * like scenarios, and end when their time is up or somebody stops them. */
#ifndef LOADTEST_LAB_SERVE_LIVE_H
#define LOADTEST_LAB_SERVE_LIVE_H

#include "loadtest/lab/scenarios/scenarios.h"
#include "loadtest/lab/serve/run_control.h"

/* What a live play finds in stage_ctx(). */
struct live {
    struct run_control *control;
    const struct run_order *order;
};

/* A way to sell: a strategy of seckilld, or its teaching strategy under a lock. */
struct live_way {
    const char *id; /* and the name of the item */
    const char *name, *about;
    bool safe; /* it does not oversell */
    const char *strategy;
    enum live_way_lock { LIVE_NO_LOCK, LIVE_REDIS_LOCK, LIVE_ETCD_LOCK, LIVE_ZOOKEEPER_LOCK } lock;
};

/* The last one has the `id` NULL. */
extern const struct live_way live_ways[];
extern const struct scenario live_sale;

enum { LIVE_STOCK_MAX = 100000, LIVE_BUYERS_MAX = 512, LIVE_SECONDS_MAX = 30 };

enum { LIVE_SERVERS = 3 };

struct lock_play;

/* A lock that the user can break. */
struct live_lock {
    const char *id, *name, *about;
    bool fence;                            /* its grants have a fencing token */
    bool clock;                            /* the clocks of its servers can be moved */
    const char *servers[LIVE_SERVERS + 1]; /* their names; NULL at the end */
    const char *master;                    /* the server that can be killed; NULL: none */
    /* Starts the servers, and watches whom they name as owner. */
    void (*start)(struct lock_play *play);
    void (*watch)(const struct lock_play *play);
};

/* The last one has the `id` NULL. */
extern const struct live_lock live_locks[];
extern const struct scenario live_lock_scenario;

/* The clients of a live lock; NULL at the end. */
extern const char *const live_clients[];

#endif
