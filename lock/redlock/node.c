#include "lock/redlock/node.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "base/clock.h"
#include "lock/core/waiter.h"

/* More questions do not wait for a node that hangs: its vote is DOWN at once. Half of the places are reserved
 * for questions that insist, which are releases. */
enum { ASKS_MAX = 4096 };

/* A node that did not answer is asked again after so long, or when there is a new question. */
static const int64_t retry_ns = 100000000;

struct asks {
    struct redlock_ask *first, *last;
};

struct redlock_node {
    struct redis_connection *connection; /* the thread's own */
    struct asks unanswered;              /* the thread's own: questions that insist */
    pthread_t thread;
    _Atomic int length; /* of `queue` and `unanswered`, and what is being sent */
    pthread_mutex_t mutex;
    pthread_cond_t cond;
    struct asks queue;
    _Atomic bool stop; /* written with the mutex held */
};

static int64_t now_ns(void) {
    return clock_mono_ns(&clock_system);
}

static void append(struct asks *asks, struct redlock_ask *ask) {
    ask->next = NULL;
    if (asks->first)
        asks->last->next = ask;
    else
        asks->first = ask;
    asks->last = ask;
}

static struct redlock_ask *take_first(struct asks *asks) {
    struct redlock_ask *ask = asks->first;
    if (ask)
        asks->first = ask->next;
    return ask;
}

/* ---- the thread ---- */

static void vote(struct redlock_node *node, struct redlock_ask *ask, enum redlock_vote vote) {
    atomic_fetch_sub(&node->length, 1);
    redlock_round_vote(ask, vote);
}

/* Votes DOWN on questions that it is too late to send. */
static void drop_late(struct redlock_node *node, struct asks *asks) {
    struct asks good = {NULL, NULL};
    int64_t now = now_ns();
    for (struct redlock_ask *ask; (ask = take_first(asks));) {
        if (now >= ask->round->late_ns)
            vote(node, ask, REDLOCK_DOWN);
        else
            append(&good, ask);
    }
    *asks = good;
}

/* An answer that is an error means that the node cannot work. */
static enum redlock_vote read_vote(const struct redlock_ask *ask) {
    if (ask->answer.type != REDIS_ANSWER_INTEGER)
        return REDLOCK_DOWN;
    if (ask->answer.integer == 1)
        return REDLOCK_YES;
    return ask->round->insists && ask->lost ? REDLOCK_LOST : REDLOCK_NO;
}

/* Sends all questions together; those without an answer stay in `asks`. */
static void send_once(struct redlock_node *node, struct asks *asks) {
    struct asks silent = {NULL, NULL};
    drop_late(node, asks);
    for (struct redlock_ask *ask = asks->first; ask; ask = ask->next)
        redis_connection_begin(node->connection, &ask->call, ask->round->argc, ask->round->argv,
                               &ask->answer);
    for (struct redlock_ask *ask; (ask = take_first(asks));) {
        enum lock_status status = redis_connection_end(node->connection, &ask->call);
        ask->lost |= status == LOCK_UNKNOWN;
        if (status == LOCK_OK)
            vote(node, ask, read_vote(ask));
        else
            append(&silent, ask);
    }
    *asks = silent;
}

/* The node did not answer: questions that insist are kept. */
static void keep_insisting(struct redlock_node *node, struct asks *asks) {
    for (struct redlock_ask *ask; (ask = take_first(asks));) {
        if (ask->round->insists)
            append(&node->unanswered, ask);
        else
            vote(node, ask, REDLOCK_DOWN);
    }
}

/* Sends unanswered questions, then new ones: in the order in which they were posted. Twice if necessary,
 * since often only the first try finds that the connection is broken; but a stopped node that hangs is not
 * waited for twice. */
static void send_all(struct redlock_node *node, struct asks *asks) {
    struct asks all = node->unanswered;
    int64_t since_ns = now_ns();
    node->unanswered = (struct asks){NULL, NULL};
    for (struct redlock_ask *ask; (ask = take_first(asks));)
        append(&all, ask);
    send_once(node, &all);
    if (all.first && (!atomic_load(&node->stop) || now_ns() - since_ns < retry_ns))
        send_once(node, &all);
    keep_insisting(node, &all);
}

/* Called, and returns, with the mutex held. False: stopped, and nothing is queued. */
static bool wait_for_work(struct redlock_node *node) {
    int64_t until_ns = now_ns() + retry_ns;
    if (!node->unanswered.first)
        until_ns = INT64_MAX;
    while (!node->queue.first && !node->stop && lock_wait_until(&node->cond, &node->mutex, until_ns))
        ;
    return node->queue.first || !node->stop;
}

static void *run(void *arg) {
    struct redlock_node *node = arg;
    pthread_mutex_lock(&node->mutex);
    while (wait_for_work(node)) {
        struct asks asks = node->queue;
        node->queue = (struct asks){NULL, NULL};
        pthread_mutex_unlock(&node->mutex);
        send_all(node, &asks);
        pthread_mutex_lock(&node->mutex);
    }
    pthread_mutex_unlock(&node->mutex);
    for (struct redlock_ask *ask; (ask = take_first(&node->unanswered));)
        vote(node, ask, REDLOCK_DOWN);
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
                                       const struct lock_env *env) {
    struct redlock_node *node = calloc(1, sizeof *node);
    if (!node)
        return NULL;
    pthread_mutex_init(&node->mutex, NULL);
    pthread_cond_init(&node->cond, NULL);
    node->connection = redis_connection_open(target, timeout_ms, env);
    if (node->connection && lock_env_start_thread(&node->thread, run, node))
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

void redlock_node_report(const struct redlock_node *node, const char *why) {
    redis_connection_report(node->connection, why);
}

void redlock_node_post(struct redlock_node *node, struct redlock_ask *ask) {
    int most = ask->round->insists ? ASKS_MAX : ASKS_MAX / 2;
    if (atomic_fetch_add(&node->length, 1) >= most) {
        vote(node, ask, REDLOCK_DOWN);
        return;
    }
    pthread_mutex_lock(&node->mutex);
    append(&node->queue, ask);
    pthread_cond_signal(&node->cond);
    pthread_mutex_unlock(&node->mutex);
}
