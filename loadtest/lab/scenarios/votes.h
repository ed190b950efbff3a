/* Redlock on three nodes. A client has the votes of nodes 1 and 2, since it cannot reach node 3; then node 2
 * loses its vote. */
#ifndef LOADTEST_LAB_SCENARIOS_VOTES_H
#define LOADTEST_LAB_SCENARIOS_VOTES_H

#include "loadtest/lab/scenarios/cast.h"
#include "loadtest/lab/stage/stage_servers.h"

enum { VOTES_NODES = 3 };

struct votes {
    struct cast *cast;
    struct server *nodes[VOTES_NODES];
    struct proxy *to_third; /* the only way of client A to node 3 */
    struct client *a, *b;
};

/* The nodes, each started by `start`, as "node-1" to "node-3". */
void votes_start(struct votes *votes, struct cast *cast,
                 struct server *(*start)(struct stage *stage, const char *name));
/* Both clients, with Redlock on the nodes. */
void votes_start_clients(struct votes *votes);

/* A acquires, `lose` happens to node 2, B tries for a while; who holds the lock sells. The play has begun. */
void votes_play(struct votes *votes, void (*lose)(struct server *node));

#endif
