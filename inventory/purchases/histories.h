/* What was acknowledged, and a failover of the store lost, is put back before this inventory sells there
 * again.
 *
 * Redis replicates asynchronously: a replica can be promoted that has not got the last writes, and nobody is
 * told. So each connection to a server begins with the question for its history (struct replication). If it
 * is new to this inventory, the server was promoted, or restarted: all receipts are shown to it
 * (putback.lua), and what it lacks is put back, the newest state of each order. Then the server rests: it is
 * sold from once all inventories that lived have shown theirs (rest.h), or when rest_ms() is over.
 * That is longer than the others need to notice: they lose their connection, or a call is without a reply for
 * the time-out, or the question for the history is, which each server is asked twice a second. Who has much
 * to show says so each second, and is waited for, for RESTS_MOST_MS at most. At the end of the rest what did
 * not fit is shown once more: others may have put back what frees its units, and all wait for that, for
 * REACH_MS beyond rest_ms() at most. What does not fit then is noted in the item (`shortage`), told
 * (`on_loss`) and counted.
 *
 * The same question tells how far replicas are, so that receipts are forgotten when replicas have what they
 * tell of. Where no replica was ever seen, and neither Sentinels nor the cluster know of one, the store's
 * disk has it, and a receipt is forgotten by its age, but not while the server is away, or does not answer.
 *
 * It cannot put back
 * - what an inventory acknowledged that died too, in its last moments: whoever waited for it in vain, or
 *   cannot know who lived, counts that (`unkept`),
 * - what had to be forgotten, or was since other replicas had it, while the one that is promoted was not
 *   connected: that is counted (`unkept`) when a new history is met,
 * - what was forgotten since the server's disk had it, if the server goes on from older data, or none: this
 *   inventory's last heartbeat is missing there, and that is counted (of a cluster only where they are),
 * - what was acknowledged at a master of a cluster that died without a successor: counted, too, if others got
 *   its slots,
 * - what was moved to a master of a cluster that died before its replica had it, except for the last moments,
 * - what does not fit any more since an inventory was there that is new: to it a master that was restarted
 *   is like any other, and it sells at once, while others have yet to notice.
 *
 * A master can come back while Sentinels are replacing it, and what was sold from it then would be missing in
 * its successor. So a server rests as well, for the whole time, if Sentinels name it and it was away for
 * longer than a moment: meanwhile they are asked again. If it is sold from after all, its successor is shown
 * what was acknowledged elsewhere since it was shown the receipts last. (A server of a cluster does not serve
 * within two seconds of its start.) */
#ifndef INVENTORY_PURCHASES_HISTORIES_H
#define INVENTORY_PURCHASES_HISTORIES_H

#include "inventory/purchases/putback.h"

struct server;

/* A server was reached, and is not up: `prepare` of struct servers_config; `ctx` is the inventory. */
void histories_prepare(void *ctx, struct server *server);

/* A master died, and others have its slots: `lost` of struct servers_config. If no server goes on from its
 * history, what was acknowledged there is lost, and counted (`unkept`). */
void histories_lost(void *ctx, const struct server *server);

/* To be called every few milliseconds. */
void histories_tick(struct purchases *purchases);

#endif
