#include "lock/redlock/node.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "base/clock.h"

/* What a node that hangs may have before it: more is not taken, and its vote is down. Of that half is left to
 * those that insist, which take back what others have left. */
enum { ASKS_MAX = 4096 };

/* A node that did not answer is asked again after so long, or when there is something new to ask. */
static const int64_t knock_ns = 100000000;

struct asks {
    struct redlock_ask *head, *tail;
};

struct redlock_node {
    struct redis_connection *connection; /* the thread's own */
    struct asks left;                    /* the thread's own: they insist, and the node did not answer */
    pthread_t thread;
    _Atomic int length; /* of `queue` and `left`, and what is being asked */
    pthread_mutex_t mutex;
    pthread_cond_t cond;
    struct asks queue;
    _Atomic bool stop; /* written with the mutex */
};

static int64_t now_ns(void) {
    return clock_mono_ns(&clock_system);
}

static void append(struct asks *asks, struct redlock_ask *ask) {
    ask->next = NULL;
    if (asks->head)
        asks->tail->next = ask;
    else
        asks->head = ask;
    asks->tail = ask;
}

static struct redlock_ask *take_first(struct asks *asks) {
    struct redlock_ask *ask = asks->head;
    if (ask)
        asks->head = ask->next;
    return ask;
}

/* ---- the thread ---- */

static void vote(struct redlock_node *node, struct redlock_ask *ask, enum redlock_vote vote) {
    atomic_fetch_sub(&node->length, 1);
    redlock_round_vote(ask, vote);
}

/* Votes for what it is too late to send. */
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

/* A reply that is an error is not an answer: the node cannot do its work. */
static enum redlock_vote read_vote(const struct redlock_ask *ask) {
    if (ask->answer.type != REDIS_ANSWER_INTEGER)
        return REDLOCK_DOWN;
    if (ask->answer.integer == 1)
        return REDLOCK_YES;
    return ask->round->insists && ask->lost ? REDLOCK_LOST : REDLOCK_NO;
}

/* Asks all in one go; what is not answered stays. */
static void ask_once(struct redlock_node *node, struct asks *asks) {
    struct asks silent = {NULL, NULL};
    drop_late(node, asks);
    for (struct redlock_ask *ask = asks->head; ask; ask = ask->next)
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

/* The node did not answer: who insists is kept. */
static void put_off(struct redlock_node *node, struct asks *asks) {
    for (struct redlock_ask *ask; (ask = take_first(asks));) {
        if (ask->round->insists)
            append(&node->left, ask);
        else
            vote(node, ask, REDLOCK_DOWN);
    }
}

/* True: the node answers, as far as is known. Where it did not the last time, only one is asked to find out,
 * however many are left. */
static bool knock(struct redlock_node *node) {
    while (node->left.head && now_ns() >= node->left.head->round->late_ns)
        vote(node, take_first(&node->left), REDLOCK_DOWN);
    if (!node->left.head)
        return true;
    struct redlock_ask *ask = take_first(&node->left);
    struct asks one = {NULL, NULL};
    append(&one, ask);
    ask_once(node, &one);
    if (!one.head)
        return true;
    ask->next = node->left.head;
    if (!node->left.head)
        node->left.tail = ask;
    node->left.head = ask;
    return false;
}

/* Asks what is left and then what is new: the order in which it was posted. Twice, as a connection that has
 * broken is often noticed only by the first; but at the end a node that hangs is not waited for twice. */
static void ask_all(struct redlock_node *node, struct asks *asks) {
    if (knock(node)) {
        struct asks all = node->left;
        int64_t since_ns = now_ns();
        node->left = (struct asks){NULL, NULL};
        for (struct redlock_ask *ask; (ask = take_first(asks));)
            append(&all, ask);
        ask_once(node, &all);
        if (all.head && (!atomic_load(&node->stop) || now_ns() - since_ns < knock_ns))
            ask_once(node, &all);
        *asks = all;
    }
    put_off(node, asks);
}

/* Called, and returns, with the mutex held. False: the end. */
static bool wait_for_work(struct redlock_node *node) {
    int64_t until_ns = now_ns() + knock_ns;
    struct timespec until = {.tv_sec = until_ns / 1000000000, .tv_nsec = until_ns % 1000000000};
    int over = 0;
    while (!node->queue.head && !node->stop && !over) {
        if (node->left.head)
            over = pthread_cond_clockwait(&node->cond, &node->mutex, CLOCK_MONOTONIC, &until);
        else
            pthread_cond_wait(&node->cond, &node->mutex);
    }
    return node->queue.head || !node->stop;
}

static void *run(void *arg) {
    struct redlock_node *node = arg;
    pthread_mutex_lock(&node->mutex);
    while (wait_for_work(node)) {
        struct asks asks = node->queue;
        node->queue = (struct asks){NULL, NULL};
        pthread_mutex_unlock(&node->mutex);
        ask_all(node, &asks);
        pthread_mutex_lock(&node->mutex);
    }
    pthread_mutex_unlock(&node->mutex);
    for (struct redlock_ask *ask; (ask = take_first(&node->left));)
        vote(node, ask, REDLOCK_DOWN);
    return NULL;
}

/* ---- from any thread ---- */

static void free_node(struct redlock_node *node) {
    redis_connection_close(node->connection);
    pthread_cond_destroy(&node->cond);
    pthread_mutex_destroy(&node->mutex);
    free(node);
}

struct redlock_node *redlock_node_open(const struct redis_target *target, int patience_ms,
                                       const struct lock_env *env) {
    struct redlock_node *node = calloc(1, sizeof *node);
    if (!node)
        return NULL;
    pthread_mutex_init(&node->mutex, NULL);
    pthread_cond_init(&node->cond, NULL);
    node->connection = redis_connection_open(target, patience_ms, env);
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

void redlock_node_tell(const struct redlock_node *node, const char *why) {
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
