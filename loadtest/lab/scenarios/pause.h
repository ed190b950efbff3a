/* The pause that every lock has in common: a holder is stopped beyond its lease, another sells meanwhile, and
 * the first wakes up and writes. */
#ifndef LOADTEST_LAB_SCENARIOS_PAUSE_H
#define LOADTEST_LAB_SCENARIOS_PAUSE_H

#include "loadtest/lab/scenarios/cast.h"

/* The cast has its lock. `observe` begins to watch the lock's server; it is called when the play has begun.
 */
void pause_holder(struct cast *cast, void (*observe)(struct cast *cast));

/* For a lock that is kept beside the stock. */
void pause_observe_redis(struct cast *cast);

#endif
