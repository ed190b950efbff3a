/* The stock of an item in a Redis, as a shop keeps it that protects it with nothing but a lock: units left,
 * units sold, and the newest fencing token that was seen. seckilld keeps orders, too. */
#ifndef LOADTEST_LAB_STAGE_SHOP_STOCK_H
#define LOADTEST_LAB_STAGE_SHOP_STOCK_H

#include <stdbool.h>
#include <stdint.h>

#include "loadtest/lab/stage/lab_client_wire.h"

struct stock; /* a connection; of one thread */

enum stock_answer {
    STOCK_SOLD,
    STOCK_REFUSED, /* `reason` says why: "stale", "sold-out", "repeated", "no-replicas", "read-only", … */
    STOCK_UNKNOWN, /* sent, and no answer */
};

struct stock_state {
    int64_t initial, available, sold;
};

struct stock_sale {
    const char *item;
    enum stock_way way;
    int64_t quantity;
    int64_t left;     /* STOCK_COMPUTED: what is left after it */
    uint64_t fence;   /* fencing token: the sale is refused if a newer one was seen; 0: not checked */
    const char *once; /* idempotency key: the sale is refused if another had it; "": not checked */
};

/* Connects to a Redis on 127.0.0.1. NULL: it cannot be reached. */
struct stock *stock_open(int port);
void stock_close(struct stock *stock);

bool stock_put(struct stock *stock, const char *item, int64_t initial);

/* The stock remembers `fence` as the newest seen, so that no write with an older one overtakes what is
 * computed from this read. 0: none. */
bool stock_read(struct stock *stock, const char *item, uint64_t fence, struct stock_state *state);

/* `state` is what the stock said after the sale; it is set if the sale was made. `reason` has room for 32. */
enum stock_answer stock_sell(struct stock *stock, const struct stock_sale *sale, struct stock_state *state,
                             char reason[32]);

#endif
