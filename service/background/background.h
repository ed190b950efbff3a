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

struct back {
    struct service *service;
    pthread_t thread;
    uv_loop_t loop;
    struct mailbox mailbox;
    struct inventory *inventory; /* NULL once the drain's time is up */
    uv_timer_t second;           /* sweeps holds, looks for what is unfinished, and watches the drain */
    unsigned ticks;              /* of that timer */
    uv_timer_t heart;            /* the domain's */
    int recovering;              /* deals that were left unfinished, under way */
    int claiming;                /* it looks for so many more; 0: it does not look now */
    bool more;                   /* last time there were as many as it looked for */
    int64_t drain_until_ms, leave_until_ms;
    uint64_t sold;      /* purchases, when they were counted last */
    int64_t counted_ns; /* which was then */
    bool buys;          /* there were many more than the time before */
    struct figures figures;
    struct inventory_figures stock_figures;
};

/* False on failure, with the reason in `error`. */
bool back_open(struct back *back, struct service *service, char *error, size_t error_size);
/* Starts its thread; false on failure. */
bool back_start(struct back *back);
/* After service->draining was set: has it notice. It ends after all workers; back_join() waits for that. */
void back_drain(struct back *back);
void back_join(struct back *back);

#endif
