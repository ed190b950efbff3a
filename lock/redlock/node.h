/* A round is one question to all nodes of a Redlock at the same time, and their votes. A node is a thread
 * that sends the questions of all callers to one Redis. Not for users.
 *
 * Each node has its own thread, because a node that hangs must not delay the others, and because a question
 * must be finished also after its caller has gone. Whatever is queued is sent together. */
#ifndef LOCK_REDLOCK_NODE_H
#define LOCK_REDLOCK_NODE_H

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
    TAILQ_ENTRY(redlock_ask) next;
    struct redlock_round *round;
    int node;
    bool lost; /* an answer was lost */
    struct redis_request call;
    struct redis_answer answer;
};

/* The caller and every node that has not voted yet hold a reference to it: a slow node votes after the caller
 * has gone. The last one frees it. */
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
/* Waits until the round is decided or its limit is over, and drops the caller's reference. A node that has
 * not voted then is counted as DOWN, and is OPEN in `by_node`. */
struct redlock_votes redlock_round_end(struct redlock_round *round);

/* ---- nodes ---- */

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
