/* The background thread, and the recovery of what was left unfinished (recovery.c). */
#ifndef SERVICE_BACKGROUND_BACKGROUND_H
#define SERVICE_BACKGROUND_BACKGROUND_H

#include "service/loop_thread.h"

/* A loop thread for everything off the purchase path. It carries out the steps of baskets and transfers,
 * recovers what was left unfinished, expires holds, and keeps the lock switch alive. So the loops of the
 * workers, which are busy during a sale, neither delay it nor are delayed by it. */
struct background {
    struct loop_thread thread;
    unsigned ticks;         /* of its housekeeping */
    uv_timer_t heartbeat;   /* of the lock switch */
    int64_t time_asked_ns;  /* when the store was asked for its time; 0: it has answered */
    int recovering;         /* transactions in recovery */
    int claiming;           /* the size of the claim in flight; 0: there is none */
    bool more;              /* the last claim was filled */
    int64_t leave_until_ms; /* by uv_now(): see background_leave_lock_switch() */
    uint64_t sold;          /* purchases sold, when they were counted last */
    int64_t counted_ns;     /* when that was */
    bool buys;              /* so many were sold that they made a crowd */
};

/* False on failure, with the reason in `error`. Its thread ends after all workers. */
bool background_open(struct background *background, struct service *service, char *error, size_t error_size);

/* The limit of the blocking pool, see pool_open(). `ctx` is the service. */
enum { BACKGROUND_POOL_THREADS = 32 };
int background_pool_limit(void *ctx);

/* Claims transactions that a process left unfinished, and held baskets that are due, no more than
 * RECOVERY_MAX at a time, and finishes each by what the journal says. Called about twice a second, on the
 * background thread. */
enum { RECOVERY_MAX = 16 };
void recovery_tick(struct background *background);

#endif
