/* How far the replicas of each server are: what all that are connected have is covered (receipts.h). Where
 * there are none, whether the server syncs each write to its disk. */
#ifndef INVENTORY_PURCHASES_REPLICAS_H
#define INVENTORY_PURCHASES_REPLICAS_H

struct history;
struct purchases;
struct redis;
struct replication;

/* How many replicas the server of this history has now. */
void replicas_note(struct history *history, const struct replication *now);

/* Asks a server that is up, or was reached; of one that is not up only its history's id is noted, and its
 * role. */
void replicas_ask_one(struct purchases *purchases, struct redis *redis);

/* Asks all servers that are up, and notes what they reply in their histories. */
void replicas_ask(struct purchases *purchases);

#endif
