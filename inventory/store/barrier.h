/* Hands out the replies of a connection (struct redis_config, `hold`) once so many replicas have all that the
 * server had written by then: "acknowledged" means "replicated".
 *
 * WAIT blocks its own connection. So the barriers have two connections of their own, by turns: a reply that
 * comes while a barrier is in flight need not wait for its end to get the next. A barrier reads the server's
 * history (INFO replication), and waits (WAIT) until the replicas have it up to this point. If the history is
 * the one that the connection began with, all replies that came before the barrier are below this point,
 * reads too: nobody is shown an order that is not safe.
 *
 * If too few replicas answer in time, the connection breaks: its replies are lost, that is unknown. It is not
 * up again before enough replicas have everything.
 *
 * Redis carries WAIT out on a best-effort basis: a replica that has not got a write can still be promoted in
 * place of one that has. With one replica there is no such other. */
#ifndef INVENTORY_STORE_BARRIER_H
#define INVENTORY_STORE_BARRIER_H

#include "inventory/store/redis.h"

struct barrier;

/* `held` is the connection, which must be closed first. NULL when out of memory. */
struct barrier *barrier_open(uv_loop_t *loop, const struct clock *clock, int timeout_ms, int replicas,
                             struct redis *held);
/* The connection is prepared (redis.h): admits it once enough replicas have everything. May be called again
 * meanwhile. */
void barrier_admit(struct barrier *barrier);
/* The memory goes when the loop has run once more. NULL does nothing. */
void barrier_close(struct barrier *barrier);

#endif
