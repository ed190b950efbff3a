/* libinventory: the stock of a sale, kept in Redis, sold atomically.
 *
 * One `struct inventory` belongs to one thread and its libuv loop: every call and every callback happens
 * there. Many of them, in many processes, work on the same stock. Nothing here blocks (but for the DNS
 * look-up of a host name at connecting), logs or exits.
 *
 * Promises, for the strategies `batch` and `lua`, and for `locked` with a fence, whatever fails:
 *   initial + restocked = available + held + sold, at every moment;
 *   every held or sold unit has exactly one order, written in the same step;
 *   one key has at most one order of an item, and each answer to that key tells of it. */
#ifndef INVENTORY_INVENTORY_H
#define INVENTORY_INVENTORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

#include "base/clock.h"

enum {
    INVENTORY_NAME_MAX = 64, /* longest item or user */
    INVENTORY_KEY_MAX = 255, /* longest idempotency key */
    INVENTORY_QUANTITY_MAX = 1000,
    INVENTORY_DIGEST_SIZE = 23, /* a key's digest with its NUL */
    INVENTORY_ORDER_SIZE = INVENTORY_NAME_MAX + 1 + INVENTORY_DIGEST_SIZE,
    INVENTORY_STOCK_MAX = 1000000000,
    /* A hold expires by itself so long after it was due: a confirm that came in time may be on its way. */
    INVENTORY_HOLD_GRACE_MS = 500,
};

/* Of several reasons to refuse a purchase, or a line of a basket, every strategy names the same one, the
 * first of these: UNKNOWN_ITEM, NOT_STARTED, ENDED, SOLD_OUT, LIMIT. */
enum inventory_status {
    INVENTORY_OK,
    INVENTORY_REPLAYED,    /* done before, by the same key: what is told is the first answer */
    INVENTORY_SOLD_OUT,    /* fewer units left than wanted */
    INVENTORY_LIMIT,       /* the user would have more than the item allows */
    INVENTORY_NOT_STARTED, /* before the sale's start */
    INVENTORY_ENDED,       /* after its end */
    INVENTORY_UNKNOWN_ITEM,
    INVENTORY_UNKNOWN_ORDER,
    INVENTORY_UNKNOWN_BASKET,
    INVENTORY_OF_BASKET, /* the order is settled by its basket, not by itself */
    INVENTORY_PENDING, /* the transaction is under way, or was left unfinished: its locks first, then again */
    INVENTORY_CROSS_SLOT, /* no one script reaches all of its items: they lie in several slots of a cluster */
    INVENTORY_EXISTS,     /* the item stands already, otherwise */
    INVENTORY_KEY_REUSED, /* the key belongs to another request */
    INVENTORY_TOO_MANY,   /* the stock would pass INVENTORY_STOCK_MAX */
    INVENTORY_CONFIRMED,  /* cannot cancel: it was confirmed first */
    INVENTORY_CANCELLED,  /* cannot confirm: it was cancelled first */
    INVENTORY_EXPIRED,    /* neither: the hold ran out first */
    INVENTORY_WANTS_LOCK, /* take the locks of its items, and come again with `locked` set */
    INVENTORY_REFUSED,    /* a strategy that teaches, and teaching is off */
    INVENTORY_STALE,      /* its token is older than the newest seen of the item; nothing was done */
    INVENTORY_OVERLOADED, /* too many wait already; nothing was done */
    INVENTORY_UNAVAILABLE, /* the store cannot be used; nothing was done */
    INVENTORY_UNKNOWN,     /* sent, and no reply: it may have been done. Repeat it with the same key */
};

/* A short text for logs. */
const char *inventory_status_text(enum inventory_status status);

/* How an item is sold; see README for what is wrong with each. */
enum inventory_strategy {
    INVENTORY_BATCH,      /* one script call for all who wait (group commit) */
    INVENTORY_LUA,        /* one script call a purchase */
    INVENTORY_DECR,       /* take, look at the sign, give back */
    INVENTORY_OPTIMISTIC, /* WATCH, MULTI, EXEC */
    INVENTORY_NAIVE,      /* read, compare, write: oversells. Teaching only */
    INVENTORY_LOCKED,     /* the same under a lock that the caller takes. Teaching only */
    INVENTORY_STRATEGIES
};

const char *inventory_strategy_name(enum inventory_strategy strategy);
/* False where there is none of this name; `strategy` is untouched then. */
bool inventory_strategy_find(const char *name, enum inventory_strategy *strategy);
/* Whether it oversells by itself, and therefore needs `teaching`. */
bool inventory_strategy_teaches(enum inventory_strategy strategy);

/* 1 to 64 of A-Z a-z 0-9 . _ - */
bool inventory_name_valid(const char *name, size_t length);

struct inventory;

struct inventory_config {
    const char *redis_url;
    const struct clock *clock; /* its wall time is the store's; must outlive the inventory */
    int call_timeout_ms;       /* a store call without reply for so long is given up as unknown */
    int resolve_ms;            /* how long an unknown purchase is pursued before INVENTORY_UNKNOWN */
    int queue_max;             /* purchases under way at once; more are INVENTORY_OVERLOADED */
    int work_delay_ms;         /* `naive` and `locked`: between read and write */
    bool teaching;
    bool fencing; /* check the fences of purchases; off for lessons only */
    /* Called before and after each write of a transaction, and at each step of a hold's way into and out of
     * the index of due times, for tests that end the process there; NULL: not. */
    void (*at_failpoint)(void *ctx, const char *step);
    void *at_failpoint_ctx;
    struct inventory_metrics *metrics; /* to count in, must outlive the inventory; NULL: its own */
};

/* NULL on failure, with the reason in `error`. Does not wait for the connection. */
struct inventory *inventory_open(uv_loop_t *loop, const struct inventory_config *config, char *error,
                                 size_t error_size);

/* Everything under way is answered (UNKNOWN or UNAVAILABLE) before this returns; the loop has to run once
 * more afterwards. */
void inventory_close(struct inventory *inventory);

/* Sends what was submitted in this turn of the loop, and what waited for a reply that came in it. Call it
 * once at the end of each turn: what comes in one turn leaves in one call. */
void inventory_flush(struct inventory *inventory);

bool inventory_is_up(const struct inventory *inventory);

/* ---- orders ---- */

enum inventory_state {
    INVENTORY_STATE_HELD,
    INVENTORY_STATE_CONFIRMED,
    INVENTORY_STATE_CANCELLED,
    INVENTORY_STATE_EXPIRED,
    INVENTORY_STATE_UNDONE, /* a line of a basket that failed: it never was an order */
    INVENTORY_STATES
};

const char *inventory_state_name(enum inventory_state state);

struct inventory_order {
    char id[INVENTORY_ORDER_SIZE]; /* ITEM:DIGEST */
    char item[INVENTORY_NAME_MAX + 1];
    char user[INVENTORY_NAME_MAX + 1];
    int64_t quantity;
    enum inventory_state state;
    int64_t created_ms;                 /* by the store's clock */
    int64_t expires_ms;                 /* of the hold, also when it is settled; 0: there was none */
    char basket[INVENTORY_DIGEST_SIZE]; /* that it came from, "" if from none */
    /* Its basket is held, or unfinished: its units count as held. What it is to its buyer the journal tells:
     * inventory_transaction_find() */
    bool pending;
};

/* ---- tokens ---- */

/* What is written under a lock is written with the grant's token: the store refuses it (STALE) once it has
 * seen a newer one of the item. Tokens are compared by epoch, then by fence. */
struct inventory_fencing_token {
    uint64_t
        epoch; /* of the lock domain: raised whenever another lock, or a lock that forgot, numbers grants */
    uint64_t fence; /* of the grant, grows from one to the next; 0: this lock has none */
};

/* ---- purchases ---- */

/* Lives in the caller's request, which must stay where it is until `done`. Fill in the first part; the rest
 * is the inventory's. */
struct inventory_purchase {
    char item[INVENTORY_NAME_MAX + 1];
    char user[INVENTORY_NAME_MAX + 1];
    char digest[INVENTORY_DIGEST_SIZE]; /* by inventory_key_digest() */
    int64_t quantity;
    bool locked; /* the caller holds the item's lock */
    struct inventory_fencing_token
        token; /* of that grant; without a fence only the epoch is checked, at the look */
    /* Called exactly once; from within inventory_purchase_begin() where there is nothing to wait for. */
    void (*done)(struct inventory_purchase *purchase, enum inventory_status status);

    /* Told in `done`: */
    struct inventory_order order; /* with OK and REPLAYED: as it was born */
    enum inventory_state now;     /* with REPLAYED: what has become of it since */
    int64_t available;            /* with SOLD_OUT */

    /* The inventory's own: */
    struct inventory *inventory;
    struct inventory_purchase *next;
    struct item *in;
    int64_t sent_ms; /* by the own clock, when it was sent last */
    int64_t deadline_ms;
    struct client_read *read;
};

/* What an idempotency key is stored as: 128 bits of BLAKE2b in base64url, 22 characters. A long key costs no
 * memory, and an order's id, which holds it, is as hard to guess as the key. */
void inventory_key_digest(const char *key, size_t length, char digest[INVENTORY_DIGEST_SIZE]);

bool inventory_digest_valid(const char *text);

/* Sells, by the item's strategy. The answer comes in purchase->done. */
void inventory_purchase_begin(struct inventory *inventory, struct inventory_purchase *purchase);

/* ---- the rest ----
 * Each callback is called exactly once, perhaps before the call returns when the store is down. Pointers are
 * valid within it only. */

typedef void inventory_order_fn(void *ctx, enum inventory_status status, const struct inventory_order *order);

enum inventory_step { INVENTORY_READ, INVENTORY_CONFIRM, INVENTORY_CANCEL };

/* Looks at an order, or confirms or cancels its hold for a request that arrived at `arrived_ns` by the
 * monotonic clock (0: now): a hold that was not over then is not too late, if nobody was faster. OK (with the
 * order), UNKNOWN_ORDER, CONFIRMED, CANCELLED, EXPIRED (with the order too), UNAVAILABLE, UNKNOWN. */
void inventory_order_step(struct inventory *inventory, const char *id, enum inventory_step step,
                          int64_t arrived_ns, inventory_order_fn *fn, void *ctx);

struct inventory_item {
    char item[INVENTORY_NAME_MAX + 1];
    int64_t initial, restocked, available, held, sold;
    int64_t limit;              /* units a user may have; 0: any number */
    int64_t starts_ms, ends_ms; /* by the store's clock; 0: no bound */
    int64_t hold_ms;            /* 0: sold at once */
    enum inventory_strategy strategy;
};

typedef void inventory_item_fn(void *ctx, enum inventory_status status, const struct inventory_item *item);

/* Puts `item` (name, initial, limit, starts, ends, hold, strategy) on sale. OK, REPLAYED (stands so already),
 * EXISTS, REFUSED, UNAVAILABLE, UNKNOWN. The callback's item is NULL. */
void inventory_item_create(struct inventory *inventory, const struct inventory_item *item,
                           inventory_item_fn *fn, void *ctx);

/* OK with the item, as it was after the call began; UNKNOWN_ITEM, UNAVAILABLE, UNKNOWN. Calls that come while
 * the item is asked for share the next reply. */
void inventory_item_get(struct inventory *inventory, const char *name, inventory_item_fn *fn, void *ctx);

struct inventory_restock {
    int64_t quantity, stock, available; /* as they were when it happened */
    int64_t room;                       /* with TOO_MANY: so many more would be taken */
};

typedef void inventory_restock_fn(void *ctx, enum inventory_status status,
                                  const struct inventory_restock *restock);

/* Adds 1 to INVENTORY_STOCK_MAX units. OK or REPLAYED with the restock, TOO_MANY with its `room`,
 * UNKNOWN_ITEM, KEY_REUSED, UNAVAILABLE, UNKNOWN. */
void inventory_item_restock(struct inventory *inventory, const char *name, const char *digest,
                            int64_t quantity, inventory_restock_fn *fn, void *ctx);

/* The books of an item, counted from its orders, beside the counters that the sale goes by. They are those of
 * the moment when the last counter was read: wholly where they are `exact`, and otherwise what was counted of
 * held, sold and returned units can differ from that moment by `off_by` units each. */
struct inventory_audit {
    struct inventory_item item;                                /* the counters */
    int64_t orders[INVENTORY_STATES], units[INVENTORY_STATES]; /* counted, by enum inventory_state */
    int64_t pending_orders, pending; /* of the held ones: of baskets, and their units */
    int64_t oversold;   /* units held or sold beyond the stock; where not exact, so many at least */
    int64_t holds;      /* entries in the expiry list */
    int64_t user_units; /* sum of the users' counters, where the item has a limit */
    int64_t over_limit; /* users with more than the limit */
    int64_t unreadable; /* records that are no orders */
    bool exact;         /* no order changed while they were read */
    int64_t off_by;     /* 0 where exact */
    /* All of it agrees: units by state, by user, and the number of holds. Where not exact: as far as can be
     * told; what is wrong by no more than `off_by` may not show. */
    bool conserved;
};

typedef void inventory_audit_fn(void *ctx, enum inventory_status status, const struct inventory_audit *audit);

/* Reads all orders of the item in pages, on a connection of its own and with pauses in between, so that
 * purchases go on beside it: twelve million orders take a minute and a half, or two and a half beside a sale.
 * Items take turns. An item of no more than some hundred orders is read in one step, and so always exact. OK,
 * UNKNOWN_ITEM, OVERLOADED (too many ask), UNAVAILABLE (also: the item was put on sale anew meanwhile). */
void inventory_item_audit(struct inventory *inventory, const char *name, inventory_audit_fn *fn, void *ctx);

/* ---- transactions: baskets and transfers ----
 *
 * A transaction concerns several items, all or nothing. They lie in several slots, so no script does it; it
 * is done in steps, and a journal in one slot tells which were decided: an intent is written before the first
 * unit is taken, and one step of the journal, after the last, decides it forward or back. Every write to an
 * item can be repeated and is done once. Whoever makes a transaction holds the locks of its items, and what
 * he writes carries their tokens, so that two transactions do not undo each other. What a process leaves
 * unfinished is found by inventory_transaction_claim(), and finished by inventory_transaction_settle(), which
 * needs no lock; two at once do no harm.
 *
 * Until a basket is decided its units count as held, and so do its orders, which nobody has been told of. */

enum { INVENTORY_LINES_MAX = 32 };

enum inventory_transaction_kind { INVENTORY_BASKET, INVENTORY_TRANSFER };

struct inventory_line {
    char item[INVENTORY_NAME_MAX + 1];
    int64_t quantity;
    struct inventory_fencing_token
        token; /* of the grant of the item's lock, the caller's to set; see `locked` */
};

/* Lives in the caller's memory until `done`. Of a transfer the lines are two: from and to. */
struct inventory_transaction {
    enum inventory_transaction_kind kind;
    char id[INVENTORY_DIGEST_SIZE];    /* by inventory_key_digest(); baskets and transfers are told apart */
    char user[INVENTORY_NAME_MAX + 1]; /* of a basket */
    int count;
    struct inventory_line lines[INVENTORY_LINES_MAX]; /* an item may be there twice */
    bool locked;                                      /* the lines have tokens; otherwise none is checked */
    int64_t lease_ms; /* so long the locks are held: after that it is others' to finish */
    /* When the request to confirm or cancel it arrived, by the monotonic clock: a hold that was not over then
     * is not too late. 0: now. */
    int64_t arrived_ns;
    /* Called exactly once, perhaps from within the call. */
    void (*done)(struct inventory_transaction *transaction, enum inventory_status status);

    /* Told in `done`: */
    enum inventory_state state; /* with OK and REPLAYED: of the basket */
    enum inventory_state now;   /* with REPLAYED: what has become of it since */
    int64_t created_ms, expires_ms;
    int failed; /* with SOLD_OUT, LIMIT, NOT_STARTED, ENDED, UNKNOWN_ITEM, TOO_MANY: the first such line */
    int64_t available; /* with SOLD_OUT */
    /* Not 0: an attempt was undone that had units, and for no longer than this. What another process began is
     * told by the wall clock, to the millisecond. */
    int64_t aborted_ns;

    /* The inventory's own: */
    char nonce[INVENTORY_DIGEST_SIZE]; /* random: the orders of two attempts are not taken for each other */
    int phase;
};

/* The order of a line, once it was told; its state is the basket's. */
void inventory_transaction_order(const struct inventory_transaction *transaction, int line,
                                 struct inventory_order *order);
/* Whether it is the order of one of its lines, and not of another attempt. */
bool inventory_transaction_has_order(const struct inventory_transaction *transaction,
                                     const struct inventory_order *order);

/* Looks up kind and id, and fills in the rest. OK; UNKNOWN_BASKET where there is none, or none that was
 * decided; PENDING (filled in as well); UNAVAILABLE, UNKNOWN. No lock is needed. */
void inventory_transaction_find(struct inventory *inventory, struct inventory_transaction *transaction);

/* Tells without a lock what becomes of a transaction that is to be made. WANTS_LOCK: it is new, and nothing
 * was in its way; PENDING: an attempt that was not decided is under way, or was left unfinished. Either way
 * inventory_transaction_make() is next, under its locks. Otherwise as that answers: REPLAYED, KEY_REUSED,
 * what refuses a line (a limit by this basket alone, without what its user has), UNAVAILABLE, UNKNOWN. So
 * whoever asks for what is not for sale takes no lock, and waits for nobody who has one. */
void inventory_transaction_check(struct inventory *inventory, struct inventory_transaction *transaction);

/* Does it, as it was wanted. OK; REPLAYED: done before, `state` as it was then; KEY_REUSED; for a line
 * SOLD_OUT, LIMIT, NOT_STARTED, ENDED or UNKNOWN_ITEM, and nothing was done; STALE: a newer holder of a lock
 * was seen, what was begun is undone; UNAVAILABLE, UNKNOWN. An earlier attempt that was left unfinished is
 * finished first. */
void inventory_transaction_make(struct inventory *inventory, struct inventory_transaction *transaction);

/* The same of a basket in one step, by one script, where one Redis holds all keys. It needs no lock and looks
 * at no token, and leaves what inventory_transaction_make() would have left: a basket that is held is settled
 * in the same way. Answers as that does, and never STALE; PENDING: an attempt in steps that was not decided
 * is under way, or was left unfinished, and nothing was done: finish that one, under its locks, and come
 * again. CROSS_SLOT: the store is a cluster, which lets no script reach two slots; nothing was done. */
void inventory_transaction_make_at_once(struct inventory *inventory,
                                        struct inventory_transaction *transaction);

/* A basket as people write it, teaching only (else REFUSED): looks at all items, decides, lets work_delay_ms
 * pass, and writes to each what it worked out, without a journal. Under a lock that holds for all who sell
 * these items it is right, if nothing breaks. Under one that does not, it oversells; where the lines have
 * tokens with a fence, whoever was overtaken is refused (STALE) at each item where he was, which can leave
 * him with half a basket, as can whatever breaks on the way.
 *
 * It is sold at once, also an item that others hold, and stands in no journal: inventory_transaction_find()
 * and inventory_transaction_settle() do not know it, and its orders are the only trace. By them a retry is
 * known: items whose orders stand are not sold again, and REPLAYED means that all do. KEY_REUSED: they are of
 * other quantities or another user; other items are not noticed. */
void inventory_transaction_make_naive(struct inventory *inventory, struct inventory_transaction *transaction);

/* Settles a basket that inventory_transaction_find() has told, by CONFIRM or CANCEL, from when it is decided
 * on; or finishes a transaction that inventory_transaction_claim() has told, by LOOK: forward if it was
 * decided, back if not, and a hold that is over expires. No lock is needed: the journal says which of two
 * came first, and all else can be repeated. OK, CONFIRMED, CANCELLED, EXPIRED, UNKNOWN_BASKET (also: undone,
 * or not decided), UNAVAILABLE, UNKNOWN. */
void inventory_transaction_settle(struct inventory *inventory, struct inventory_transaction *transaction,
                                  enum inventory_step step);

/* Transactions that were left unfinished, and held baskets that are due, those first that have been for
 * longest, and no more than `most`; each is left alone by other claims for `claim_ms`. With OK, of the
 * `count` transactions; valid within the callback. None while a store that stood still hears of what came in
 * time. */
typedef void inventory_claim_fn(void *ctx, enum inventory_status status,
                                const struct inventory_transaction *transactions, size_t count);
void inventory_transaction_claim(struct inventory *inventory, int most, int64_t claim_ms,
                                 inventory_claim_fn *fn, void *ctx);

/* ---- which lock numbers the tokens ----
 * The record that all instances of a service share: an epoch, and a lock, which is no more than a text here;
 * and who of them lives. What it is for: service/background/lock_switch.h. */

struct inventory_lock_epoch {
    uint64_t epoch;
    const char *lock;
    int live;            /* instances, with this one */
    int behind;          /* others that may have grants older than the epoch */
    const char *laggard; /* one of those, "" where there is none */
    int64_t store_ms;    /* the store's clock, when it replied */
};

typedef void inventory_lock_epoch_fn(void *ctx, enum inventory_status status,
                                     const struct inventory_lock_epoch *domain);

struct inventory_heartbeat {
    const char *instance;
    /* It has no grants that are older; 0: it comes new, has none at all, and wants `lock`. */
    uint64_t epoch;
    const char *lock; /* of that epoch */
    int64_t quiet_ms; /* so long after its last beat it may have grants */
    int64_t fresh_ms; /* who beat within so long lives */
    /* A beat is not written that comes so soon after one that was; of `quiet_ms` it is a part. */
    int64_t rewrite_ms;
};

/* Tells that this instance lives, and answers how it stands. Each: OK with the record, UNAVAILABLE, UNKNOWN.
 */
void inventory_lock_epoch_heartbeat(struct inventory *inventory, const struct inventory_heartbeat *heartbeat,
                                    inventory_lock_epoch_fn *fn, void *ctx);
/* Raises the epoch, also for the same lock. UNKNOWN may have raised it. */
void inventory_lock_epoch_switch(struct inventory *inventory, const char *lock, inventory_lock_epoch_fn *fn,
                                 void *ctx);
/* The instance ends, and has no grants any more. */
void inventory_lock_epoch_leave(struct inventory *inventory, const char *instance,
                                inventory_lock_epoch_fn *fn, void *ctx);

/* ---- health ---- */

struct inventory_health {
    bool ready;
    char reason[256]; /* why not */
    char version[32];
    char role[16];        /* master, slave */
    char appendonly[16];  /* yes, no, unknown */
    char appendfsync[16]; /* always, everysec, no, unknown */
    char eviction[32];    /* maxmemory-policy, unknown */
};

typedef void inventory_health_fn(void *ctx, const struct inventory_health *health);

/* Asks the store what it can promise. */
void inventory_health_read(struct inventory *inventory, inventory_health_fn *fn, void *ctx);

/* Expires the holds that are due, of all items, in small steps; items without holds cost nothing. Call it
 * about twice a second, from one inventory a process. */
void inventory_sweep(struct inventory *inventory);

/* ---- metrics ---- */

enum { INVENTORY_BATCH_MAX = 256 };

/* Written by the inventory's thread alone; another may read them (each for itself). */
struct inventory_metrics {
    _Atomic uint64_t batches, batched; /* script calls of purchases, and purchases in them */
    _Atomic uint64_t checks;           /* calls that only asked: sold out, or unknown */
    _Atomic uint64_t waiting;          /* purchases and transactions under way */
    _Atomic uint64_t unknown;          /* purchases whose reply was lost */
    _Atomic uint64_t unknown_resolved; /* of which the order was found */
    _Atomic uint64_t reconnects;
    _Atomic uint64_t scripts_loaded; /* EVAL after NOSCRIPT */
    _Atomic uint64_t expired;        /* holds expired by the sweep */
    _Atomic uint64_t conflicts;      /* `optimistic`: EXECs that found the item changed */
    _Atomic uint64_t store_errors;
};

const struct inventory_metrics *inventory_metrics_read(const struct inventory *inventory);

/* The last reason why the store could not be used, "" where there was none. */
const char *inventory_last_error(const struct inventory *inventory);

#endif
