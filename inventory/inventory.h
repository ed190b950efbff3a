/* libinventory: the stock of a sale, kept in Redis, sold atomically.
 *
 * A `struct inventory` belongs to one thread and its libuv loop: every call and every callback happens there.
 * Many inventories, in many processes, sell the same stock. The library does not log or exit. It does not
 * block, except for the DNS look-up of a host name when it connects.
 *
 * Promises of the strategies `batch` and `lua`, and of `locked` with a fence, whatever fails:
 *   initial + restocked = available + held + sold, at every moment;
 *   every held or sold unit has exactly one order, written in the same step;
 *   one key has at most one order of an item, and each answer to that key tells of this order.
 *
 * Baskets, transfers and the lock epoch are in transactions.h. */
#ifndef INVENTORY_INVENTORY_H
#define INVENTORY_INVENTORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>
#include <uv.h>

#include "base/clock.h"

enum {
    INVENTORY_NAME_MAX = 64,     /* longest item */
    INVENTORY_USER_MAX = 128,    /* longest user */
    INVENTORY_KEY_MAX = 255,     /* longest idempotency key */
    INVENTORY_PAYMENT_MAX = 128, /* longest reference of a payment */
    INVENTORY_QUANTITY_MAX = 1000,
    INVENTORY_DIGEST_SIZE = 23, /* a key's digest with its NUL */
    INVENTORY_ORDER_SIZE = INVENTORY_NAME_MAX + 1 + INVENTORY_DIGEST_SIZE,
    INVENTORY_STOCK_MAX = 1000000000,
    /* A hold expires by itself only this long after it was due, since a confirm that came in time may still
     * be on its way. */
    INVENTORY_HOLD_GRACE_MS = 500,
};

/* If there are several reasons to refuse a purchase, or a line of a basket, every strategy names the first of
 * these: UNKNOWN_ITEM, NOT_STARTED, ENDED, SOLD_OUT, LIMIT. */
enum inventory_status {
    INVENTORY_OK,
    INVENTORY_REPLAYED,    /* done before, by the same key: this is what was done, as it is now */
    INVENTORY_SOLD_OUT,    /* fewer units are left than wanted */
    INVENTORY_LIMIT,       /* the user would have more than the item allows */
    INVENTORY_NOT_STARTED, /* before the sale's start */
    INVENTORY_ENDED,       /* after its end */
    INVENTORY_UNKNOWN_ITEM,
    INVENTORY_UNKNOWN_ORDER,
    INVENTORY_UNKNOWN_BASKET,
    INVENTORY_OF_BASKET, /* the order is a line of a held basket, which is confirmed or cancelled as a whole
                          */
    INVENTORY_PENDING,   /* the transaction is in flight, or was left unfinished: repeat it under its locks */
    INVENTORY_CROSS_SLOT, /* the items lie in several slots of a cluster, which no script reaches at once */
    INVENTORY_EXISTS,     /* the item exists on other terms */
    INVENTORY_KEY_REUSED, /* the key belongs to another request */
    INVENTORY_TOO_MANY,   /* the stock would pass INVENTORY_STOCK_MAX */
    INVENTORY_CONFIRMED,  /* cannot cancel: it was confirmed first */
    INVENTORY_CANCELLED,  /* cannot confirm: it was cancelled first */
    INVENTORY_EXPIRED,    /* cannot do either: the hold ran out first */
    INVENTORY_IN_PAYMENT, /* the buyer cannot cancel while the order is being paid */
    INVENTORY_PAYMENT_DIFFERS, /* the order has another payment, or was confirmed without one */
    INVENTORY_PAY_TOO_LONG,    /* more than the item's pay_ms */
    INVENTORY_OVER_RETURN,     /* fewer units are left to return */
    INVENTORY_WANTS_LOCK,      /* acquire the locks of its items, and call again with `locked` set */
    INVENTORY_REFUSED,         /* the strategy is for lessons, and teaching mode is off */
    INVENTORY_STALE,           /* a newer fencing token was seen; nothing was done */
    INVENTORY_OVERLOADED,      /* too many wait already; nothing was done */
    INVENTORY_UNAVAILABLE,     /* the store cannot be used; nothing was done */
    INVENTORY_UNKNOWN,         /* sent, no reply: it may have been done. Repeat it with the same key */
};

/* How an item is sold. docs/sell.md says what is wrong with each. */
enum inventory_strategy {
    INVENTORY_BATCH,      /* one script call for all purchases that wait (group commit) */
    INVENTORY_LUA,        /* one script call a purchase */
    INVENTORY_DECR,       /* decrement, refund if the result is negative */
    INVENTORY_OPTIMISTIC, /* WATCH, MULTI, EXEC */
    INVENTORY_NAIVE,      /* read, compare, write: oversells. For lessons */
    INVENTORY_LOCKED,     /* the same under a lock that the caller holds. For lessons */
    INVENTORY_STRATEGIES
};

const char *inventory_strategy_name(enum inventory_strategy strategy);
/* False if no strategy has this name; `strategy` is untouched then. */
bool inventory_strategy_find(const char *name, enum inventory_strategy *strategy);
/* Whether it is for lessons, and needs teaching mode. */
bool inventory_strategy_teaches(enum inventory_strategy strategy);

/* An item: 1 to 64 of A-Z a-z 0-9 . _ - */
bool inventory_name_valid(const char *name, size_t length);
/* A user: 1 to 128 of these and @ : | + = ~ (addresses, and the subjects of login providers). */
bool inventory_user_valid(const char *user, size_t length);
/* The reference of a payment: 1 to 128 visible ASCII characters. */
bool inventory_payment_valid(const char *payment, size_t length);

struct inventory;

/* What a failover of the store lost, and what became of it. */
enum inventory_loss_kind {
    INVENTORY_LOST_ITEM,
    INVENTORY_LOST_MOVE, /* units that a restock, a transfer or a return added or took */
    INVENTORY_LOST_ORDER,
    INVENTORY_LOST_TRANSACTION
};

enum inventory_loss_outcome {
    INVENTORY_LOSS_NONE,         /* it stands */
    INVENTORY_LOSS_BACK,         /* it was put back */
    INVENTORY_LOSS_SHORT,        /* its units were sold again, or its user has others now */
    INVENTORY_LOSS_NOTED,        /* the same, and another process has reported it */
    INVENTORY_LOSS_UNKNOWN_ITEM, /* its item is lost too */
    INVENTORY_LOSS_DIFFERS,      /* something else was acknowledged since, and stands */
    /* Both attempts stand: the transfer's units were sold before one attempt could be undone. */
    INVENTORY_LOSS_TWICE,
    /* It stands, but its basket or transfer is lost. Only an audit finds this. */
    INVENTORY_LOSS_UNKNOWN_TRANSACTION,
    INVENTORY_LOSS_OUTCOMES
};

struct inventory_loss {
    enum inventory_loss_kind kind;
    const char *item; /* "" for a transaction */
    const char *name; /* the digest of the order, restock or transfer; the transaction; "" for an item */
    enum inventory_loss_outcome outcome;
};

struct inventory_config {
    const char *redis_url;
    const struct clock *clock; /* its wall time is the store's; must outlive the inventory */
    int call_timeout_ms;       /* after this time a store call without a reply is given up as UNKNOWN */
    int resolve_ms;            /* how long the store is asked about a purchase whose reply was lost */
    int queue_max;             /* purchases and transactions in flight; more are INVENTORY_OVERLOADED */
    int work_delay_ms;         /* `naive` and `locked`: between read and write */
    bool teaching;
    bool fencing; /* check fencing tokens; off for lessons only */
    /* How many replicas must have all that an answer tells of before it is given; 0: the master is enough.
     * With fewer replicas the store is unavailable. */
    int replicas;
    bool events; /* write the event stream: every change of an order, and every restock */
    /* Called at each failpoint: before and after each write of a transaction, and at each step by which a
     * hold enters or leaves the index of due times. Tests stop or end the process there. May be NULL. */
    void (*at_failpoint)(void *ctx, const char *name);
    void *at_failpoint_ctx;
    /* Called for each thing that this inventory had acknowledged and a failover of the store lost. May be
     * NULL. */
    void (*on_loss)(void *ctx, const struct inventory_loss *loss);
    void *on_loss_ctx;
    struct inventory_metrics *metrics; /* to count in, must outlive the inventory; NULL: nobody reads them */
};

/* NULL on failure, with the reason in `error`. Does not wait for the connection. */
struct inventory *inventory_open(uv_loop_t *loop, const struct inventory_config *config, char *error,
                                 size_t error_size);

/* Answers everything in flight (UNKNOWN or UNAVAILABLE) before it returns. The loop must run once more
 * afterwards. */
void inventory_close(struct inventory *inventory);

/* Sends what was submitted in this turn of the loop, and what waited for a reply that came in it. Call it
 * once at the end of each turn: what comes in one turn leaves in one call. */
void inventory_flush(struct inventory *inventory);

bool inventory_is_up(const struct inventory *inventory);

/* Prepares for inventory_close(). Call it again and again, with nothing in flight, until it is true. Then all
 * that was acknowledged is on replicas that could be promoted, or the store has no replicas; and after a
 * failover no other inventory waits for this one. `open`: how much is on no replica yet. */
bool inventory_drain(struct inventory *inventory, int *open);

/* Whether a server of the store was reached that is not sold from yet, since it is still getting back what a
 * failover may have lost. */
bool inventory_is_mending(const struct inventory *inventory);

/* The last reason why the store could not be used; "" if there was none. */
const char *inventory_last_error(const struct inventory *inventory);

/* ---- orders ---- */

enum inventory_state {
    INVENTORY_STATE_HELD,
    INVENTORY_STATE_PAYING, /* held, and the buyer has begun to pay */
    INVENTORY_STATE_CONFIRMED,
    INVENTORY_STATE_RETURNED, /* confirmed, and all units were returned */
    INVENTORY_STATE_CANCELLED,
    INVENTORY_STATE_EXPIRED,
    INVENTORY_STATE_ABORTED, /* a line of a basket that failed: it never was an order */
    INVENTORY_STATES
};

const char *inventory_state_name(enum inventory_state state);

struct inventory_order {
    char id[INVENTORY_ORDER_SIZE]; /* ITEM:DIGEST */
    char item[INVENTORY_NAME_MAX + 1];
    char user[INVENTORY_USER_MAX + 1];
    int64_t quantity;
    enum inventory_state state;
    int64_t version;    /* counts its changes, from 1 */
    int64_t created_ms; /* by the store's clock */
    int64_t expires_ms; /* of the hold, also after it was settled; 0: there was no hold */
    int64_t settled_ms; /* when it was confirmed, cancelled or expired; 0: it was born confirmed,
                         * or is not settled yet */
    int64_t returned;   /* units that were returned after it was confirmed */
    bool late;          /* it had expired, and a late confirm took its units again */
    bool refund_due;    /* a confirm was refused for good: its payment is to be refunded */
    char basket[INVENTORY_DIGEST_SIZE];      /* the basket whose line it is; "": none */
    char payment[INVENTORY_PAYMENT_MAX + 1]; /* its reference; "": none was named */
    /* The order's basket is held, or not decided yet, so its units count as held.
     * inventory_transaction_find() tells the basket's state. */
    bool pending;
};

/* ---- purchases ---- */

/* A fencing token goes with each write under a lock. The store refuses the write (STALE) once it has seen a
 * newer token for the item. Tokens are compared by epoch, then by fence. */
struct inventory_fencing_token {
    uint64_t epoch; /* the lock epoch, see transactions.h */
    uint64_t fence; /* of the grant: grows from one grant to the next; 0: this lock has no fence */
};

/* Lives in the caller's memory, which must stay where it is until `done`. */
struct inventory_purchase {
    /* Filled in by the caller: */
    char item[INVENTORY_NAME_MAX + 1];
    char user[INVENTORY_USER_MAX + 1];
    char digest[INVENTORY_DIGEST_SIZE]; /* by inventory_key_digest() */
    int64_t quantity;
    bool locked;                          /* the caller holds the item's lock */
    struct inventory_fencing_token token; /* of that grant; without a fence only the read checks its epoch */
    /* Called exactly once, perhaps from within inventory_purchase_begin(). */
    void (*done)(struct inventory_purchase *purchase, enum inventory_status status);

    /* Filled in before `done`: */
    struct inventory_order order; /* with OK; with REPLAYED, as it is now */
    int64_t available;            /* with SOLD_OUT */

    /* The inventory's own: */
    struct purchases *purchases;
    struct strategies *strategies;
    STAILQ_ENTRY(inventory_purchase) next;
    struct item *in;
    int64_t sent_ms; /* by this process's clock, when it was sent last */
    int64_t deadline_ms;
    struct client_read *read;
    unsigned history; /* the server's, if the purchase has a connection of its own; 0: the store knows */
};

/* The digest is what the store keeps of an idempotency key: 128 bits of BLAKE2b of user, NUL and key, in
 * base64url, 22 characters. So a long key costs no memory, an order's id, which contains the digest, is as
 * hard to guess as the key, and no user can use up another user's key. `user` is "" for restocks and
 * transfers, whose digest is of the key alone. */
void inventory_key_digest(const char *user, const char *key, size_t length,
                          char digest[INVENTORY_DIGEST_SIZE]);

bool inventory_digest_valid(const char *text);

/* Sells, by the item's strategy. The answer comes in purchase->done. */
void inventory_purchase_begin(struct inventory *inventory, struct inventory_purchase *purchase);

/* ---- orders and items ----
 * Each callback is called exactly once, perhaps before the call returns. Pointers are valid only within it.
 */

typedef void inventory_order_fn(void *ctx, enum inventory_status status, const struct inventory_order *order);

enum inventory_step {
    INVENTORY_READ,
    INVENTORY_CONFIRM,
    INVENTORY_CANCEL,
    INVENTORY_PAY,
    INVENTORY_RETURN,
    INVENTORY_STEPS
};

struct inventory_order_call {
    enum inventory_step step;
    /* The request counts from then by the monotonic clock (0: now): a hold that was not over then can still
     * be settled, unless it was settled otherwise before. */
    int64_t arrived_ns;
    const char *owner;   /* the buyer who calls: an order of another user is unknown. NULL: the shop calls */
    const char *payment; /* CONFIRM: NULL if none is named. PAY: never NULL */
    int64_t pay_ms;      /* PAY: how long it may take; -1: the item's pay_ms */
    /* RETURN: by inventory_key_digest(), with the order's id as the user; one to INVENTORY_QUANTITY_MAX
     * units; whether they are for sale again, or leave the stock. */
    char digest[INVENTORY_DIGEST_SIZE];
    int64_t quantity;
    bool restock;
};

/* Reads an order, or does a step of it. `call` is copied. OK: done, with the order; REPLAYED: done before,
 * with the order as it is now; UNKNOWN_ORDER; UNAVAILABLE, UNKNOWN.
 *
 * CONFIRM: of an order that has expired it takes the units again, if they are there and the limit allows it:
 *   OK, and the order is `late`. Otherwise EXPIRED. CANCELLED: it was cancelled before. After either the
 * order has `refund_due`, and that is final. CANCEL: also CONFIRMED, EXPIRED; IN_PAYMENT for its owner. PAY:
 * the order is `paying`, and expires no earlier than pay_ms from now. Also CONFIRMED (without a payment),
 *   CANCELLED, EXPIRED, PAY_TOO_LONG.
 * RETURN: of a confirmed order. OVER_RETURN (with the order, which tells how much was returned), CANCELLED,
 *   EXPIRED, KEY_REUSED.
 * CONFIRM and PAY: PAYMENT_DIFFERS, if the order has another payment, or was confirmed without one.
 *
 * All but UNKNOWN_ORDER, UNAVAILABLE and UNKNOWN come with the order. */
void inventory_order_step(struct inventory *inventory, const char *id,
                          const struct inventory_order_call *call, inventory_order_fn *fn, void *ctx);

/* Expires the due holds of all items, in small steps. Call it about twice a second, for one inventory of the
 * process. Items without holds cost nothing. */
void inventory_sweep(struct inventory *inventory);
/* Whether a sweep is in progress. */
bool inventory_is_sweeping(const struct inventory *inventory);

struct inventory_item {
    char item[INVENTORY_NAME_MAX + 1];
    int64_t initial, restocked, available, held, sold;
    int64_t shortage;           /* units of orders that a failover lost, and that do not fit any more */
    int64_t limit;              /* units that a user may have; 0: any number */
    int64_t starts_ms, ends_ms; /* by the store's clock; 0: no bound */
    int64_t hold_ms;            /* 0: sold at once */
    int64_t pay_ms;             /* how long a payment may take, at most */
    enum inventory_strategy strategy;
};

typedef void inventory_item_fn(void *ctx, enum inventory_status status, const struct inventory_item *item);

/* Puts `item` (name, initial, limit, starts, ends, hold, strategy) on sale. OK, REPLAYED (it is on sale on
 * the same terms), EXISTS, REFUSED, UNAVAILABLE, UNKNOWN. The callback's item is NULL. */
void inventory_item_create(struct inventory *inventory, const struct inventory_item *item,
                           inventory_item_fn *fn, void *ctx);

/* OK with the item, as it was after the call began; UNKNOWN_ITEM, UNAVAILABLE, UNKNOWN. Calls that come while
 * the item is being read share the next reply. */
void inventory_item_get(struct inventory *inventory, const char *name, inventory_item_fn *fn, void *ctx);

struct inventory_restock {
    int64_t quantity, stock, available; /* as they were when it happened */
    int64_t room;                       /* with TOO_MANY: how many more units the item may have */
};

typedef void inventory_restock_fn(void *ctx, enum inventory_status status,
                                  const struct inventory_restock *restock);

/* Adds 1 to INVENTORY_STOCK_MAX units, once for each key. OK or REPLAYED with the restock, TOO_MANY with its
 * `room`, UNKNOWN_ITEM, KEY_REUSED, UNAVAILABLE, UNKNOWN. */
void inventory_item_restock(struct inventory *inventory, const char *name, const char *digest,
                            int64_t quantity, inventory_restock_fn *fn, void *ctx);

/* The books of an item: its counters, by which it is sold, and the same numbers counted from its orders. If
 * `exact`, the counts are of the moment when the last counter was read. Otherwise each count of held, sold
 * and returned units can differ from that moment by `off_by`. */
struct inventory_audit {
    struct inventory_item item;                                /* the counters */
    int64_t orders[INVENTORY_STATES], units[INVENTORY_STATES]; /* counted, by enum inventory_state */
    int64_t pending_orders, pending; /* of the held orders: those of baskets, and their units */
    int64_t oversold;                /* units held or sold beyond the stock; if not exact, a lower bound */
    int64_t holds;                   /* entries in the expiry list */
    int64_t user_units;              /* sum of the users' counters, if the item has a limit */
    int64_t over_limit;              /* users with more than the limit */
    int64_t unreadable;              /* records that are no orders */
    bool exact;                      /* no order changed while they were read */
    int64_t off_by;                  /* 0 if exact */
    /* Units by state, units by user and the number of holds all agree. If not exact, an error of `off_by` or
     * less may not show. */
    bool conserved;
};

typedef void inventory_audit_fn(void *ctx, enum inventory_status status, const struct inventory_audit *audit);

/* Reads all orders of the item in pages, on a connection of its own and with pauses in between, so that
 * purchases go on beside it: twelve million orders take a minute and a half, or two and a half beside a sale.
 * One item is read at a time. An item of up to some hundred orders is read in one step, which is always
 * exact. OK, UNKNOWN_ITEM, OVERLOADED (too many ask), UNAVAILABLE (also: the item was created anew
 * meanwhile). */
void inventory_item_audit(struct inventory *inventory, const char *name, inventory_audit_fn *fn, void *ctx);

/* ---- health ---- */

/* A server of the store that is a master. */
struct inventory_server {
    char address[96];
    int replicas; /* that follow it */
    int proven;   /* replicas that had confirmed all that was acknowledged by then */
};

enum { INVENTORY_SERVERS_TOLD = 32 };

struct inventory_health {
    bool ready;
    char reason[256]; /* why it is not ready; or, if it is, what cannot be sold */
    char version[32];
    char role[16];        /* master, slave */
    char appendonly[16];  /* yes, no, unknown; mixed: the servers differ (also below) */
    char appendfsync[16]; /* always, everysec, no, unknown */
    char eviction[32];    /* maxmemory-policy, unknown */
    int replicas;         /* that must have an order before it is acknowledged */
    int server_count;     /* servers that answered, up to INVENTORY_SERVERS_TOLD */
    struct inventory_server servers[INVENTORY_SERVERS_TOLD];
};

typedef void inventory_health_fn(void *ctx, const struct inventory_health *health);

/* Asks the store what it can promise. */
void inventory_health_read(struct inventory *inventory, inventory_health_fn *fn, void *ctx);

typedef void inventory_time_fn(void *ctx, enum inventory_status status, int64_t store_ms);

/* Asks a master of the store that is up for its time. */
void inventory_time_read(struct inventory *inventory, inventory_time_fn *fn, void *ctx);

/* ---- metrics ---- */

enum { INVENTORY_BATCH_MAX = 256 };

/* Written by the inventory's thread alone; other threads may read each of them. */
struct inventory_metrics {
    _Atomic uint64_t batches, batched; /* script calls of purchases, and purchases in them */
    _Atomic uint64_t checks;           /* calls that only read, for items that were sold out */
    _Atomic uint64_t waiting;          /* purchases and transactions in flight */
    _Atomic uint64_t unknown;          /* purchases that the store may have carried out or not */
    _Atomic uint64_t unknown_resolved; /* of these, those whose order was found */
    _Atomic uint64_t reconnects;
    _Atomic uint64_t scripts_loaded; /* EVAL after NOSCRIPT */
    _Atomic uint64_t expired;        /* holds expired by sweeps */
    _Atomic uint64_t conflicts;      /* `optimistic`: EXECs that found the item changed */
    _Atomic uint64_t store_errors;
    _Atomic uint64_t put_back; /* records that a failover lost, and that were put back */
    _Atomic uint64_t
        shortage;            /* records that it lost, and that do not fit any more (struct inventory_loss) */
    _Atomic uint64_t unkept; /* failovers and lost masters that may have lost more than could be put back */
};

#endif
