/* A round: one question to all nodes of a Redlock at the same time, and their votes. Not for users.
 *
 * The caller and every node that has not voted yet hold a reference to it: a slow node votes after the caller
 * has gone. The last one frees it. */
#ifndef LOCK_REDLOCK_ROUND_H
#define LOCK_REDLOCK_ROUND_H

#include "lock/redis/store.h"

enum { REDLOCK_NODES_MAX = 15, REDLOCK_VALUE_SIZE = LOCK_OWNER_SIZE + 17 };

enum redlock_vote {
    REDLOCK_OPEN, /* not yet */
    REDLOCK_YES,
    REDLOCK_NO,
    REDLOCK_DOWN, /* did not answer */
    REDLOCK_LOST, /* NO, but an earlier answer to the same question was lost: that may have been YES */
    REDLOCK_VOTES
};

struct redlock_votes {
    int count[REDLOCK_VOTES];
    enum redlock_vote by_node[REDLOCK_NODES_MAX];
};

/* One node's part of a round. Until it votes it belongs to the node: in its queue, then to its thread. */
struct redlock_ask {
    struct redlock_ask *next;
    struct redlock_round *round;
    int node;
    bool lost; /* an answer was lost */
    struct redis_request call;
    struct redis_answer answer;
};

struct redlock_round {
    pthread_mutex_t mutex; /* for `references` and `votes`; the rest does not change after the first post */
    pthread_cond_t decided;
    int references;
    struct redlock_votes votes;
    int enough;                /* so many YES decide the round. Once there cannot be so many, it is decided */
    int spare;                 /* when it is known whether there are more than `spare` of */
    enum redlock_vote counted; /* this: NO or DOWN */
    struct lock_limit limit;   /* how long the caller waits */
    int64_t late_ns;           /* CLOCK_MONOTONIC: the question is not sent later */
    bool insists;              /* sent again until it is late; otherwise only once over another connection */
    int argc;
    const char *argv[7];
    char name[REDIS_KEY_SIZE], who[REDLOCK_VALUE_SIZE], value[REDLOCK_VALUE_SIZE];
    struct redlock_ask asks[]; /* one a node */
};

/* For so many nodes, all OPEN; nothing else is set but `asks`. NULL when out of memory. */
struct redlock_round *redlock_round_new(int nodes);
/* Before the first post: this node is not asked; its vote counts as NO. */
void redlock_round_skip(struct redlock_round *round, int node);
/* Called by the node's thread, once for each ask, which is gone then. */
void redlock_round_vote(struct redlock_ask *ask, enum redlock_vote vote);
/* Waits until the round is decided or its limit is over, and drops the caller's reference. A node that has
 * not voted then is counted as DOWN, and is OPEN in `by_node`. */
struct redlock_votes redlock_round_end(struct redlock_round *round);

#endif
