/* One node of a Redlock: a thread that sends the questions of all callers to one Redis. Not for users.
 *
 * Each node has its own thread, because a node that hangs must not delay the others, and because a question
 * must be finished also after its caller has gone. Whatever is queued is sent together. */
#ifndef LOCK_REDLOCK_NODE_H
#define LOCK_REDLOCK_NODE_H

#include "lock/redlock/round.h"

struct redlock_node;

/* A connection that is silent for `timeout_ms` is closed. That is longer than callers wait: so the release of
 * a vote that comes too late follows it over the same connection. NULL when out of memory, or of threads. */
struct redlock_node *redlock_node_open(const struct redis_target *target, int timeout_ms,
                                       const struct lock_env *env);
/* No thread may post any more; what was posted is sent for the last time. Does not block, so that several
 * nodes can be stopped at a time. NULL does nothing. */
void redlock_node_stop(struct redlock_node *node);
/* Stops the node, and waits for its thread. NULL does nothing. */
void redlock_node_close(struct redlock_node *node);

/* As redis_connection_report(). */
void redlock_node_report(const struct redlock_node *node, const char *why);

/* Questions are sent in the order in which they are posted. Does not block. */
void redlock_node_post(struct redlock_node *node, struct redlock_ask *ask);

#endif
