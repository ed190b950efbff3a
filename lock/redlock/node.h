/* A round is one question to all nodes of a Redlock at the same time, and their votes. A node is one Redis,
 * with a thread that sends it the questions of all callers. Not for users.
 *
 * Each node has its own thread, because a node that hangs must not delay the others, and because a question
 * must be finished also after its caller has gone. All questions that are queued are sent together. */
#ifndef LOCK_REDLOCK_NODE_H
#define LOCK_REDLOCK_NODE_H

#include "lock/redis/redis_store.h"

enum { REDLOCK_NODES_MAX = 15, REDLOCK_VALUE_SIZE = LOCK_OWNER_SIZE + 17 };

enum redlock_vote {
    REDLOCK_OPEN, /* did not vote yet */
    REDLOCK_YES,
    REDLOCK_NO,
    REDLOCK_DOWN, /* did not answer */
    REDLOCK_LOST, /* NO, but an earlier answer to the same question was lost, which may have been YES */
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

/* The caller and every node that has not voted yet hold a reference: a slow node votes after the caller has
 * gone. Who drops the last reference frees the round. */
struct redlock_round {
    pthread_mutex_t mutex; /* for `references` and `votes`; the rest does not change after the first post */
    pthread_cond_t decided;
    int references;
    struct redlock_votes votes;
    /* Decided: there are `enough` YES; or there cannot be so many, and it is known whether there are more
     * than `spare` of the votes `counted`, which is NO or DOWN. */
    int enough, spare;
    enum redlock_vote counted;
    struct lock_limit limit; /* how long the caller waits */
    int64_t late_ns;         /* CLOCK_MONOTONIC: the question is not sent later */
    bool insists;            /* sent again until it is late; otherwise only once over another connection */
    int argc;
    const char *argv[7];
    char name[REDIS_KEY_SIZE], who[REDLOCK_VALUE_SIZE], value[REDLOCK_VALUE_SIZE];
    struct redlock_ask asks[]; /* one a node */
};

/* A round for so many nodes, whose votes are OPEN. Sets nothing else but `asks`. NULL when out of memory. */
struct redlock_round *redlock_round_new(int nodes);
/* Leaves out a node: its vote counts as NO. Call it before the first post. */
void redlock_round_skip(struct redlock_round *round, int node);
/* Blocks until the round is decided or its limit is over, and drops the caller's reference. If the limit is
 * over first, nodes that have not voted are counted as DOWN, and stay OPEN in `by_node`. */
struct redlock_votes redlock_round_end(struct redlock_round *round);

/* ---- nodes ---- */

struct redlock_node;

/* Starts the thread. It closes a connection that is silent for `timeout_ms`. That is longer than callers
 * wait, so that the release of a vote that comes too late follows it over the same connection. NULL when out
 * of memory, or of threads. */
struct redlock_node *redlock_node_open(const struct redis_target *target, int timeout_ms,
                                       const struct redis_hooks *hooks);
/* Tells the thread to send what was posted once more, and to end. No thread may post any more. Does not
 * block, so that several nodes can be stopped at a time. `node` may be NULL. */
void redlock_node_stop(struct redlock_node *node);
/* Stops the node, waits for its thread, and frees it. `node` may be NULL. */
void redlock_node_close(struct redlock_node *node);

/* Gives a question to the node, which sends questions in the order in which they were posted. Does not block.
 */
void redlock_node_post(struct redlock_node *node, struct redlock_ask *ask);

#endif
