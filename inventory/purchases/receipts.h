/* Receipts: what this inventory acknowledged, until a replica that can be promoted has it. putback.h shows
 * them to a server that may lack some of it. Pure: no I/O, no clock.
 *
 * A receipt is what the store has under one name, by its kind: the record of an order, a restock or a step of
 * a transfer, a record in the journal, an item's terms. A newer one of the same name takes the place of the
 * older one; an order that was lost, and made again, stands beside it.
 *
 * Each belongs to a history (struct replication) by its number, and has a place in the order of time (`seq`).
 * A history is covered up to a place: replicas have all that was acknowledged until then. What is not covered
 * is kept, up to RECEIPTS_MAX; if there are more, the oldest is forgotten, and that is noted. What is covered
 * is kept for a while longer, since a replica may itself lose what it wrote last, as may a server without
 * replicas, or a slot may move to a master whose replica has not got it; and until its server is there again,
 * or another one in its place. Nothing is added to a history whose server is away: so that is no more and
 * more. */
#ifndef INVENTORY_PURCHASES_RECEIPTS_H
#define INVENTORY_PURCHASES_RECEIPTS_H

#include <sys/queue.h>

#include "inventory/inventory.h"

enum {
    RECEIPTS_MAX = 1 << 20,
    /* Covered ones are kept for the first time, and, while there are no more than so many, for the second. */
    RECEIPTS_COVERED_SHORT_MS = 3000,
    RECEIPTS_COVERED_MOST = 65536,
    RECEIPTS_COVERED_LONG_MS = 60000,
    RECEIPTS_HISTORIES = 64
};

enum receipt_kind { RECEIPT_ITEM, RECEIPT_MOVE, RECEIPT_ORDER, RECEIPT_JOURNAL };

/* Small, since a busy sale has a hundred thousand of them. */
struct receipt {
    TAILQ_ENTRY(receipt) next;
    struct receipt *chain; /* in its bucket, if it is in the index */
    uint64_t seq;
    int64_t at_ms;
    uint32_t hash;    /* of its name, if it is in the index */
    unsigned history; /* by its number; 0: of a server that does not tell it, so that it counts as covered */
    enum receipt_kind kind : 8;
    bool indexed; /* it can be found by its name */
    bool told;    /* that it does not fit was told */
    bool todo;    /* of a JOURNAL: an attempt is to be undone */
    bool busy;    /* that is being done */
    uint16_t field_at, record_at;
    uint32_t at; /* in its slab */
    char text[]; /* place, field and record, see receipt_place() */
};

TAILQ_HEAD(receipt_list, receipt);

/* What is known of a history. */
struct receipts_history {
    unsigned number;
    bool synced;            /* what is acknowledged is on the only disk already: nothing need be kept */
    bool away;              /* its server is: what may be shown to it stays */
    uint64_t covered;       /* what was added until this one is */
    uint64_t forgotten;     /* the newest that was forgotten without; 0: none was */
    uint64_t dropped;       /* the newest that was covered, or synced, and is kept no more; 0: none was */
    struct receipt *passed; /* the last one that this pass over all of them has met; NULL: none yet */
};

struct receipts {
    int max; /* RECEIPTS_MAX */
    int count, todo;
    uint64_t seq;             /* of the newest */
    struct receipt_list list; /* the oldest first */
    /* The index by name. A receipt is entered when the next one is searched for: orders that are sold, and
     * confirmed at once, are never searched for, and a bucket is a cache miss. */
    struct receipt_bucket {
        struct receipt *first;
    } * buckets; /* a power of two of them; NULL: none was added */
    size_t bucket_count;
    struct receipt *unindexed;         /* the first one, from which on none is in the index; NULL: all are */
    struct receipt_slab *slab, *spare; /* the one that is filled, and empty ones */
    bool forgotten;                    /* one whose history is not known any more */
    struct receipts_history histories[RECEIPTS_HISTORIES];
    int history_count;
    struct receipt *ticked; /* the last one that receipts_tick() left behind; NULL: it begins anew */
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

/* Copies the texts. Out of memory it counts as forgotten. `is_first`: there is no older one of its name,
 * which need not be searched for. */
void receipts_add(struct receipts *receipts, enum receipt_kind kind, const char *place, const char *field,
                  const char *record, unsigned history, int64_t now_ms, bool is_first);
/* The one that was added with this `seq`, or adopted; NULL: it is gone. */
struct receipt *receipts_find_seq(struct receipts *receipts, enum receipt_kind kind, const char *place,
                                  const char *field, uint64_t seq);
/* The newest of this name; NULL: there is none. */
struct receipt *receipts_find(struct receipts *receipts, enum receipt_kind kind, const char *place,
                              const char *field);
void receipts_remove(struct receipts *receipts, struct receipt *receipt);
/* Sets `todo`, and that nobody does it now. */
void receipts_mark(struct receipts *receipts, struct receipt *receipt, bool todo);
/* It is in this history by now, and as old as if it had been added. */
void receipts_adopt(struct receipts *receipts, struct receipt *receipt, unsigned history, int64_t now_ms);

/* A history begins, or ends. There are no more than RECEIPTS_HISTORIES. */
void receipts_begin_history(struct receipts *receipts, unsigned number);
void receipts_end_history(struct receipts *receipts, unsigned number);
/* A pass over all receipts that are not in this history, the oldest first; what is added meanwhile is met
 * too. */
void receipts_begin_pass(struct receipts *receipts, unsigned number);
/* NULL: all were met. */
struct receipt *receipts_pass(struct receipts *receipts, unsigned number);
/* All that was added to the history until `seq` is covered. */
void receipts_cover(struct receipts *receipts, unsigned number, uint64_t seq);

/* `synced` of a history, false if there is none such. */
bool receipts_is_synced(struct receipts *receipts, unsigned number);
void receipts_set_synced(struct receipts *receipts, unsigned number, bool synced);
/* Sets `away` of a history. */
void receipts_set_away(struct receipts *receipts, unsigned number, bool away);
/* True: nothing of this history need be kept, and nothing is. Then what was just acknowledged is not to be
 * added. */
bool receipts_skip(struct receipts *receipts, unsigned number);
/* See struct receipts_history. */
uint64_t receipts_dropped(struct receipts *receipts, unsigned number);

/* How many are not covered, or still to be done something about. Reads all of them. */
int receipts_open(struct receipts *receipts);
/* Whether some of the history were forgotten that are not covered; then says so no more. 0: of histories that
 * have ended. */
bool receipts_take_forgotten(struct receipts *receipts, unsigned number);

/* Forgets what is covered and old, but for that whose server is away. To be called now and then, but not
 * while they are shown. */
void receipts_tick(struct receipts *receipts, int64_t now_ms);

#endif
