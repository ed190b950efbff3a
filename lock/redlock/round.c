#include "lock/redlock/round.h"

#include <stdlib.h>

#include "lock/core/waiter.h"

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

void redlock_round_vote(struct redlock_ask *ask, enum redlock_vote vote) {
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
