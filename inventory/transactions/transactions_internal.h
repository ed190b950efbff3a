/* The state of an inventory's transactions, and what the files of this folder do for inventory.c and for each
 * other. A run is one caller's work on one transaction: it makes the transaction, or settles it. */
#ifndef INVENTORY_TRANSACTIONS_TRANSACTIONS_INTERNAL_H
#define INVENTORY_TRANSACTIONS_TRANSACTIONS_INTERNAL_H

#include "inventory/strategies/strategies.h"
#include "inventory/transactions.h"

/* Each group of members belongs to the file named above it: other files do not change them. */
struct transactions {
    struct inventory *inventory;
    struct shared *shared;
    struct purchases *purchases;

    /* transaction.c */
    struct transaction_run *lost_transactions; /* runs whose reply was lost */

    /* reconcile.c */
    int64_t reconcile_again_ms; /* the earliest next attempt, after a part of the store could not be asked */
    struct reconciling *reconciling;
    bool untold; /* a shortage may have been noted without being told */

    /* audit_all.c */
    struct audit_all *audit_all;

    /* journal.c */
    unsigned claim_part; /* where the next claim begins */

    /* epoch.c */
    struct journal_part {
        struct shared *shared;
        uint64_t epoch;       /* the part refuses older epochs, as far as it has answered; 0: it has not */
        bool asked, lost;     /* a call is in flight; the last call failed, or had no reply */
        uint64_t asked_epoch; /* of the call in flight */
    } journal_parts[KEY_PARTS];
    unsigned journal_turn; /* the part that is told again next */
};

/* ---- phases ---- */

/* The phase of a transaction in the journal. */
enum phase {
    PHASE_NONE, /* not in the journal */
    PHASE_INTENT,
    PHASE_ABORTING,
    PHASE_HELD,
    PHASE_CONFIRMING,
    PHASE_CANCELLING,
    PHASE_EXPIRING,
    PHASE_CONFIRMED,
    PHASE_CANCELLED,
    PHASE_EXPIRED,
    PHASES
};

/* What is written to the items of a transaction in a phase. */
enum line_write {
    WRITE_NOTHING,
    WRITE_DEBIT,
    WRITE_ABORT,
    WRITE_CONFIRM,
    WRITE_CANCEL,
    WRITE_EXPIRE,
    WRITE_SELL, /* a debit that sells at once, for a naive basket */
    /* Undoes the whole attempt, since the journal has another one. Of a transfer it undoes only the arrival.
     */
    WRITE_DISOWN
};

struct phase_row {
    const char *name;        /* in the journal */
    bool at_rest;            /* nothing is left to do */
    enum line_write write;   /* written to the items first */
    enum phase next;         /* the phase after that write */
    enum inventory_state is; /* the state of a basket in this phase; ABORTED: there is no basket */
    /* The last write that all items must have; NOTHING: the transaction is not decided, or is being undone.
     */
    enum line_write written;
};
/* How each phase goes on. Recovery uses the same table. Defined in journal.c. */
extern const struct phase_row phases[PHASES];

/* ---- a run ---- */

struct transaction_run;
struct transaction_part;
typedef void transaction_run_fn(struct transaction_run *run);
typedef void transaction_part_fn(struct transaction_part *part);

struct transaction_run {
    struct transactions *transactions;
    struct shared *shared;
    struct inventory_transaction *transaction;
    struct transaction_run *next; /* in the list of lost runs */
    /* Makes the transaction if the journal does not have it, also after a lost reply. NULL: the run settles
     * the transaction by `step`. */
    transaction_run_fn *make;
    enum inventory_step step;
    bool mine;                     /* the attempt in the journal is this run's */
    bool begun;                    /* something was written, or may have been */
    enum inventory_status found;   /* the outcome of reading the journal */
    enum phase to;                 /* target of the journal move in flight */
    int overtaken;                 /* how often another run was faster */
    int64_t debit_ns;              /* when this run's attempt began to debit; 0: it did not */
    int64_t deadline_ms;           /* not 0: a reply was lost, and the run asks the journal until then */
    enum inventory_status failure; /* why this run aborts the transaction; OK: it does not */

    /* lines.c: the read of all items, or the write to them, that is in flight. */
    enum line_write write;
    bool fenced;                  /* items refuse tokens older than those of this read */
    int pending;                  /* replies to come, and 1 until all calls are sent */
    enum inventory_status status; /* the worst so far; UNKNOWN: a reply was lost */
    bool stale;
    bool lacks;    /* an item cannot give the decided units: a failover lost them, and they were sold again */
    bool refunded; /* debited units came back */
    /* The other decision by which orders have ended; the journal has lost it. PHASE_NONE: there is none. */
    enum phase decided;
    transaction_run_fn *then;
    int64_t now_ms, hold_ms; /* of a read */
    struct delayed delayed;  /* of a naive basket: between read and write */
    int part_count;
    struct transaction_part {
        struct transaction_run *run;
        int line;         /* the first line of this item */
        int64_t quantity; /* of all its lines */
        struct sale_keys keys;
        bool done;                     /* of a naive basket: its orders stand */
        int64_t available, limit, had; /* as read */
    } parts[];                         /* one an item */
};

/* ---- transaction.c: phase by phase ---- */

/* Begins a run that makes the transaction by `make`, or settles it if `make` is NULL. */
void transaction_begin(struct transactions *transactions, struct inventory_transaction *transaction,
                       transaction_run_fn *make, enum inventory_step step);
/* Draws a new nonce: what is written from now on belongs to this run's attempt. */
void transaction_begin_attempt(struct transaction_run *run);
/* Ends the run with the answer that transaction->phase stands for, which is at rest. */
void transaction_conclude(struct transaction_run *run);
/* Ends and frees the run, and calls transaction->done with `status`. */
void transaction_finish(struct transaction_run *run, enum inventory_status status);

/* Continues the run from the journal's reply, or ends it. */
void transaction_resume(struct transaction_run *run, const struct redis_value *value);
/* A reply was lost, or the store is away: the run begins again from the journal once the store is back. */
void transaction_lost(struct transaction_run *run);

/* Begins lost runs again if the store is up. Ends those past their deadline; `all`: ends every one. */
void transaction_tick(struct transactions *transactions, bool all);

/* ---- journal.c: the decisions ---- */

enum { JOURNAL_FIELD_SIZE = INVENTORY_DIGEST_SIZE + 2, JOURNAL_RECORD_SIZE = 2560 };

/* The transaction's field in the journal: its kind and id. */
void journal_field(char out[JOURNAL_FIELD_SIZE], const struct inventory_transaction *transaction);
/* ITEM:QUANTITY,... */
void journal_print_lines(char out[JOURNAL_RECORD_SIZE], const struct inventory_transaction *transaction);
void journal_print(char out[JOURNAL_RECORD_SIZE], const struct inventory_transaction *transaction);
/* Reads a record. The record does not have kind, id and the caller's members, so these stay as they are.
 * False: the text is not a record, and `transaction` is untouched. */
bool journal_read(struct inventory_transaction *transaction, const char *record);
/* Reads a field and its record into `transaction`, and clears all else. False: this version does not know
 * such a field or record, and the content of `transaction` means nothing. */
bool journal_read_entry(struct inventory_transaction *transaction, const char *field, const char *record);

/* Whether both ask for the same. */
bool journal_is_same(const struct inventory_transaction *a, const struct inventory_transaction *b);

/* Asks for the record; `fn` gets the reply to HGET. */
void journal_ask(struct transactions *transactions, const struct inventory_transaction *transaction,
                 redis_reply_fn *fn, void *ctx);
/* Replaces the journal's record, if it is as `transaction` says, by the one of phase `to`; PHASE_NONE removes
 * it. Others may finish the transaction from `due_ms` on; 0: there is nothing to finish. The reply: 1; or the
 * record that stands there instead; or -1: the journal knows a newer lock epoch than the transaction's. */
void journal_move(struct transactions *transactions, const struct inventory_transaction *transaction,
                  enum phase to, int64_t due_ms, redis_reply_fn *fn, void *ctx);

/* Keeps a receipt that the journal has the transaction in this phase, so that a failover that loses the
 * record is noticed. PHASE_NONE: forgets the receipt. */
void journal_keep(struct transactions *transactions, const struct inventory_transaction *transaction,
                  enum phase phase, int64_t due_ms);
/* The same for a record that was just read; call it in the callback of the reply. Its maker may be gone, and
 * this process tells somebody of the record. A record that is not decided is left to its maker. */
void journal_keep_found(struct transactions *transactions, const struct inventory_transaction *transaction);

/* Has a part refuse grants of older lock epochs from now on. */
void journal_raise_epoch(struct transactions *transactions, unsigned part, uint64_t epoch, redis_reply_fn *fn,
                         void *ctx);

/* ---- lines.c: what a transaction does to its items, by line.lua: one call an item, all in flight at once
 *
 * Each of these calls ends with `then`. run->status is then OK, or the reason for a refusal
 * (transaction->failed names the line), or UNKNOWN: a reply was lost. ---- */

/* Fills in run->parts, which has room for one part a line. */
void lines_make_parts(struct transaction_run *run);
/* The index of the line's part. */
int lines_part_of(const struct transaction_run *run, int line);
/* The lines of the part; returns how many. */
int lines_of(const struct transaction_part *part, int lines[INVENTORY_LINES_MAX]);
/* The digest under which the line's order is kept. */
void lines_digest(const struct inventory_transaction *transaction, int line,
                  char digest[INVENTORY_DIGEST_SIZE]);

/* Reads every item, and sets run->hold_ms to the shortest hold. `fenced`: the items refuse older fencing
 * tokens from then on. The caller must call lines_count_down(run, true) afterwards; before that it may add
 * calls of its own to run->pending. */
void lines_read(struct transaction_run *run, bool fenced, transaction_run_fn *then);
/* Reads every item, but not the user's units. Runs that ask for one item at the same time share a reply, so a
 * crowd that is refused costs the store little. */
void lines_check(struct transaction_run *run, transaction_run_fn *then);
/* Writes to every item. */
void lines_write(struct transaction_run *run, enum line_write write, transaction_run_fn *then);
/* Has `fn` send a call for each item, whose reply must call lines_count_down() once. `fn` adds further calls
 * to run->pending. */
void lines_each_part(struct transaction_run *run, enum line_write write, const char *failpoint_name,
                     transaction_part_fn *fn, transaction_run_fn *then);
/* Keeps a receipt that the line's order was written in this state, so that a failover that loses it is
 * noticed. */
void lines_keep(struct transactions *transactions, const struct inventory_transaction *transaction, int line,
                enum line_write write);
/* Print what a write leaves in the store: the line's order; of a transfer the move of its units (WORD
 * QUANTITY ID). */
void lines_print_order(char out[RECORD_SIZE], const struct inventory_transaction *transaction, int line,
                       enum line_write write);
void lines_print_move(char out[RECORD_SIZE], const struct inventory_transaction *transaction, int line,
                      enum line_write write);
/* Counts one reply. `good` is false if it was lost. The last one calls run->then. */
void lines_count_down(struct transaction_run *run, bool good);

/* ---- reconcile.c: what a failover in a cluster tore ---- */

/* Continues a comparison; call it at each tick. */
void reconcile_tick(struct transactions *transactions);
/* Ends a comparison. */
void reconcile_close(struct transactions *transactions);

/* ---- disown.c: what was made here, and again by another process ---- */

/* Undoes a few of the transactions for which putback.c found another attempt in the journal. */
void disown_tick(struct transactions *transactions);

/* ---- audit_all.c: the audit of all items together ---- */

/* Continues an audit; call it at each tick. */
void audit_all_tick(struct transactions *transactions);
/* Ends an audit. */
void audit_all_close(struct transactions *transactions);

#endif
