/* What was acknowledged, and a failover of the store lost, is put back: receipts are shown to a server
 * (putback.lua), which gets what it lacks. When that is done, histories.h tells. */
#ifndef INVENTORY_PURCHASES_PUTBACK_H
#define INVENTORY_PURCHASES_PUTBACK_H

#include "base/redis/info.h"
#include "base/redis/url.h"
#include "inventory/purchases/purchases.h"
#include "inventory/purchases/receipts.h"

struct redis;
struct server;

/* As many as there are questions in RECEIPTS_COVERED_LONG_MS, and some. */
enum { HISTORY_COVERS = 128 };

/* A history of a server, and what was done about it. */
struct history {
    unsigned number; /* no other one has it */
    char id[REPLICATION_ID_SIZE];
    enum { HISTORY_NEW, HISTORY_RUNS, HISTORY_RESTS, HISTORY_DONE } state;
    bool suspect;        /* it goes on from another history, was away, or lacked something */
    bool last;           /* this pass is the last one, or it is over: what does not fit is told */
    bool failed;         /* this pass */
    bool unshown;        /* something in it: its slot is not to be had */
    bool is_short;       /* something did not fit in the pass before the last one */
    bool is_followed;    /* another one goes on from it, or is its server's by now */
    bool sold;           /* this inventory has sold in it */
    bool follows;        /* or in what it goes on from, so others may have, too */
    bool may_end_early;  /* the rest, once all have shown what they have, twice if it did not fit */
    int64_t silent;      /* how many have not, of those that lived; -1: nobody knows */
    int64_t again;       /* how many are still to show what did not fit; -1: there was no reply */
    bool untold;         /* the server has not answered yet that this inventory has nothing more to show */
    bool unsure;         /* nor, though it is sold from, whether all others had shown theirs */
    int64_t answered_ms; /* when there was a reply to that first; 0: none yet */
    bool asking;         /* whether they have; not before asked_ms + an interval */
    bool is_late;        /* the reply, which is of an earlier rest */
    int64_t asked_ms;
    bool synced;          /* its server's disk had all that was acknowledged before */
    int64_t refreshed_ms; /* when its id was asked for */
    int64_t reached_ms;   /* when its server was reached last */
    int64_t rests_ms;     /* when it began to rest, or somebody last said that he still shows what he has */
    int64_t ended_ms;     /* when the last pass did */
    uint64_t seen;        /* what was acknowledged until this receipt was shown */
    int64_t again_ms;     /* not to be shown the receipts again before that */
    uint64_t began;       /* the pass: after this receipt */
    int in_flight;
    unsigned questions;
    /* How far its replicas are. */
    int replicas;     /* at most, it or what its server had before */
    bool is_alone;    /* the cluster knows of no replica of its server */
    int64_t heard_ms; /* when its server told that last */
    uint64_t mark;    /* once they have this offset, they have what was added until this receipt */
    int64_t mark_offset;
    int64_t copied_offset; /* they all had this one */
    /* What was acknowledged until this receipt was written below this offset: the last ones, in a ring. */
    struct {
        uint64_t seq;
        int64_t offset;
    } covers[HISTORY_COVERS];
    unsigned cover_count; /* there were */
};

struct putback {
    struct receipts receipts;
    int running; /* histories that are shown the receipts, or rest: none is forgotten for its age */
    bool hasty;  /* ask how far the replicas are, without a pause */
    int64_t asked_ms;
    struct history *histories[RECEIPTS_HISTORIES];
    int history_count;
    unsigned number;             /* the last one given */
    unsigned sold_in;            /* of the history of the server that was admitted last; 0: none was */
    struct redis_target sold_at; /* where that was */
};

/* NULL when out of memory. */
struct putback *putback_open(void);
/* NULL does nothing. */
void putback_free(struct putback *putback);

/* Whether a server was reached that is not sold from yet. */
bool putback_is_running(const struct putback *putback);
/* The inventory is about to end: replicas are asked without a pause how far they are. Returns how much of
 * what was acknowledged is on no replica yet. */
int putback_hurry(struct putback *putback);

/* The history with this id; NULL: it is not known, or was forgotten. */
struct history *putback_history(struct putback *putback, const char *id);
/* Its number; 0: it is not known, or was forgotten. */
unsigned putback_history_number(struct putback *putback, const char *id);

/* Something was acknowledged, in the callback of the call that did it. It is kept unless the store has synced
 * it to its disk and has no replicas. See receipts.h for the texts; the record of a JOURNAL begins with the
 * time from which others may finish it. */
void putback_keep(struct purchases *purchases, enum receipt_kind kind, const char *place, const char *field,
                  const char *record);
/* An order, in the history with this number. */
void putback_keep_order(struct purchases *purchases, unsigned history, const char *item, const char *digest,
                        const char *record);
/* The same; it was just made. */
void putback_keep_new(struct purchases *purchases, unsigned history, const struct inventory_order *order,
                      const char *digest);
/* It does not stand any more, and need not be put back. */
void putback_forget(struct purchases *purchases, enum receipt_kind kind, const char *place,
                    const char *field);

/* Shows the store what it should have for another reason than a receipt, as any call is sent. What does not
 * fit is noted at once: one call of all gets SHORT, and is to tell it, the others NOTED. `fn` gets the
 * outcome; NULL: there was no reply, or an error. */
typedef void putback_shown_fn(void *ctx, const enum inventory_loss_outcome *outcome);
void putback_decide(struct purchases *purchases, enum receipt_kind kind, const char *place, const char *field,
                    const char *record, putback_shown_fn *fn, void *ctx);
/* Tells of something that was acknowledged and lost: counts it, and calls `on_loss`. */
void putback_tell(struct purchases *purchases, enum receipt_kind kind, const char *place, const char *field,
                  enum inventory_loss_outcome outcome);

/* Shows all receipts to the history's server, but those that are in it: state RUNS, and RESTS or DONE after
 * that, or NEW if it failed. */
void putback_begin_pass(struct purchases *purchases, struct history *history, struct redis *redis);
/* After the last pass, once no other one is waited for: state DONE. */
void putback_end(struct purchases *purchases, struct history *history);

/* ---- histories.c: when receipts are shown to a server, and when it is sold from again ---- */

/* `prepare` of struct servers_config: a server was reached, and is not up yet. `ctx` is the struct purchases.
 */
void histories_prepare(void *ctx, struct server *server);
/* `lost` of struct servers_config: a master died, and others have its slots. If no server goes on from its
 * history, what was acknowledged there is lost, and counted (`unkept`). */
void histories_lost(void *ctx, const struct server *server);
/* Call it every few milliseconds. */
void histories_tick(struct purchases *purchases);

/* ---- replicas.c: how far the replicas of each server are ---- */

/* Notes how many replicas the history's server has now. */
void replicas_note(struct history *history, const struct replication *now);
/* Asks one server that is up, or was reached. If it is not up, only its history's id and its role are noted.
 */
void replicas_ask_one(struct purchases *purchases, struct redis *redis);
/* Asks all servers that are up, and notes their replies in their histories. */
void replicas_ask(struct purchases *purchases);

/* ---- rest.c: which inventories live, and which have shown their receipts to a promoted server ---- */

/* Writes this inventory's heartbeat when it is due. Call it when a server is up, and every few milliseconds.
 */
void rest_tick(struct purchases *purchases);
/* Tells that nobody needs to wait for this inventory any more. Call it until it is true: the store was told,
 * or is gone. */
bool rest_leave(struct purchases *purchases);

/* How far this inventory is with showing its receipts to a server, which is not up yet. REST_AGAIN: it will
 * show once more what did not fit, when all other inventories have shown theirs. */
enum rest_stage { REST_SHOWING, REST_AGAIN, REST_DONE };

/* Tells the stage to all who know the same history of the server. `follows`: this inventory sold in the
 * history before this one. Then the store notes which inventories live, unless it did so before, and the
 * server rests until they are done. rest.lua defines the reply; `fn` may be NULL. `server`: NULL if it is up.
 */
void rest_tell(struct purchases *purchases, struct server *server, const char *history, bool follows,
               enum rest_stage stage, redis_reply_fn *fn, void *ctx);

#endif
