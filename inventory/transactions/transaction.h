/* What the files that make transactions share. Not for others.
 *
 * transaction.c goes from step to step, transaction_lines.c writes the items, journal.c writes down what was
 * decided. transaction_script.c makes a basket in one step, and transaction_naive.c makes it as one should
 * not. */
#ifndef INVENTORY_TRANSACTIONS_TRANSACTION_H
#define INVENTORY_TRANSACTIONS_TRANSACTION_H

#include "inventory/internal.h"

/* Where a transaction is, as the journal has it. */
enum phase {
    PHASE_NONE, /* it is not in the journal */
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

/* What is written to the items of a transaction in a phase (transaction_lines.c). */
enum line_write {
    WRITE_NOTHING,
    WRITE_DEBIT,
    WRITE_ABORT,
    WRITE_CONFIRM,
    WRITE_CANCEL,
    WRITE_EXPIRE,
    WRITE_SELL /* take, and no more to come: of transaction_naive.c */
};

/* All phases, and how each goes on. This is also what recovery does. */
struct phase_row {
    const char *name;        /* in the journal */
    bool at_rest;            /* nothing is left to do */
    enum line_write write;   /* to be written to the items, and then */
    enum phase next;         /* comes this */
    enum inventory_state is; /* what a basket in it is to its buyer; UNDONE: it is none */
};
extern const struct phase_row phases[PHASES];

/* A transaction that is being made or settled. */
struct transaction_run {
    struct inventory *inventory;
    struct inventory_transaction *transaction;
    struct transaction_run *next; /* among those that wait for the store */
    /* How it is made where the journal does not have it; also again, after a reply was lost. NULL: it is to
     * be settled: */
    void (*make)(struct transaction_run *run);
    enum inventory_step step;
    bool mine;                   /* the attempt in the journal is this run's */
    bool begun;                  /* something was written, or may have been */
    enum inventory_status found; /* how looking into the journal ended */
    enum phase to;               /* of the step of the journal that is under way */
    int overtaken;
    int64_t taking_ns;   /* since when it takes units, where the attempt is this run's */
    int64_t deadline_ms; /* not 0: a reply was lost, and so long it is asked again */
    /* Why it is undone; OK: it is not, or not by this run's will. */
    enum inventory_status failure;

    /* A write to, or a look at, all items that is under way. */
    enum line_write write;
    int pending;
    enum inventory_status status; /* the worst so far */
    bool stale;
    bool refunded; /* units that it had taken */
    void (*then)(struct transaction_run *run);
    int64_t now_ms, hold_ms; /* of a look */
    struct delayed delayed;  /* between look and write, of transaction_naive.c */
    int part_count;
    struct transaction_part {
        struct transaction_run *run;
        int line;         /* its first */
        int64_t quantity; /* of all its lines */
        struct sale_keys keys;
        bool done;                     /* nothing is left to do here: of transaction_naive.c */
        int64_t available, limit, had; /* as a look found them */
    } parts[];                         /* one an item */
};

/* ---- transaction.c ---- */

/* Makes it by `make`, or settles it. */
void transaction_begin(struct inventory *inventory, struct inventory_transaction *transaction,
                       void (*make)(struct transaction_run *run), enum inventory_step step);
/* A new nonce: what is done from now on is this run's. */
void transaction_begin_attempt(struct transaction_run *run);
/* Ends it with what transaction->phase, which is at rest, means to the one who asked. */
void transaction_conclude(struct transaction_run *run);
void transaction_finish(struct transaction_run *run, enum inventory_status status);
/* Whether the two want the same. */
bool transaction_is_same(const struct inventory_transaction *a, const struct inventory_transaction *b);

/* Says where it is, to those who stop there: "before take 0"; `part` is the item's number, -1: of none. */
void transaction_failpoint(struct inventory *inventory, const char *when, const char *step, int part);

/* What the journal says of the transaction: run->found is OK, and its phase is as it is there; or a reason to
 * end.
 */
void transaction_found(struct transaction_run *run, const struct redis_value *value);
/* The run goes on from there, or ends. */
void transaction_resume(struct transaction_run *run, const struct redis_value *value);

/* A reply was lost, or the store is not there: the run begins again from the journal once it is. */
void transaction_lost(struct transaction_run *run);

/* ---- transaction_lines.c ---- */

/* Fills in the parts of a run that has room for as many as lines. */
void transaction_parts_make(struct transaction_run *run);
/* The number of a line's part. */
int transaction_part_of(const struct transaction_run *run, int line);
/* By what its order is found. */
void transaction_line_digest(const struct inventory_transaction *transaction, int line,
                             char digest[INVENTORY_DIGEST_SIZE]);
/* What a script's word for a line that it refuses means; false: it is none. */
bool transaction_refusal(const char *word, enum inventory_status *status);
/* Looks at every item, and then into the journal (transaction_found()), and calls `then`: run->status is OK,
 * and run->hold_ms the shortest hold, or why not: transaction->failed says which line. Calls
 * transaction_lost() instead where a reply was lost. */
void transaction_read(struct transaction_run *run, void (*then)(struct transaction_run *run));
/* The same without the journal. */
void transaction_read_items(struct transaction_run *run, void (*then)(struct transaction_run *run));
/* As transaction_read_items(), by what is known of the items and not of the user: those that ask for one item
 * at the same time share a reply, so that a crowd which is refused costs the store little. */
void transaction_check_items(struct transaction_run *run, void (*then)(struct transaction_run *run));
/* Writes to every item what is to be written, then calls `then`, in the same way. */
void transaction_write(struct transaction_run *run, enum line_write write,
                       void (*then)(struct transaction_run *run));
/* Has `fn` ask each item, or write to it, then calls `then`, in the same way. Each part is counted down once,
 * but for what `fn` adds to run->pending; false: nothing was sent. */
void transaction_each_part(struct transaction_run *run, enum line_write write, const char *step,
                           bool (*fn)(struct transaction_part *part, enum line_write write),
                           void (*then)(struct transaction_run *run));
/* One reply is there, or will never be: not `good`. */
void transaction_count_down(struct transaction_run *run, bool good);

/* ---- journal.c: PHASE NONCE CREATED_MS EXPIRES_MS USER ITEM:QUANTITY,… ---- */

enum { JOURNAL_FIELD_SIZE = INVENTORY_DIGEST_SIZE + 2, JOURNAL_RECORD_SIZE = 2560 };

/* In one slot. */
#define JOURNAL_KEY      "seckill:{baskets}:journal"
#define JOURNAL_OPEN_KEY "seckill:{baskets}:open"

void journal_field(char out[JOURNAL_FIELD_SIZE], const struct inventory_transaction *transaction);
/* ITEM:QUANTITY,… */
void journal_print_lines(char out[JOURNAL_RECORD_SIZE], const struct inventory_transaction *transaction);
void journal_print(char out[JOURNAL_RECORD_SIZE], const struct inventory_transaction *transaction);
/* Reads a transaction (its kind, id, and the caller's own things are not in the record and are left as they
 * are); false where it is none, and `transaction` is untouched. */
bool journal_read(struct inventory_transaction *transaction, const char *record);
/* Replaces what the journal has by the transaction in phase `to`; PHASE_NONE: by nothing. Others may finish
 * it from `due_ms` on; 0: there is nothing to finish. The reply: 1, or what stands there instead, or -1:
 * another lock is in force than that whose epoch the transaction has. False: not sent. */
bool journal_move(struct inventory *inventory, const struct inventory_transaction *transaction, enum phase to,
                  int64_t due_ms, redis_reply_fn *fn, void *ctx);
bool journal_ask(struct inventory *inventory, const struct inventory_transaction *transaction,
                 redis_reply_fn *fn, void *ctx);

#endif
