/* The strategies, each a file with its table at the end, and the state that they keep between purchases. Each
 * member belongs to the file named above it. */
#ifndef INVENTORY_STRATEGIES_STRATEGIES_H
#define INVENTORY_STRATEGIES_STRATEGIES_H

#include "base/decimal.h"
#include "inventory/purchases/purchase.h"
#include "inventory/strategies/work_delay.h"

struct batch;
struct optimistic;

struct strategies {
    struct shared *shared;
    struct purchases *purchases;
    struct work_delay *work_delay; /* of `naive` and `locked` */

    /* batch.c */
    struct batch *spare_batches;
    /* The arguments of the call that is being sent: 3, and for each item 4 keys and 1, and for each purchase
     * 3. `texts` has its numbers and the fields of users. */
    const char *argv[SCRIPT_ARGV + 3 + (4 + 1 + 3) * INVENTORY_BATCH_MAX];
    char texts[(2 * DECIMAL_SIZE + INVENTORY_NAME_MAX + 2) * INVENTORY_BATCH_MAX];

    /* optimistic.c */
    struct optimistic *optimistic;
};

struct strategy {
    void (*start)(struct inventory_purchase *purchase);
};

extern const struct strategy strategy_batch, strategy_lua, strategy_decr, strategy_optimistic, strategy_naive,
    strategy_locked;

/* `batch`: sends what waits, as far as the flights allow. */
void batch_flush(struct strategies *strategies);
void batch_free_spares(struct strategies *strategies);

/* `optimistic`: ends purchases that have waited too long for a connection. */
void optimistic_tick(struct strategies *strategies);
/* Ends all its purchases, and closes the connections. */
void optimistic_close(struct strategies *strategies);

#endif
