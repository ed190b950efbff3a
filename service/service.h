/* The service: what its threads share. What each of them owns is declared in the header of its unit. */
#ifndef SERVICE_SERVICE_H
#define SERVICE_SERVICE_H

#include <stdatomic.h>

#include "service/admin_token.h"
#include "service/background/background.h"
#include "service/background/blocking_pool.h"
#include "service/background/lock_switch.h"
#include "service/background/store_clock.h"
#include "service/background/store_health.h"
#include "service/config.h"
#include "service/worker.h"

struct service {
    struct config config;
    unsigned char admin_digest[ADMIN_DIGEST_SIZE];
    struct store_clock clock;
    struct lock_switch *lock_switch;
    struct pool *pool; /* for jobs that block */
    _Atomic bool draining;
    _Atomic int64_t crowd_until_ns; /* purchases go first until then; the background thread sets it */
    int worker_count;
    struct worker *workers;
    struct background background;
    struct store_health health;
    _Atomic bool put_back; /* a record of the journal was put back: the background thread is to compare the
                            * journal with the items */
};

/* Failpoints of transactions and locks, for tests (failpoint_hook.c). Called before and after each lock,
 * write and unlock of a transaction, with the name of the step, on the thread that does it. It is NULL here.
 * Tests link a seckilld with test/stops.c in place of failpoint_hook.c: that hook ends or stops the process
 * at a step. */
extern void (*const service_at_failpoint)(void *ctx, const char *step);

#endif
