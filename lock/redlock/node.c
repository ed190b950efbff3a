#include "lock/redlock/node.h"

#include <stdatomic.h>
#include <stdlib.h>

/* So many questions wait for a node that hangs; for the others its vote is DOWN at once. Half of the places
 * are reserved for questions that insist, which are releases. */
enum { ASKS_MAX = 4096 };

/* A node that did not answer is asked again after so long, or when there is a new question. */
static const int64_t retry_ns = 100000000;

TAILQ_HEAD(asks, redlock_ask);

struct redlock_node {
    struct redis_connection *connection; /* the thread's own */
    struct asks asked;                   /* the thread's own: sent, or unanswered and insisting */
    pthread_t thread;
    _Atomic int length; /* of `queue` and `asked` */
    pthread_mutex_t mutex;
    pthread_cond_t cond;
    struct asks queue;
    _Atomic bool stop; /* written with the mutex held */
};

/* ---- rounds ---- */

struct redlock_round *redlock_round_new(int nodes) {
    struct redlock_round *round = calloc(1, sizeof *round + (size_t)nodes * sizeof round->asks[0]);
    if (!round)
        return NULL;
    pthread_mutex_init(&round->mutex, NULL);
    pthread_cond_init(&round->decided, NULL);
    round->references = 1 + nodes;
    round->votes.count[REDLOCK_OPEN] = nodes;
    for (int i = 0; i < nodes; i++) {
        round->asks[i].round = round;
        round->asks[i].node = i;
    }
    return round;
}

/* Called with the mutex held, and releases it; may free the round. */
static void drop_reference(struct redlock_round *round) {
    bool last = --round->references == 0;
    pthread_mutex_unlock(&round->mutex);
    if (!last)
        return;
    pthread_cond_destroy(&round->decided);
    pthread_mutex_destroy(&round->mutex);
    free(round);
}

static bool is_decided(const struct redlock_round *round) {
    const int *count = round->votes.count;
    int yes = count[REDLOCK_YES], open = count[REDLOCK_OPEN], counted = count[round->counted];
    if (yes >= round->enough)
        return true;
    return yes + open < round->enough && (counted > round->spare || counted + open <= round->spare);
}

static void count_vote(struct redlock_round *round, int node, enum redlock_vote vote) {
    round->votes.by_node[node] = vote;
    round->votes.count[REDLOCK_OPEN]--;
    round->votes.count[vote]++;
}

void redlock_round_skip(struct redlock_round *round, int node) {
    count_vote(round, node, REDLOCK_NO);
    round->references--;
}

/* Called once for each ask, which does not exist any more then. */
static void vote_in_round(struct redlock_ask *ask, enum redlock_vote vote) {
    struct redlock_round *round = ask->round;
    pthread_mutex_lock(&round->mutex);
    count_vote(round, ask->node, vote);
    if (is_decided(round))
        pthread_cond_signal(&round->decided);
    drop_reference(round);
}

struct redlock_votes redlock_round_end(struct redlock_round *round) {
    pthread_mutex_lock(&round->mutex);
    while (!is_decided(round) && !lock_limit_is_over(&round->limit))
        lock_limit_wait(&round->limit, &round->decided, &round->mutex);
    struct redlock_votes votes = round->votes;
    if (!is_decided(round)) {
        votes.count[REDLOCK_DOWN] += votes.count[REDLOCK_OPEN];
        votes.count[REDLOCK_OPEN] = 0;
    }
    drop_reference(round);
    return votes;
}

/* ---- the thread ---- */

static void node_vote(struct redlock_node *node, struct redlock_ask *ask, enum redlock_vote vote) {
    TAILQ_REMOVE(&node->asked, ask, next);
    atomic_fetch_sub(&node->length, 1);
    vote_in_round(ask, vote);
}

/* An answer that is an error means that the node cannot work. */
static enum redlock_vote read_vote(const struct redlock_ask *ask) {
    if (ask->answer.type != REDIS_INTEGER)
        return REDLOCK_DOWN;
    if (ask->answer.integer == 1)
        return REDLOCK_YES;
    return ask->round->insists && ask->lost ? REDLOCK_LOST : REDLOCK_NO;
}

/* Votes DOWN on the questions that are too late to be sent; or, with `sent`, on those that do not insist. */
static void vote_down(struct redlock_node *node, bool sent) {
    int64_t now = clock_now_ns();
    for (struct redlock_ask *ask = TAILQ_FIRST(&node->asked), *after; ask; ask = after) {
        after = TAILQ_NEXT(ask, next);
        if (sent ? !ask->round->insists : now >= ask->round->late_ns)
            node_vote(node, ask, REDLOCK_DOWN);
    }
}

/* Sends all questions together; those without an answer stay. */
static void send_once(struct redlock_node *node) {
    vote_down(node, false);
    /* Each has a timeout after connecting, so that they keep their order. */
    for (struct redlock_ask *ask = TAILQ_FIRST(&node->asked); ask; ask = TAILQ_NEXT(ask, next))
        redis_connection_begin(node->connection, &ask->call, ask->round->argc, ask->round->argv, &ask->answer,
                               0);
    for (struct redlock_ask *ask = TAILQ_FIRST(&node->asked), *after; ask; ask = after) {
        enum redis_status status = redis_connection_end(node->connection, &ask->call, NULL);
        after = TAILQ_NEXT(ask, next);
        ask->lost |= status == REDIS_UNKNOWN;
        if (status == REDIS_ANSWERED)
            node_vote(node, ask, read_vote(ask));
    }
}

/* Sends unanswered questions and new ones, in the order in which they were posted. Tries twice if necessary,
 * since often only the first try finds that the connection is broken; but does not wait twice for a node that
 * hangs when it was stopped. */
static void send_all(struct redlock_node *node) {
    int64_t since_ns = clock_now_ns();
    send_once(node);
    if (!TAILQ_EMPTY(&node->asked) && (!atomic_load(&node->stop) || clock_now_ns() - since_ns < retry_ns))
        send_once(node);
    vote_down(node, true);
}

/* Called, and returns, with the mutex held. False: stopped, and nothing is queued. */
static bool wait_for_work(struct redlock_node *node) {
    int64_t until_ns = clock_now_ns() + retry_ns;
    if (TAILQ_EMPTY(&node->asked))
        until_ns = INT64_MAX;
    while (TAILQ_EMPTY(&node->queue) && !node->stop && cond_wait_until(&node->cond, &node->mutex, until_ns))
        ;
    return !TAILQ_EMPTY(&node->queue) || !node->stop;
}

static void *redlock_node_run(void *arg) {
    struct redlock_node *node = arg;
    pthread_mutex_lock(&node->mutex);
    while (wait_for_work(node)) {
        TAILQ_CONCAT(&node->asked, &node->queue, next);
        pthread_mutex_unlock(&node->mutex);
        send_all(node);
        pthread_mutex_lock(&node->mutex);
    }
    pthread_mutex_unlock(&node->mutex);
    while (!TAILQ_EMPTY(&node->asked))
        node_vote(node, TAILQ_FIRST(&node->asked), REDLOCK_DOWN);
    return NULL;
}

/* ---- called by any thread ---- */

static void free_node(struct redlock_node *node) {
    redis_connection_close(node->connection);
    pthread_cond_destroy(&node->cond);
    pthread_mutex_destroy(&node->mutex);
    free(node);
}

struct redlock_node *redlock_node_open(const struct redis_target *target, int timeout_ms,
                                       const struct redis_hooks *hooks) {
    struct redlock_node *node = calloc(1, sizeof *node);
    if (!node)
        return NULL;
    TAILQ_INIT(&node->asked);
    TAILQ_INIT(&node->queue);
    pthread_mutex_init(&node->mutex, NULL);
    pthread_cond_init(&node->cond, NULL);
    struct redis_url url = {.count = 1, .servers = {*target}};
    node->connection = redis_connection_open(&url, timeout_ms, hooks);
    if (node->connection && thread_start(&node->thread, redlock_node_run, node))
        return node;
    free_node(node);
    return NULL;
}

void redlock_node_stop(struct redlock_node *node) {
    if (!node)
        return;
    pthread_mutex_lock(&node->mutex);
    node->stop = true;
    pthread_cond_signal(&node->cond);
    pthread_mutex_unlock(&node->mutex);
}

void redlock_node_close(struct redlock_node *node) {
    if (!node)
        return;
    redlock_node_stop(node);
    pthread_join(node->thread, NULL);
    free_node(node);
}

void redlock_node_post(struct redlock_node *node, struct redlock_ask *ask) {
    int most = ask->round->insists ? ASKS_MAX : ASKS_MAX / 2;
    if (atomic_fetch_add(&node->length, 1) >= most) {
        atomic_fetch_sub(&node->length, 1);
        vote_in_round(ask, REDLOCK_DOWN);
        return;
    }
    pthread_mutex_lock(&node->mutex);
    TAILQ_INSERT_TAIL(&node->queue, ask, next);
    pthread_cond_signal(&node->cond);
    pthread_mutex_unlock(&node->mutex);
}
