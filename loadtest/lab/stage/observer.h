/* Observers: ask a lock server, every few milliseconds, who has a key, and record each change. They see what
 * the store says, which may be something else than what a client believes. */
#ifndef LOADTEST_LAB_STAGE_OBSERVER_H
#define LOADTEST_LAB_STAGE_OBSERVER_H

#include "loadtest/lab/stage/lab_client.h"

/* Each begins one, which ends with the play, and is called after stage_begin(). A server that does not answer
 * says nothing. */
void observer_watch_redis(struct clients *clients, const struct server *server, const char *key);
void observer_watch_zookeeper(struct clients *clients, const struct server *server, const char *key);
/* `prefix`: below which the oldest key has the lock: "lock/", or "lock-rpc/". */
void observer_watch_etcd(struct clients *clients, struct server *const members[], int count,
                         const char *prefix, const char *key);

/* Reads the stock of an item and records it: the books as they are now. Blocks. */
void observer_read_stock(const struct server *server, const char *item);
/* Fills the stock, and records it. */
void observer_fill_stock(const struct server *server, const char *item, int64_t units);

#endif
