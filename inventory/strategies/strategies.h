/* The strategies: how each starts a purchase, the state that they keep between purchases, and what those
 * without a script share. */
#ifndef INVENTORY_STRATEGIES_STRATEGIES_H
#define INVENTORY_STRATEGIES_STRATEGIES_H

#include "base/decimal.h"
#include "inventory/purchases/purchases.h"

/* ---- lessons/naive.c: the work delay of lessons, a pause between a read and the write that follows from it,
 * as long as a payment call (config.work_delay_ms) ---- */

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

/* ---- the state: each group of members belongs to the file named above it ---- */

struct batch;
struct optimistic;

struct strategies {
    struct shared *shared;
    struct purchases *purchases;

    /* lessons/naive.c */
    struct work_delay work_delay;

    /* batch.c */
    struct batch *spare_batches;
    /* The call that is being sent: 3 arguments, for each item 4 keys and 1 argument, for each purchase 3
     * arguments. `texts` has its numbers and the fields of users. */
    const char *argv[SCRIPT_ARGV + 3 + (4 + 1 + 3) * INVENTORY_BATCH_MAX];
    char texts[(2 * DECIMAL_SIZE + INVENTORY_USER_MAX + 2) * INVENTORY_BATCH_MAX];

    /* optimistic.c */
    struct optimistic *optimistic;
};

/* Each starts a purchase. batch_start_alone() is the strategy `lua`, naive_start_locked() is `locked`; the
 * others are the strategies of their names. */
void batch_start(struct inventory_purchase *purchase);
void batch_start_alone(struct inventory_purchase *purchase);
void decr_start(struct inventory_purchase *purchase);
void optimistic_start(struct inventory_purchase *purchase);
void naive_start(struct inventory_purchase *purchase);
void naive_start_locked(struct inventory_purchase *purchase);

/* `batch`: sends what waits, as far as the flights allow. */
void batch_flush(struct strategies *strategies);
void batch_free_spares(struct strategies *strategies);

/* `optimistic`: ends purchases that have waited too long for a connection. */
void optimistic_tick(struct strategies *strategies);
/* Ends all its purchases, and closes the connections. */
void optimistic_close(struct strategies *strategies);

/* ---- client_side.c: the calls of strategies that read and write step by step, which is their flaw ---- */

typedef void client_next_fn(struct inventory_purchase *purchase, enum inventory_status status);

/* What was read for a purchase; purchase->read points to it. */
struct client_read {
    struct router *store;
    struct redis *redis; /* a connection of `store`, for calls that must stay together; NULL: any will do */
    client_next_fn *next;
    bool moved;                   /* the item has another strategy now */
    bool slot_moved;              /* the connection's server does not have the item any more */
    bool fenced;                  /* the fencing token is checked, so fenced.lua writes */
    int parts;                    /* replies to the read that came */
    int pending;                  /* replies to the write still to come, and 1 until all calls are sent */
    enum inventory_status status; /* of the replies that came */
    struct delayed delayed;
    int64_t now_ms; /* by the store's clock */
    struct inventory_item item;
    int64_t had; /* units of the user */
    enum inventory_strategy begun_as;
    char order[RECORD_SIZE];  /* the record of the key's order, or "" */
    char record[RECORD_SIZE]; /* the order to write */
};

/* Reads the item, the key's order and the user's units, then calls `next`: OK, REPLAYED (there is an order),
 * or the reason for a refusal. With `decr`, OK does not mean that enough units are left: the debit tells.
 * `redis` is the connection to read over, of the router `store`. Both NULL: any connection of the inventory's
 * own will do. */
void client_read_begin(struct inventory_purchase *purchase, struct router *store, struct redis *redis,
                       enum inventory_strategy strategy, client_next_fn *next);
/* A call like redis_callf(), over read->redis or read->store. */
void client_callf(struct inventory_purchase *purchase, redis_reply_fn *fn, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Ends the purchase with this status, or starts it again if the item has another strategy now. */
void client_read_finish(struct inventory_purchase *purchase, enum inventory_status status);
/* Queues the writes of a sale that leaves `available` units. This call and the next add to read->pending the
 * replies that `fn` will get. */
void client_write(struct inventory_purchase *purchase, redis_reply_fn *fn, int64_t available);
/* Queues the entries that follow from an order: the event, and the hold. */
void client_write_entries(struct inventory_purchase *purchase, redis_reply_fn *fn);
/* Prints the order to write into read->record. */
void client_print_record(struct inventory_purchase *purchase);
/* When the hold of the order would end; 0: there is none. */
int64_t client_expires_ms(const struct client_read *read);

/* ---- fenced.lua: read and write under a lock; each is refused if a newer fencing token was seen. Where
 * tokens are checked, client_read_begin() reads by it. ---- */

/* Sends the write of read->record. */
void fenced_send_write(struct inventory_purchase *purchase, int64_t expires_ms, redis_reply_fn *fn);
/* Reads the reply to either call: OK; REPLAYED (fills in read->order); SOLD_OUT (fills in read->available);
 * LIMIT, STALE, UNKNOWN_ITEM; or as store_status(). With OK, the reply to the read is {word, what item_read()
 * reads, the user's units, the store's time}. */
enum inventory_status fenced_decode(struct inventory_purchase *purchase, const struct redis_value *value);

#endif
