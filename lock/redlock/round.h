/* What is asked of the nodes of a Redlock, all at once, and how they vote. Not for users.
 *
 * A round is its caller's, and of each node's thread that has yet to vote: a slow node votes after the caller
 * has gone. The last one who lets go of it frees it. */
#ifndef LOCK_REDLOCK_ROUND_H
#define LOCK_REDLOCK_ROUND_H

#include "lock/redis/store.h"

enum { REDLOCK_NODES_MAX = 15, REDLOCK_VALUE_SIZE = LOCK_OWNER_SIZE + 17 };

enum redlock_vote {
    REDLOCK_OPEN, /* not yet */
    REDLOCK_YES,
    REDLOCK_NO,
    REDLOCK_DOWN, /* did not answer */
    REDLOCK_LOST, /* said no, after an answer to the same question was lost: that may have been a yes */
    REDLOCK_VOTES
};

struct redlock_votes {
    int count[REDLOCK_VOTES];
    enum redlock_vote by_node[REDLOCK_NODES_MAX];
};

/* One node's part of a round: in the queue of the node, then its thread's own, until it votes. */
struct redlock_ask {
    struct redlock_ask *next;
    struct redlock_round *round;
    int node;
    bool lost; /* an answer was */
    struct redis_call call;
    struct redis_answer answer;
};

struct redlock_round {
    pthread_mutex_t mutex; /* for `users` and `votes`; the rest stays as it is from the first post on */
    pthread_cond_t decided;
    int users;
    struct redlock_votes votes;
    int enough;              /* so many yes decide it. Once there cannot be so many, it is decided whether */
    int spare;               /* there are more than `spare` of */
    enum redlock_vote rests; /* this: no, or down */
    int64_t until_ns;        /* CLOCK_MONOTONIC: who asks waits so long, */
    struct lock_cancel *cancel; /* or until this is called; may be NULL */
    int64_t late_ns;            /* not sent after that */
    bool insists;               /* asked again until it is late; otherwise once, over a new connection */
    int argc;
    const char *argv[7];
    char name[REDIS_KEY_SIZE], who[REDLOCK_VALUE_SIZE], value[REDLOCK_VALUE_SIZE];
    struct redlock_ask asks[]; /* one a node */
};

/* For `nodes` nodes, all open, and nothing set but `asks`. NULL when out of memory. */
struct redlock_round *redlock_round_new(int nodes);
/* Before the first post: this node is not asked, and its vote is no. */
void redlock_round_skip(struct redlock_round *round, int node);
/* By the node's thread, once an ask; `ask` is gone then. */
void redlock_round_vote(struct redlock_ask *ask, enum redlock_vote vote);
/* Waits until it is decided or the time is up, and lets go of it. Who has not voted then is counted as down,
 * and is still open in `by_node`. */
struct redlock_votes redlock_round_end(struct redlock_round *round);

#endif
