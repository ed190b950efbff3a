/* The background thread: one thread with its loop and its inventory for everything off the purchase path. It
 * carries out the steps of baskets and transfers, recovers what was left unfinished, expires holds, and keeps
 * the lock switch alive. So the loops of the workers, which are busy during a sale, neither delay it nor are
 * delayed by it. */
#ifndef SERVICE_BACKGROUND_BACKGROUND_H
#define SERVICE_BACKGROUND_BACKGROUND_H

#include <pthread.h>
#include <stdbool.h>
#include <uv.h>

#include "inventory/inventory.h"
#include "service/background/mailbox.h"
#include "service/metrics.h"

struct service;

struct background {
    struct service *service;
    pthread_t thread;
    uv_loop_t loop;
    struct mailbox mailbox;
    struct inventory *inventory; /* NULL after the drain */
    uv_timer_t housekeeping;     /* sweeps holds, recovers, and watches the drain */
    unsigned ticks;              /* of that timer */
    uv_timer_t heartbeat;        /* of the lock switch */
    int64_t time_asked_ns;       /* when the store was asked for its time; 0: it has answered */
    int recovering;              /* transactions in recovery */
    int claiming;                /* the size of the claim in flight; 0: there is none */
    bool more;                   /* the last claim was filled */
    int64_t drain_until_ms, leave_until_ms;
    uint64_t sold;      /* purchases sold, when they were counted last */
    int64_t counted_ns; /* when that was */
    bool buys;          /* it was a crowd's number */
    struct metrics metrics;
    struct inventory_metrics stock_metrics;
    uint64_t unkept_logged;
};

/* False on failure, with the reason in `error`. */
bool background_open(struct background *background, struct service *service, char *error, size_t error_size);
/* Claims transactions that a process left unfinished, and held baskets that are due, no more than
 * RECOVERY_MAX at a time, and finishes each by what the journal says. Called about twice a second, on
 * this thread. */
enum { RECOVERY_MAX = 16 };
void recovery_tick(struct background *background);

/* Starts its thread; false on failure. */
bool background_start(struct background *background);
/* To be called after service->draining was set. The thread ends after all workers; background_join() waits
 * for it. */
void background_drain(struct background *background);
void background_join(struct background *background);

#endif
