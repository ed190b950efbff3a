/* The work delay of lessons: a pause between a read and the write that follows from it, as long as a payment
 * call (config.work_delay_ms). */
#ifndef INVENTORY_STRATEGIES_WORK_DELAY_H
#define INVENTORY_STRATEGIES_WORK_DELAY_H

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "base/clock.h"

struct delayed {
    struct delayed *next;
    int64_t due_ms;
    void (*fn)(void *ctx, bool closing);
    void *ctx;
};

struct work_delay {
    int ms;
    const struct clock *clock;
    struct delayed *first, *last; /* the first ends first */
    uv_timer_t timer;
};

void work_delay_init(struct work_delay *delay, uv_loop_t *loop, const struct clock *clock, int ms);
/* Calls `fn` when the delay is over; from within if there is no delay. `closing`: the inventory was closed
 * before. */
void work_delay_begin(struct work_delay *delay, struct delayed *delayed, void (*fn)(void *ctx, bool closing),
                      void *ctx);
/* Ends all delays, with `closing`. The caller closes the timer. */
void work_delay_end(struct work_delay *delay);

#endif
