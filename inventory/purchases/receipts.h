/* Receipts: the orders that this inventory acknowledged lately. What a failover of the store loses of them is
 * put back before the inventory sells there again.
 *
 * Redis replicates asynchronously: a replica can be promoted that has not got the last writes, and nobody is
 * told. So each connection to a server begins with the question for its history (struct replication). If the
 * history is new to this inventory, the server was promoted, or restarted: every receipt is shown to it
 * (putback.lua), and what it lacks is put back. Each inventory does so as soon as it can connect, and sells
 * only some seconds later (see rest_ms()). That is longer than the others need to notice: they lose their
 * connection, or a call is without a reply for the time-out, or the question for the history is, which each
 * server is asked twice a second.
 *
 * What does not fit any more is noted in the item (`shortage`), and counted in the metrics.
 *
 * It cannot put back
 * - what an instance acknowledged that died too,
 * - what is not kept any more: a receipt is kept for RECEIPTS_KEEP_MS, and as one of the last
 *   RECEIPTS_KEPT. If the oldest one that is kept was lost, older ones may be: that is counted (`unkept`),
 * - baskets, restocks and items. An order whose item is lost is counted as short,
 * - in a cluster, what a master sold that stood still, was replaced, and goes on before it hears of that: its
 *   successor was shown the receipts earlier.
 * Receipts are kept where a server can have a successor: with Sentinel, in a cluster, and from the first
 * replica on that is seen.
 *
 * A master can come back while Sentinels are replacing it, and what was sold from it then would be missing in
 * its successor. So a server rests as well if Sentinels name it and it was away for longer than a moment, or
 * if another one was sold from since: meanwhile they are asked again. If it is sold from after all, its
 * successor is shown what was acknowledged elsewhere since it was shown the receipts last. (A server of a
 * cluster does not serve within two seconds of its start.) */
#ifndef INVENTORY_PURCHASES_RECEIPTS_H
#define INVENTORY_PURCHASES_RECEIPTS_H

#include <sys/queue.h>

#include "inventory/inventory.h"
#include "inventory/store/info.h"

struct server;

enum { RECEIPTS_KEPT = 65536, RECEIPTS_KEEP_MS = 60000, RECEIPTS_HISTORIES = 64 };

struct receipt {
    STAILQ_ENTRY(receipt) next;
    int64_t at_ms;
    unsigned by;      /* `number` of the history that it was acknowledged in; 0: not known */
    int64_t index_ms; /* a hold until then, whose item is to be in the index of due times; 0: it is none */
    char item[INVENTORY_NAME_MAX + 1];
    char digest[INVENTORY_DIGEST_SIZE];
    char record[]; /* as it was acknowledged */
};

STAILQ_HEAD(receipt_list, receipt);

/* A history of a server, and what was done about it. */
struct mended {
    unsigned number; /* no other one has it */
    char id[REPLICATION_ID_SIZE];
    enum { MENDED_NOT, MENDED_RUNS, MENDED_RESTS, MENDED_DONE } state;
    bool suspect;          /* it goes on from another history, was away, or lacked something */
    bool failed;           /* this pass */
    bool told;             /* of one receipt at least, whether it is there */
    int64_t reached_ms;    /* when its server was reached last: it rests from then on */
    int64_t again_ms;      /* not to be shown the receipts again before that */
    struct receipt *shown; /* the last one; NULL: those that are kept were not */
    int in_flight;
};

struct receipts {
    bool kept;
    bool dropped; /* there were older ones than those that are kept */
    int count;
    int running;              /* histories that are shown the receipts, or rest: none is dropped */
    int to_index;             /* receipts with index_ms */
    int64_t asked_ms;         /* when the servers were asked for their history */
    struct receipt_list list; /* the oldest first */
    struct mended *mended[RECEIPTS_HISTORIES];
    int mended_count;
    unsigned number;  /* the last one given */
    unsigned sold_in; /* of the history of the server that was admitted last; 0: none was */
};

void receipts_init(struct inventory *inventory);
void receipts_free(struct inventory *inventory);

/* An order was acknowledged, or a step of it. */
void receipts_add(struct inventory *inventory, const char *item, const char *digest, const char *record);

/* A server was reached, and is not up: `prepare` of struct servers_config; `ctx` is the inventory. */
void receipts_prepare(void *ctx, struct server *server);

/* To be called every few milliseconds. */
void receipts_tick(struct inventory *inventory);

#endif
