/* The state of an inventory's transactions, and of one caller's work on one of them: a run makes the
 * transaction, or settles it. Then what the files of this folder do for inventory.c, and for each other. */
#ifndef INVENTORY_TRANSACTIONS_TRANSACTIONS_INTERNAL_H
#define INVENTORY_TRANSACTIONS_TRANSACTIONS_INTERNAL_H

#include "inventory/lock_epoch.h"
#include "inventory/model/keys.h"
#include "inventory/model/phases.h"
#include "inventory/purchases/purchases.h"
#include "inventory/strategies/work_delay.h"
#include "inventory/transactions.h"

/* Each group of members belongs to the file named above it: others do not change them. */
struct transactions {
    struct shared *shared;
    struct purchases *purchases;
    struct work_delay *work_delay; /* of naive baskets */

    /* transaction.c */
    struct transaction_run *lost_transactions; /* their reply was lost */

    /* reconcile.c */
    bool torn;                  /* items may lack what the journal says; who finds that sets it */
    int64_t reconcile_again_ms; /* not before, if a part of the store could not be asked */
    struct reconciling *reconciling;
    bool untold; /* a shortage that is noted may not have been told */

    /* audit_all.c */
    struct audit_all *audit_all;

    /* journal.c */
    unsigned claim_part; /* where the next claim begins */

    /* epoch.c */
    struct journal_part {
        uint64_t epoch;   /* it refuses older ones, as far as it has told; 0: it has not */
        bool asked, lost; /* it is being told; the last time had no reply, or an error */
    } journal_parts[KEY_PARTS];
    unsigned journal_turn; /* the part that is told again next */
};

struct transaction_run {
    struct transactions *transactions;
    struct inventory_transaction *transaction;
    struct transaction_run *next; /* of those that wait for the store */
    /* How to make it if the journal does not have it, also after a lost reply. NULL: it is settled, by
     * `step`. */
    void (*make)(struct transaction_run *run);
    enum inventory_step step;
    bool mine;                   /* the attempt in the journal is this run's */
    bool begun;                  /* something was written, or may have been */
    enum inventory_status found; /* the outcome of reading the journal */
    enum phase to;               /* of the move in the journal that is in flight */
    int overtaken;               /* how often another run was faster */
    int64_t debit_ns;            /* when this run's attempt began to debit; 0: it did not */
    int64_t deadline_ms;         /* not 0: a reply was lost, and the journal is asked until then */
    /* Why this run aborts it; OK: it does not. */
    enum inventory_status failure;

    /* lines.c: the read of all items, or the write to them, that is in flight. */
    enum line_write write;
    int pending;                  /* replies to come, and 1 until all calls are sent */
    enum inventory_status status; /* the worst so far; UNKNOWN: a reply was lost */
    bool stale;
    bool lacks;    /* units of a decision that are told as lost: they were sold again */
    bool refunded; /* units that had been debited */
    /* Another decision, by which orders have ended: the journal has lost it. PHASE_NONE: there is none. */
    enum phase decided;
    void (*then)(struct transaction_run *run);
    int64_t now_ms, hold_ms; /* of a read */
    struct delayed delayed;  /* between read and write, of a naive basket */
    int part_count;
    struct transaction_part {
        struct transaction_run *run;
        int line;         /* the first of this item */
        int64_t quantity; /* of all its lines */
        struct sale_keys keys;
        bool done;                     /* of a naive basket: its orders stand */
        int64_t available, limit, had; /* as read */
    } parts[];                         /* one an item */
};

/* ---- transaction.c: phase by phase ---- */

/* As transactions.h says of the functions of these names. */
void transaction_make(struct transactions *transactions, struct inventory_transaction *transaction);
void transaction_check(struct transactions *transactions, struct inventory_transaction *transaction);
void transaction_settle(struct transactions *transactions, struct inventory_transaction *transaction,
                        enum inventory_step step);
void transaction_make_at_once(struct transactions *transactions, struct inventory_transaction *transaction);
void transaction_make_naive(struct transactions *transactions, struct inventory_transaction *transaction);

/* Begins a run: makes the transaction by `make`, or settles it if that is NULL. */
void transaction_begin(struct transactions *transactions, struct inventory_transaction *transaction,
                       void (*make)(struct transaction_run *run), enum inventory_step step);
/* A new nonce: what is written from now on is this run's. */
void transaction_begin_attempt(struct transaction_run *run);
/* Ends the run: transaction->phase is at rest, and says what to answer. */
void transaction_conclude(struct transaction_run *run);
void transaction_finish(struct transaction_run *run, enum inventory_status status);

/* The run goes on from what the journal says, or ends. */
void transaction_resume(struct transaction_run *run, const struct redis_value *value);
/* A reply was lost, or the store is not there: the run begins again from the journal when the store is. */
void transaction_lost(struct transaction_run *run);

/* Begins lost runs again if the store is there, and ends those that have waited for too long, or all. */
void transaction_tick(struct transactions *transactions, bool all);

/* ---- reconcile.c: what a failover in a cluster tore ---- */

/* As transactions.h says of inventory_transactions_are_suspect(), inventory_transactions_suspect() and
 * inventory_transactions_reconcile(). */
bool reconcile_is_due(const struct transactions *transactions);
void reconcile_suspect(struct transactions *transactions);
void reconcile_begin(struct transactions *transactions, bool mend, inventory_reconciled_fn *fn, void *ctx);

/* A comparison goes on. */
void reconcile_tick(struct transactions *transactions);
/* Ends it. */
void reconcile_close(struct transactions *transactions);

/* ---- disown.c: what was made here, and again by another process ---- */

/* Undoes a few of the transactions of which putback.c found that the journal has another attempt. */
void disown_tick(struct transactions *transactions);

/* ---- audit_all.c: the audit of all items together ---- */

/* As transactions.h says of inventory_audit_all(). */
void audit_all_begin(struct transactions *transactions, inventory_audit_all_fn *fn, void *ctx);
/* It goes on. */
void audit_all_tick(struct transactions *transactions);
/* Ends it. */
void audit_all_close(struct transactions *transactions);

/* ---- epoch.c: the lock epoch in the store; lock_epoch.h says what each call answers ---- */

void epoch_heartbeat(struct transactions *transactions, const struct inventory_heartbeat *heartbeat,
                     inventory_lock_epoch_fn *fn, void *ctx);
void epoch_switch(struct transactions *transactions, const char *lock, inventory_lock_epoch_fn *fn,
                  void *ctx);
void epoch_leave(struct transactions *transactions, const char *instance, inventory_lock_epoch_fn *fn,
                 void *ctx);

#endif
