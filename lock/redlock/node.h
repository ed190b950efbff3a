/* One node of a Redlock: a thread that asks one Redis what callers have to ask it. Not for users.
 *
 * A thread for each node, because a node that hangs must hold up nobody but itself, and because what a caller
 * has begun must be ended after it has gone on. Whatever is queued goes out together. */
#ifndef LOCK_REDLOCK_NODE_H
#define LOCK_REDLOCK_NODE_H

#include "lock/redlock/round.h"

struct redlock_node;

/* A connection on which nothing comes for `patience_ms` is made anew. That is longer than callers wait: what
 * takes back a vote that came too late then follows it over the same connection. `env` as in redis_link.h.
 * NULL when out of memory, or of threads. */
struct redlock_node *redlock_node_open(const struct redis_target *target, int patience_ms,
                                       const struct lock_env *env);
/* Nobody may post any more; what was posted is asked for the last time. Does not block, so that of several
 * nodes each can be told before the first is closed. NULL is fine. */
void redlock_node_stop(struct redlock_node *node);
/* Stops it, where it is not, and waits for that. NULL is fine. */
void redlock_node_close(struct redlock_node *node);

/* As redis_link_tell(). */
void redlock_node_tell(const struct redlock_node *node, const char *why);

/* Asks in the order in which they are posted. Does not block. */
void redlock_node_post(struct redlock_node *node, struct redlock_ask *ask);

#endif
