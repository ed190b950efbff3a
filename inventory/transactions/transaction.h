/* What the files that make deals share. Not for others.
 *
 * deal.c goes from step to step, deal_lines.c writes the items, journal.c writes down what was decided.
 * deal_script.c makes a basket in one step, and deal_naive.c makes it as one should not. */
#ifndef INVENTORY_TRANSACTIONS_TRANSACTION_H
#define INVENTORY_TRANSACTIONS_TRANSACTION_H

#include "inventory/internal.h"

/* Where a deal is, as the journal has it. */
enum deal_phase {
    DEAL_NONE, /* it is not in the journal */
    DEAL_INTENT,
    DEAL_UNDOING,
    DEAL_HELD,
    DEAL_CONFIRMING,
    DEAL_CANCELLING,
    DEAL_EXPIRING,
    DEAL_CONFIRMED,
    DEAL_CANCELLED,
    DEAL_EXPIRED,
    DEAL_PHASES
};

/* What is written to the items of a deal in a phase (deal_lines.c). */
enum deal_write {
    WRITE_NOTHING,
    WRITE_TAKE,
    WRITE_UNDO,
    WRITE_CONFIRM,
    WRITE_CANCEL,
    WRITE_EXPIRE,
    WRITE_SELL /* take, and no more to come: of deal_naive.c */
};

/* All phases, and how each goes on. This is also what recovery does. */
struct deal_phase_row {
    const char *name;        /* in the journal */
    bool at_rest;            /* nothing is left to do */
    enum deal_write write;   /* to be written to the items, and then */
    enum deal_phase next;    /* comes this */
    enum inventory_state is; /* what a basket in it is to its buyer; UNDONE: it is none */
};
extern const struct deal_phase_row deal_phases[DEAL_PHASES];

/* A deal that is being made or settled. */
struct deal_run {
    struct inventory *inventory;
    struct inventory_deal *deal;
    struct deal_run *next; /* among those that wait for the store */
    /* How it is made where the journal does not have it; also again, after a reply was lost. NULL: it is to
     * be settled: */
    void (*make)(struct deal_run *run);
    enum inventory_step step;
    bool mine;                   /* the attempt in the journal is this run's */
    bool begun;                  /* something was written, or may have been */
    enum inventory_status found; /* how looking into the journal ended */
    enum deal_phase to;          /* of the step of the journal that is under way */
    int overtaken;
    int64_t taking_ns;   /* since when it takes units, where the attempt is this run's */
    int64_t deadline_ms; /* not 0: a reply was lost, and so long it is asked again */
    /* Why it is undone; OK: it is not, or not by this run's will. */
    enum inventory_status failure;

    /* A write to, or a look at, all items that is under way. */
    enum deal_write write;
    int pending;
    enum inventory_status status; /* the worst so far */
    bool stale;
    bool gave_back; /* units that it had taken */
    void (*then)(struct deal_run *run);
    int64_t now_ms, hold_ms; /* of a look */
    struct delayed delayed;  /* between look and write, of deal_naive.c */
    int part_count;
    struct deal_part {
        struct deal_run *run;
        int line;         /* its first */
        int64_t quantity; /* of all its lines */
        struct sale_keys keys;
        bool done;                     /* nothing is left to do here: of deal_naive.c */
        int64_t available, limit, had; /* as a look found them */
    } parts[];                         /* one an item */
};

/* ---- deal.c ---- */

/* Makes it by `make`, or settles it. */
void deal_begin(struct inventory *inventory, struct inventory_deal *deal, void (*make)(struct deal_run *run),
                enum inventory_step step);
/* A new nonce: what is done from now on is this run's. */
void deal_begin_attempt(struct deal_run *run);
/* Ends it with what deal->phase, which is at rest, means to the one who asked. */
void deal_conclude(struct deal_run *run);
void deal_finish(struct deal_run *run, enum inventory_status status);
/* Whether the two want the same. */
bool deal_is_same(const struct inventory_deal *a, const struct inventory_deal *b);

/* Says where it is, to those who stop there: "before take 0"; `part` is the item's number, -1: of none. */
void deal_at_step(struct inventory *inventory, const char *when, const char *step, int part);

/* What the journal says of the deal: run->found is OK, and its phase is as it is there; or a reason to end.
 */
void deal_found(struct deal_run *run, const struct redis_value *value);
/* The run goes on from there, or ends. */
void deal_resume(struct deal_run *run, const struct redis_value *value);

/* A reply was lost, or the store is not there: the run begins again from the journal once it is. */
void deal_lost(struct deal_run *run);

/* ---- deal_lines.c ---- */

/* Fills in the parts of a run that has room for as many as lines. */
void deal_parts_make(struct deal_run *run);
/* The number of a line's part. */
int deal_part_of(const struct deal_run *run, int line);
/* By what its order is found. */
void deal_line_digest(const struct inventory_deal *deal, int line, char digest[INVENTORY_DIGEST_SIZE]);
/* What a script's word for a line that it refuses means; false: it is none. */
bool deal_refusal(const char *word, enum inventory_status *status);
/* Looks at every item, and then into the journal (deal_found()), and calls `then`: run->status is OK, and
 * run->hold_ms the shortest hold, or why not: deal->failed says which line. Calls deal_lost() instead where a
 * reply was lost. */
void deal_look(struct deal_run *run, void (*then)(struct deal_run *run));
/* The same without the journal. */
void deal_look_items(struct deal_run *run, void (*then)(struct deal_run *run));
/* As deal_look_items(), by what is known of the items and not of the user: those that ask for one item at the
 * same time share a reply, so that a crowd which is refused costs the store little. */
void deal_check_items(struct deal_run *run, void (*then)(struct deal_run *run));
/* Writes to every item what is to be written, then calls `then`, in the same way. */
void deal_write(struct deal_run *run, enum deal_write write, void (*then)(struct deal_run *run));
/* Has `fn` ask each item, or write to it, then calls `then`, in the same way. Each part is counted down once,
 * but for what `fn` adds to run->pending; false: nothing was sent. */
void deal_each_part(struct deal_run *run, enum deal_write write, const char *step,
                    bool (*fn)(struct deal_part *part, enum deal_write write),
                    void (*then)(struct deal_run *run));
/* One reply is there, or will never be: not `good`. */
void deal_count_down(struct deal_run *run, bool good);

/* ---- journal.c: PHASE NONCE CREATED_MS EXPIRES_MS USER ITEM:QUANTITY,… ---- */

enum { JOURNAL_FIELD_SIZE = INVENTORY_DIGEST_SIZE + 2, JOURNAL_RECORD_SIZE = 2560 };

/* In one slot. */
#define JOURNAL_KEY      "seckill:{baskets}:journal"
#define JOURNAL_OPEN_KEY "seckill:{baskets}:open"

void journal_field(char out[JOURNAL_FIELD_SIZE], const struct inventory_deal *deal);
/* ITEM:QUANTITY,… */
void journal_print_lines(char out[JOURNAL_RECORD_SIZE], const struct inventory_deal *deal);
void journal_print(char out[JOURNAL_RECORD_SIZE], const struct inventory_deal *deal);
/* Reads a deal (its kind, id, and the caller's own things are not in the record and are left as they are);
 * false where it is none, and `deal` is untouched. */
bool journal_read(struct inventory_deal *deal, const char *record);
/* Replaces what the journal has by the deal in phase `to`; DEAL_NONE: by nothing. Others may finish it from
 * `due_ms` on; 0: there is nothing to finish. The reply: 1, or what stands there instead, or
 * -1: another lock is in force than that whose epoch the deal has. False: not sent. */
bool journal_move(struct inventory *inventory, const struct inventory_deal *deal, enum deal_phase to,
                  int64_t due_ms, redis_reply_fn *fn, void *ctx);
bool journal_ask(struct inventory *inventory, const struct inventory_deal *deal, redis_reply_fn *fn,
                 void *ctx);

#endif
