/* What all threads of the service share. */
#ifndef SERVICE_SERVICE_H
#define SERVICE_SERVICE_H

#include <stdatomic.h>

#include "inventory/inventory.h"
#include "service/background/background.h"
#include "service/background/blocking_pool.h"
#include "service/background/lock_switch.h"
#include "service/background/store_clock.h"
#include "service/background/store_health.h"
#include "service/config.h"

struct worker;

struct service {
    struct config config;
    unsigned char admin_digest[32];
    struct store_clock clock;
    struct lock_switch *lock_switch;
    struct pool *pool; /* for jobs that block */
    _Atomic bool draining;
    _Atomic int64_t crowd_until_ns; /* purchases go first until then; the background thread sets it */
    _Atomic int running;            /* workers that have not ended */
    int worker_count;
    struct worker *workers;
    struct background background;
    struct health health;
    _Atomic bool put_back; /* a record of the journal was: the background compares it with the items */
};

/* Logs that a failover may have lost more than a thread has kept, if that was counted since it was `logged`.
 */
void service_log_unkept(uint64_t unkept, uint64_t *logged);

/* How a thread opens its inventory. */
struct inventory_config service_inventory_config(struct service *service, struct inventory_metrics *metrics);

#endif
