/* The back office: one thread with its loop and its inventory for all that is not on the way of a purchase:
 * the steps of baskets and transfers, what was left unfinished, holds that are due, and the lock in force. So
 * the workers' loops, which are busy when a sale is on, neither delay it nor are delayed by it. */
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
    struct inventory *inventory; /* NULL once the drain's time is up */
    uv_timer_t housekeeping;     /* sweeps holds, looks for what is unfinished, and watches the drain */
    unsigned ticks;              /* of that timer */
    uv_timer_t heartbeat;        /* the lock_switch's */
    int recovering;              /* transactions that were left unfinished, under way */
    int claiming;                /* it looks for so many more; 0: it does not look now */
    bool more;                   /* last time there were as many as it looked for */
    int64_t drain_until_ms, leave_until_ms;
    uint64_t sold;      /* purchases, when they were counted last */
    int64_t counted_ns; /* which was then */
    bool buys;          /* there were many more than the time before */
    struct metrics metrics;
    struct inventory_metrics stock_metrics;
};

/* False on failure, with the reason in `error`. */
bool background_open(struct background *background, struct service *service, char *error, size_t error_size);
/* Starts its thread; false on failure. */
bool background_start(struct background *background);
/* After service->draining was set: has it notice. It ends after all workers; background_join() waits for
 * that. */
void background_drain(struct background *background);
void background_join(struct background *background);

#endif
