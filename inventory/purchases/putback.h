/* Puts back what was acknowledged and then lost by a failover of the store: receipts are shown to a server
 * (putback.lua), which gets what it lacks. failover.c says when that happens. */
#ifndef INVENTORY_PURCHASES_PUTBACK_H
#define INVENTORY_PURCHASES_PUTBACK_H

#include "inventory/purchases/purchases.h"
#include "inventory/purchases/receipts.h"

struct redis;
struct server;

/* A few more than the questions that are asked in RECEIPTS_REPLICATED_LONG_MS. */
enum { HISTORY_OFFSETS = 128 };

/* A history of a server (struct replication), and what was done about it. */
struct history {
    unsigned number; /* unique among this inventory's histories */
    char id[REPLICATION_ID_SIZE];
    /* NEW: receipts are still to be shown. SHOWING: a pass shows them. QUARANTINE: its server waits for other
     * inventories. DONE: its server may sell. */
    enum { HISTORY_NEW, HISTORY_SHOWING, HISTORY_QUARANTINE, HISTORY_DONE } state;
    bool suspect;       /* it goes on from another history, was away, or lacked something */
    bool last;          /* this pass is the last one, or it is over: what does not fit is reported */
    bool failed;        /* this pass has failed */
    bool unshown;       /* this pass could not show something, since its slot was not available */
    bool is_short;      /* something did not fit in the pass before the last one */
    bool is_followed;   /* another history goes on from it, or its server has another one by now */
    bool sold;          /* this inventory has sold in it */
    bool follows;       /* this inventory has sold in the history before it, so others may have, too */
    bool may_end_early; /* the quarantine may end once all have shown their receipts (twice, if some did not
                           fit) */

    /* What the other inventories have shown, by the reply of membership.lua. */
    int64_t silent;      /* how many of those that lived have not shown theirs; -1: nobody knows */
    int64_t again;       /* how many will show again what did not fit; -1: there was no reply */
    bool untold;         /* the server has not confirmed yet that this inventory has nothing more to show */
    bool unsure;         /* it sells although nobody knows whether all others had shown theirs */
    int64_t answered_ms; /* when the first reply to that came; 0: none came yet */
    bool asking;         /* the question is in flight */
    bool is_late;        /* its reply will be of an earlier quarantine, and does not count */
    int64_t asked_ms;    /* when it was asked last */

    bool synced;          /* the server's disk had all that was acknowledged before */
    int64_t refreshed_ms; /* when its id was last asked for */
    int64_t reached_ms;   /* when its server was last reached */
    int64_t
        quarantined_ms; /* when the quarantine began, or another inventory last said that it still shows */
    int64_t ended_ms;   /* when the last pass ended */
    uint64_t seen;      /* the newest receipt when the last pass ended: all before it were shown */
    int64_t again_ms;   /* no pass begins before that */
    uint64_t began;     /* the newest receipt when this pass began */
    int in_flight;      /* calls of this pass */

    /* How far its replicas are. */
    unsigned questions;
    int replicas;     /* the most that it, or its server's history before it, had */
    bool is_alone;    /* the cluster knows no replica of its server */
    int64_t heard_ms; /* when its server last told that */
    /* Once all replicas have the offset, they have all receipts up to the mark. */
    uint64_t mark;
    int64_t mark_offset;
    int64_t copied_offset; /* all replicas had this offset */
    /* A ring of the newest pairs: the receipts up to `seq` are replicated, and were written below `offset`.
     */
    struct {
        uint64_t seq;
        int64_t offset;
    } offsets[HISTORY_OFFSETS];
    unsigned offset_count; /* of all pairs, also those that have left the ring */
};

struct putback {
    struct receipts receipts;
    int running;   /* histories in SHOWING or QUARANTINE; meanwhile no receipt gets too old */
    bool draining; /* asks without a pause how far the replicas are */
    int64_t asked_ms;
    struct history *histories[RECEIPTS_HISTORIES];
    int history_count;
    unsigned number;             /* the last history number given */
    unsigned sold_in;            /* the history of the server that was admitted last; 0: none was */
    struct redis_target sold_at; /* that server's address */
};

/* NULL when out of memory. */
struct putback *putback_open(void);
/* NULL does nothing. */
void putback_free(struct putback *putback);

/* The history with this id; NULL: it is not known, or was forgotten. */
struct history *putback_history(struct putback *putback, const char *id);

/* Keeps a receipt for something acknowledged, unless the store has synced it to its disk and has no replicas.
 * Call it in the callback of the call that did it. receipts.h explains the texts; the record of a JOURNAL
 * begins with the time from which others may finish the transaction. */
void putback_keep(struct purchases *purchases, enum receipt_kind kind, const char *place, const char *field,
                  const char *record);
/* The same in the history with this number. */
void putback_keep_in(struct purchases *purchases, unsigned history, enum receipt_kind kind, const char *place,
                     const char *field, const char *record);
/* The same for an order, without what was returned of it: of that only the notes of returns bring the units
 * back. */
void putback_keep_order(struct purchases *purchases, unsigned history, const struct inventory_order *order,
                        const char *digest);
/* The same for an order that was just made. */
void putback_keep_new(struct purchases *purchases, unsigned history, const struct inventory_order *order,
                      const char *digest);
/* Forgets a receipt: its text does not stand any more, and need not be put back. */
void putback_forget(struct purchases *purchases, enum receipt_kind kind, const char *place,
                    const char *field);

/* Shows the store what it must have because a transaction was decided so: outside a pass, as an ordinary
 * call. What does not fit is noted at once: the first of all calls gets SHORT, and its caller must report it;
 * the others get NOTED. `fn` gets the outcome; NULL: there was no reply, or an error. */
typedef void putback_shown_fn(void *ctx, const enum inventory_loss_outcome *outcome);
void putback_decide(struct purchases *purchases, enum receipt_kind kind, const char *place, const char *field,
                    const char *record, putback_shown_fn *fn, void *ctx);
/* Reports something that was acknowledged and lost: counts it, and calls `on_loss`. */
void putback_tell(struct purchases *purchases, enum receipt_kind kind, const char *place, const char *field,
                  enum inventory_loss_outcome outcome);

/* Shows all receipts of other histories to this history's server. The state is SHOWING meanwhile, then
 * QUARANTINE or DONE, or NEW if the pass failed. */
void putback_begin_pass(struct purchases *purchases, struct history *history, struct redis *redis);
/* Ends the history after its last pass, when it waits for no other inventory: state DONE. */
void putback_end(struct purchases *purchases, struct history *history);

/* ---- failover.c: when receipts are shown to a server, and when it is sold from again ---- */

/* `prepare` of struct servers_config: a server was reached, and is not up yet. `ctx` is the struct purchases.
 */
void failover_prepare(void *ctx, struct server *server);
/* `lost` of struct servers_config: a master died, and others have its slots. If no server goes on from its
 * history, what was acknowledged there is lost, and counted (`unkept`). */
void failover_lost(void *ctx, const struct server *server);
/* Call it every few milliseconds. */
void failover_tick(struct purchases *purchases);

/* ---- replicas.c: how far the replicas of each server are ---- */

/* Notes how many replicas the history's server has now. */
void replicas_note(struct history *history, const struct replication *now);
/* Asks one server that is up, or was reached. If it is not up, only its history's id and its role are noted.
 */
void replicas_ask_one(struct purchases *purchases, struct redis *redis);
/* Asks all servers that are up, and notes their replies in their histories. */
void replicas_ask(struct purchases *purchases);

/* ---- membership.c: which inventories live, and which have shown their receipts to a promoted server ---- */

/* Writes this inventory's heartbeat when it is due. Call it when a server is up, and every few milliseconds.
 */
void membership_tick(struct purchases *purchases);
/* Tells that nobody needs to wait for this inventory any more. Call it until it is true: the store was told,
 * or is gone. */
bool membership_leave(struct purchases *purchases);

/* How far this inventory is with showing its receipts to a server, which is not up yet. MEMBER_AGAIN: it will
 * show once more what did not fit, when all other inventories have shown theirs. */
enum member_stage { MEMBER_SHOWING, MEMBER_AGAIN, MEMBER_DONE };

/* Tells the stage to all who know the same history of the server. `follows`: this inventory sold in the
 * history before this one. Then the store notes which inventories live, unless it did so before, and the
 * server is in quarantine until they are done. membership.lua defines the reply; `fn` may be NULL. `server`:
 * NULL if it is up.
 */
void membership_tell(struct purchases *purchases, struct server *server, const char *history, bool follows,
                     enum member_stage stage, redis_reply_fn *fn, void *ctx);

#endif
