/* The work delay of lessons: a pause between a read and the write that follows from it, as long as a payment
 * call would take (config.work_delay_ms). */
#ifndef INVENTORY_STRATEGIES_WORK_DELAY_H
#define INVENTORY_STRATEGIES_WORK_DELAY_H

#include "inventory/context.h"

struct delayed {
    struct delayed *next;
    int64_t due_ms;
    void (*fn)(void *ctx, bool closing);
    void *ctx;
};

/* Calls `fn` when the delay is over, at once if there is none. `closing`: the inventory was closed before. */
void work_delay_begin(struct inventory *inventory, struct delayed *delayed,
                      void (*fn)(void *ctx, bool closing), void *ctx);
/* Ends all delays, with `closing`. */
void work_delay_close(struct inventory *inventory);

#endif
