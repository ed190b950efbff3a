/* One caller's work on a transaction: it makes the transaction, or settles it. */
#ifndef INVENTORY_TRANSACTIONS_RUN_H
#define INVENTORY_TRANSACTIONS_RUN_H

#include "inventory/context.h"
#include "inventory/model/phases.h"
#include "inventory/strategies/work_delay.h"
#include "inventory/transactions.h"

struct transaction_run {
    struct inventory *inventory;
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
