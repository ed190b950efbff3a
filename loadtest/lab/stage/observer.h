/* An observer asks a lock server every few milliseconds who holds a key, and records each change: what the
 * store says, which may differ from what a client believes. */
#ifndef LOADTEST_LAB_STAGE_OBSERVER_H
#define LOADTEST_LAB_STAGE_OBSERVER_H

#include "loadtest/lab/stage/lab_client.h"

/* Each starts an observer, which ends with the play. Call after stage_begin(). While a server does not
 * answer, nothing is recorded. */
void observer_watch_redis(struct clients *clients, const struct server *server, const char *key);
void observer_watch_zookeeper(struct clients *clients, const struct server *server, const char *key);
/* The oldest key below `prefix` holds the lock: "lock/", or "lock-rpc/". */
void observer_watch_etcd(struct clients *clients, struct server *const members[], int count,
                         const char *prefix, const char *key);

/* Reads the stock of an item and records it. Blocks. */
void observer_read_stock(const struct server *server, const char *item);
/* Sets the stock of an item to `units`, and records it. Blocks. */
void observer_fill_stock(const struct server *server, const char *item, int64_t units);

#endif
