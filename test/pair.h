/* A master and its replica. The link between them is a proxy, so that it can be cut; another proxy, `front`,
 * leads to the one that is master. */
#ifndef TEST_PAIR_H
#define TEST_PAIR_H

#include "test/harness.h"

struct pair {
    struct redis_server master, replica;
    struct proxy *link, *front;
    bool is_cut;
};

/* Waits until the replica follows. */
void pair_start(struct pair *pair);
const char *pair_url(const struct pair *pair);
/* What the master writes from now on does not get to the replica. */
void pair_cut(struct pair *pair);
void pair_mend(struct pair *pair);
/* Kills the master. The replica is master, and the front leads to it; what it had not got is lost. */
void pair_fail_over(struct pair *pair);

/* Waits until a replica follows the server: it has acknowledged something. Until it does so for the first
 * time, once a second, it is not sent what is new. */
void replica_wait(const struct redis_server *master);
/* Once the replica has all, it gets nothing of what the master writes from now on. */
void replica_cut(const struct redis_server *master, const struct redis_server *replica);

#endif
