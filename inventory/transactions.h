/* Transactions: baskets and transfers, which concern several items, all or nothing; and the epoch of the
 * locks under which they are made.
 *
 * The items lie in several slots, so no script reaches them at once. A transaction is made in steps, and a
 * journal records what was decided: an intent is written before the first debit, and one move of the journal
 * after the last debit decides it, forward or back. Every write to an item is idempotent.
 *
 * The caller that makes a transaction holds the locks of its items, and its writes carry their fencing
 * tokens, so that two transactions do not abort each other. inventory_transaction_claim() finds what a
 * process left unfinished, and inventory_transaction_settle() finishes it. That needs no lock, and two
 * processes may do it at once.
 *
 * Until a basket is decided, its units and orders count as held, although nobody has been told of them. */
#ifndef INVENTORY_TRANSACTIONS_H
#define INVENTORY_TRANSACTIONS_H

#include "inventory/inventory.h"

enum { INVENTORY_LINES_MAX = 32 };

enum inventory_transaction_kind { INVENTORY_BASKET, INVENTORY_TRANSFER };

struct inventory_line {
    char item[INVENTORY_NAME_MAX + 1];
    int64_t quantity;
    struct inventory_fencing_token token; /* of the grant of the item's lock, if `locked` */
};

/* Lives in the caller's memory until `done`. */
struct inventory_transaction {
    /* Filled in by the caller: */
    enum inventory_transaction_kind kind;
    char id[INVENTORY_DIGEST_SIZE];    /* by inventory_key_digest(); a basket and a transfer may share one */
    char user[INVENTORY_USER_MAX + 1]; /* of a basket */
    int count;
    /* An item may be in several lines. The two lines of a transfer are from and to. */
    struct inventory_line lines[INVENTORY_LINES_MAX];
    bool locked;      /* the lines have fencing tokens; otherwise none is checked */
    int64_t lease_ms; /* how long the locks are held; after that other processes may finish it */
    /* When the request to confirm or cancel it arrived, by the monotonic clock: a hold that was not over then
     * can still be settled. 0: now. */
    int64_t arrived_ns;
    /* Called exactly once, perhaps from within the call. */
    void (*done)(struct inventory_transaction *transaction, enum inventory_status status);

    /* Filled in before `done`: */
    enum inventory_state state; /* with OK; with REPLAYED, as it is now */
    int64_t created_ms, expires_ms;
    int failed; /* with SOLD_OUT, LIMIT, NOT_STARTED, ENDED, UNKNOWN_ITEM, TOO_MANY: the first such line */
    int64_t available; /* with SOLD_OUT */
    /* Not 0: an attempt was aborted after it had debited units, and they were gone for no longer than this.
     * If the attempt was another process's, the wall clock tells this, to the millisecond. */
    int64_t aborted_ns;

    /* The inventory's own: */
    struct transactions *transactions; /* while inventory_transaction_find() runs */
    char nonce[INVENTORY_DIGEST_SIZE]; /* random: tells the orders of two attempts apart */
    int phase;
};

/* The order of a line; its state is the basket's. */
void inventory_transaction_order(const struct inventory_transaction *transaction, int line,
                                 struct inventory_order *order);
/* Whether the order belongs to a line of this attempt at the transaction. */
bool inventory_transaction_has_order(const struct inventory_transaction *transaction,
                                     const struct inventory_order *order);

/* Reads the transaction of this kind and id, and fills in the rest. OK; UNKNOWN_BASKET if there is no such
 * transaction, or it is not decided; PENDING (filled in as well); UNAVAILABLE, UNKNOWN. Needs no lock. */
void inventory_transaction_find(struct inventory *inventory, struct inventory_transaction *transaction);

/* Tells, without a lock, whether the locks are worth acquiring. WANTS_LOCK: the transaction is new, and
 * nothing refuses it; PENDING: an attempt is in flight, or was left unfinished. After either, call
 * inventory_transaction_make() under the locks. Otherwise the answer that it would give: REPLAYED,
 * KEY_REUSED, what refuses a line (a limit only by this basket's own units), UNAVAILABLE, UNKNOWN. */
void inventory_transaction_check(struct inventory *inventory, struct inventory_transaction *transaction);

/* Makes the transaction. OK; REPLAYED: done before; KEY_REUSED; SOLD_OUT, LIMIT,
 * NOT_STARTED, ENDED or UNKNOWN_ITEM for a line, and nothing was done; STALE: a newer fencing token was seen,
 * and what had begun is aborted; UNAVAILABLE, UNKNOWN. An earlier attempt that was left unfinished is
 * finished first. */
void inventory_transaction_make(struct inventory *inventory, struct inventory_transaction *transaction);

/* Makes a basket by one script, if one Redis holds all keys. It needs no lock, checks no fencing token, and
 * leaves what inventory_transaction_make() would leave, so a held basket is settled in the same way. It
 * answers as that does, but never STALE. PENDING: an attempt in steps is in flight, or was left unfinished;
 * nothing was done: finish that one under its locks, and call again. CROSS_SLOT: the store is a cluster;
 * nothing was done. */
void inventory_transaction_make_at_once(struct inventory *inventory,
                                        struct inventory_transaction *transaction);

/* Makes a basket as people write it, in teaching mode only (else REFUSED): reads all items, decides, waits
 * for the work delay, and writes the result to each item, without a journal. It is right under a lock that
 * holds for all sellers, as long as nothing breaks. Under a lock that fails it oversells. With fencing tokens
 * each item refuses an overtaken holder (STALE). That can leave half a basket, as can a process that dies.
 *
 * It is sold at once, also if an item has holds. The journal does not have it, so
 * inventory_transaction_find() and inventory_transaction_settle() do not know it. A retry is known by the
 * orders alone: items whose orders stand are not sold again, and REPLAYED means that all stand. KEY_REUSED:
 * they have another quantity or user; other items go unnoticed. */
void inventory_transaction_make_naive(struct inventory *inventory, struct inventory_transaction *transaction);

/* CONFIRM or CANCEL settles a held basket that inventory_transaction_find() has read. READ finishes a
 * transaction that inventory_transaction_claim() has found: forward if it was decided, back if not; a hold
 * that is over expires. Needs no lock: the journal says which of two came first, and the rest is idempotent.
 * OK, CONFIRMED, CANCELLED, EXPIRED, UNKNOWN_BASKET (also: aborted, or not decided), UNAVAILABLE, UNKNOWN. */
void inventory_transaction_settle(struct inventory *inventory, struct inventory_transaction *transaction,
                                  enum inventory_step step);

/* With OK, `count` transactions, valid only within the callback. */
typedef void inventory_claim_fn(void *ctx, enum inventory_status status,
                                const struct inventory_transaction *transactions, size_t count);

/* Claims transactions that were left unfinished, and held baskets that are due: the oldest first, and no more
 * than `most`. Other claims leave them alone for `claim_ms`. For a moment after the store stood still it
 * claims none, so that confirms that came in time go first. */
void inventory_transaction_claim(struct inventory *inventory, int most, int64_t claim_ms,
                                 inventory_claim_fn *fn, void *ctx);

/* What the journal says of the items, and what the items have. */
struct inventory_reconciled {
    int64_t transactions; /* in the journal */
    int64_t in_flight;    /* of these, those that are not at rest yet */
    int64_t torn;         /* of these, those with an item that lacks something */
    int64_t lacking;      /* units that were lacking */
    int64_t mended;       /* of these units, those that are there by now */
};

typedef void inventory_reconciled_fn(void *ctx, enum inventory_status status,
                                     const struct inventory_reconciled *told);

/* Whether a failover may have torn transactions: a server of a cluster has lost something, or this inventory
 * was opened a moment ago. If so, call inventory_transactions_reconcile() with `mend`. After it was
 * UNAVAILABLE this is false for a few seconds. */
bool inventory_transactions_are_suspect(const struct inventory *inventory);

/* Makes them suspect: another inventory of this process has put back a record of the journal (`on_loss`). */
void inventory_transactions_suspect(struct inventory *inventory);

/* Compares the whole journal with the items. With `mend` it writes again what items lack, and the first
 * process that finds something that does not fit reports it (`on_loss`). Without `mend` it only counts, and
 * what it finds makes the transactions suspect. OK; UNAVAILABLE: a part of the store could not be asked (with
 * `mend` all else is mended); OVERLOADED: a comparison is in progress, and `told` is NULL. Some million
 * transactions take a minute. */
void inventory_transactions_reconcile(struct inventory *inventory, bool mend, inventory_reconciled_fn *fn,
                                      void *ctx);

/* All items together. */
struct inventory_audit_sum {
    bool conserved;            /* every item is, none oversold, nothing is torn, nothing unknown */
    int64_t items, unbalanced; /* `unbalanced`: those that are not conserved, see struct inventory_audit */
    int64_t stock, available, held, sold, oversold, shortage;
    struct inventory_reconciled journal; /* its lacking units are nowhere */
    int64_t unknown; /* units of orders and moves whose basket or transfer the journal lacks, or has
                        differently: they are in two places, or nobody's */
};

typedef void inventory_audit_all_fn(void *ctx, enum inventory_status status,
                                    const struct inventory_audit_sum *sum);

/* Audits all items, and their baskets and transfers. It names what is unknown to the journal (`on_loss`; a
 * hundred at most). Beside a running sale the sums are not of one moment. OK; UNAVAILABLE; OVERLOADED: an
 * audit of all items is in progress. Naive baskets are unknown to the journal. */
void inventory_audit_all(struct inventory *inventory, inventory_audit_all_fn *fn, void *ctx);

/* ---- the lock epoch ----
 *
 * It counts the lock switches of all instances that sell from one store. They all use the lock of the newest
 * epoch; the fences of two locks cannot be compared. The store keeps the epoch, its lock (a mere text to this
 * library) and the heartbeats of the instances. service/background/lock_switch.h makes the switch. */

struct inventory_lock_epoch {
    uint64_t epoch;
    const char *lock;
    int live;            /* live instances, with this one */
    int behind;          /* others that may have grants older than the epoch */
    const char *laggard; /* one of those; "" if there is none */
    /* Set by a heartbeat: no instance is behind, and every part of the journal whose server can be reached
     * refuses grants of older epochs. Only then may the instance acquire grants of this epoch. */
    bool in_force;
    int64_t store_ms; /* the store's clock, when it replied */
};

typedef void inventory_lock_epoch_fn(void *ctx, enum inventory_status status,
                                     const struct inventory_lock_epoch *epoch);

struct inventory_heartbeat {
    const char *instance;
    /* The instance has no grants older than this epoch. 0: it starts, has no grants at all, and wants `lock`.
     */
    uint64_t epoch;
    const char *lock;   /* of that epoch */
    int64_t quiet_ms;   /* how long after its last heartbeat the instance may have grants */
    int64_t fresh_ms;   /* an instance whose heartbeat is younger than this is live */
    int64_t rewrite_ms; /* for this long after a written heartbeat none is written; part of quiet_ms */
};

/* Each call answers OK with the epoch, UNAVAILABLE or UNKNOWN. */

/* Reports that this instance is live. */
void inventory_lock_epoch_heartbeat(struct inventory *inventory, const struct inventory_heartbeat *heartbeat,
                                    inventory_lock_epoch_fn *fn, void *ctx);
/* Raises the epoch, also for the same lock. After UNKNOWN it may have been raised. */
void inventory_lock_epoch_switch(struct inventory *inventory, const char *lock, inventory_lock_epoch_fn *fn,
                                 void *ctx);
/* Reports that the instance ends and has no grants any more. */
void inventory_lock_epoch_leave(struct inventory *inventory, const char *instance,
                                inventory_lock_epoch_fn *fn, void *ctx);

#endif
