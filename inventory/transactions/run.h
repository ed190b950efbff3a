/* The state of an inventory's transactions, and of one caller's work on one of them: a run makes the
 * transaction, or settles it. */
#ifndef INVENTORY_TRANSACTIONS_RUN_H
#define INVENTORY_TRANSACTIONS_RUN_H

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

#endif
