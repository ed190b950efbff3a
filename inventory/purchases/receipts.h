/* Receipts: what this inventory has acknowledged, kept until a replica that can be promoted has it. putback.h
 * shows them to a server that may lack some of it. Pure: no I/O, no clock.
 *
 * A receipt is what the store has under one name: the record of an order, a restock or a step of a transfer,
 * a record of the journal, or an item's terms. A newer receipt of the same name replaces the older one. An
 * order that was lost and made again has its own receipt beside the first.
 *
 * Each receipt belongs to a history (struct replication), by the history's number, and has a sequence number
 * (`seq`). A history is replicated up to a sequence number: replicas have all that was acknowledged until
 * then. Where no replica can be promoted, all that was acknowledged counts as replicated.
 * - Receipts that are not replicated are kept, up to RECEIPTS_MAX. Beyond that the oldest one is forgotten,
 * and the history notes that.
 * - Replicated receipts are kept for a while longer. A replica may itself lose what it wrote last, as may a
 *   server without replicas; and a slot may move to a master whose replica does not have it yet. They are
 *   also kept until their server is back, or another one is in its place. Nothing is added to a history
 *   whose server is away, so these do not grow in number. */
#ifndef INVENTORY_PURCHASES_RECEIPTS_H
#define INVENTORY_PURCHASES_RECEIPTS_H

#include <sys/queue.h>

#include "inventory/inventory.h"

enum {
    RECEIPTS_MAX = 1 << 20,
    /* Replicated receipts are kept for the SHORT time; while there are at most MOST of them, for the LONG
     * time.
     */
    RECEIPTS_REPLICATED_SHORT_MS = 3000,
    RECEIPTS_REPLICATED_MOST = 65536,
    RECEIPTS_REPLICATED_LONG_MS = 60000,
    RECEIPTS_HISTORIES = 64
};

/* What it is a receipt of; and the kind of loss if that is lost. */
enum receipt_kind {
    RECEIPT_ITEM = INVENTORY_LOST_ITEM,
    RECEIPT_MOVE = INVENTORY_LOST_MOVE,
    RECEIPT_ORDER = INVENTORY_LOST_ORDER,
    RECEIPT_JOURNAL = INVENTORY_LOST_TRANSACTION
};

/* Small, since a busy sale has a hundred thousand of them. */
struct receipt {
    TAILQ_ENTRY(receipt) next;
    struct receipt *chain; /* in its bucket, if it is in the index */
    uint64_t seq;
    int64_t at_ms;
    uint32_t hash;    /* of its name; set once it is in the index */
    unsigned history; /* its number; 0: not told, counts as replicated */
    enum receipt_kind kind : 8;
    bool indexed; /* it can be found by its name */
    bool told;    /* it was reported that it does not fit */
    bool todo;    /* of a JOURNAL: its attempt must be undone, see disown.c */
    bool busy;    /* that is in progress */
    uint16_t field_at, record_at;
    uint32_t at; /* in its slab */
    char text[]; /* place, field and record, see receipt_place() */
};

TAILQ_HEAD(receipt_list, receipt);

/* A history, as far as receipts need it. */
struct receipts_history {
    unsigned number;
    bool synced;         /* what is acknowledged is synced to the only disk: nothing need be kept */
    bool away;           /* its server is away: what may be shown to it stays */
    uint64_t replicated; /* all receipts up to this one are replicated */
    uint64_t forgotten;  /* the newest receipt that was forgotten before it was replicated; 0: none was */
    uint64_t
        dropped; /* the newest replicated or synced receipt that is not kept any more; 0: there is none */
    struct receipt *passed; /* the last receipt that the current pass has met; NULL: none yet */
};

struct receipts {
    int max; /* RECEIPTS_MAX */
    int count, todo;
    uint64_t seq;             /* of the newest receipt */
    struct receipt_list list; /* the oldest first */
    /* The index by name. New receipts are entered only when something is searched for: orders that are sold
     * at once are never searched for, and a bucket is a cache miss. */
    struct receipt_bucket {
        struct receipt *first;
    } * buckets; /* a power of two of them; NULL: none was added */
    size_t bucket_count;
    /* The first receipt that is not in the index; nor are those behind it. NULL: all are. */
    struct receipt *unindexed;
    struct receipt_slab *slab, *spare; /* the slab that is being filled; empty slabs */
    bool forgotten;                    /* a receipt was forgotten whose history is not known any more */
    struct receipts_history histories[RECEIPTS_HISTORIES];
    int history_count;
    struct receipt *ticked; /* the last receipt that receipts_tick() passed over; NULL: it begins anew */
};

/* The item; of JOURNAL the part. */
static inline const char *receipt_place(const struct receipt *receipt) {
    return receipt->text;
}

/* ORDER and MOVE: the digest; JOURNAL: the transaction; ITEM: "". */
static inline const char *receipt_field(const struct receipt *receipt) {
    return receipt->text + receipt->field_at;
}

static inline const char *receipt_record(const struct receipt *receipt) {
    return receipt->text + receipt->record_at;
}

void receipts_init(struct receipts *receipts);
void receipts_free(struct receipts *receipts);

/* Adds a receipt, and copies the texts. When out of memory, the receipt counts as forgotten. `is_first`:
 * there is no older receipt of its name, so none is searched for. */
void receipts_add(struct receipts *receipts, enum receipt_kind kind, const char *place, const char *field,
                  const char *record, unsigned history, int64_t now_ms, bool is_first);
/* The receipt of this name that was added or adopted with this `seq`; NULL: it is gone. */
struct receipt *receipts_find_seq(struct receipts *receipts, enum receipt_kind kind, const char *place,
                                  const char *field, uint64_t seq);
/* The newest receipt of this name; NULL: there is none. */
struct receipt *receipts_find(struct receipts *receipts, enum receipt_kind kind, const char *place,
                              const char *field);
void receipts_remove(struct receipts *receipts, struct receipt *receipt);
/* Sets `todo`, and clears `busy`. */
void receipts_mark(struct receipts *receipts, struct receipt *receipt, bool todo);
/* Moves the receipt to this history, as if it had just been added there. */
void receipts_adopt(struct receipts *receipts, struct receipt *receipt, unsigned history, int64_t now_ms);

/* Begin and end a history. There are at most RECEIPTS_HISTORIES. */
void receipts_begin_history(struct receipts *receipts, unsigned number);
void receipts_end_history(struct receipts *receipts, unsigned number);
/* Begins a pass over all receipts that are not in this history, the oldest first. The pass also meets those
 * that are added meanwhile. */
void receipts_begin_pass(struct receipts *receipts, unsigned number);
/* The next receipt of the pass; NULL: all were met. */
struct receipt *receipts_pass(struct receipts *receipts, unsigned number);
/* Marks all receipts of the history up to `seq` as replicated. */
void receipts_set_replicated(struct receipts *receipts, unsigned number, uint64_t seq);

/* `synced` of a history, false if there is none such. */
bool receipts_is_synced(struct receipts *receipts, unsigned number);
void receipts_set_synced(struct receipts *receipts, unsigned number, bool synced);
/* Sets `away` of a history. */
void receipts_set_away(struct receipts *receipts, unsigned number, bool away);
/* True: nothing of this history need be kept, and no receipt is. Then do not add what was just acknowledged.
 */
bool receipts_skip(struct receipts *receipts, unsigned number);
/* `dropped` of a history. */
uint64_t receipts_dropped(struct receipts *receipts, unsigned number);

/* How many receipts are not replicated, or have `todo`. Reads all of them. */
int receipts_open(struct receipts *receipts);
/* Whether receipts of the history were forgotten before they were replicated; clears that. 0: of the
 * histories that have ended. */
bool receipts_take_forgotten(struct receipts *receipts, unsigned number);

/* Forgets replicated receipts that are old, unless their server is away. Call it now and then, but not while
 * receipts are shown. */
void receipts_tick(struct receipts *receipts, int64_t now_ms);

#endif
