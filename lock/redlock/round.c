#include "lock/redlock/round.h"

#include <stdlib.h>

#include "base/clock.h"
#include "lock/core/waiter.h"

struct redlock_round *redlock_round_new(int nodes) {
    struct redlock_round *round = calloc(1, sizeof *round + (size_t)nodes * sizeof round->asks[0]);
    if (!round)
        return NULL;
    pthread_mutex_init(&round->mutex, NULL);
    pthread_cond_init(&round->decided, NULL);
    round->users = 1 + nodes;
    round->votes.count[REDLOCK_OPEN] = nodes;
    for (int i = 0; i < nodes; i++) {
        round->asks[i].round = round;
        round->asks[i].node = i;
    }
    return round;
}

/* With the mutex held, which is gone then, and perhaps the round. */
static void let_go(struct redlock_round *round) {
    bool last = --round->users == 0;
    pthread_mutex_unlock(&round->mutex);
    if (!last)
        return;
    pthread_cond_destroy(&round->decided);
    pthread_mutex_destroy(&round->mutex);
    free(round);
}

static bool is_decided(const struct redlock_round *round) {
    const int *count = round->votes.count;
    int yes = count[REDLOCK_YES], open = count[REDLOCK_OPEN], rest = count[round->rests];
    if (yes >= round->enough)
        return true;
    return yes + open < round->enough && (rest > round->spare || rest + open <= round->spare);
}

static void count_vote(struct redlock_round *round, int node, enum redlock_vote vote) {
    round->votes.by_node[node] = vote;
    round->votes.count[REDLOCK_OPEN]--;
    round->votes.count[vote]++;
}

void redlock_round_skip(struct redlock_round *round, int node) {
    count_vote(round, node, REDLOCK_NO);
    round->users--;
}

void redlock_round_vote(struct redlock_ask *ask, enum redlock_vote vote) {
    struct redlock_round *round = ask->round;
    pthread_mutex_lock(&round->mutex);
    count_vote(round, ask->node, vote);
    if (is_decided(round))
        pthread_cond_signal(&round->decided);
    let_go(round);
}

struct redlock_votes redlock_round_end(struct redlock_round *round) {
    pthread_mutex_lock(&round->mutex);
    for (int64_t now_ns; !is_decided(round) && !lock_cancel_called(round->cancel) &&
                         (now_ns = clock_mono_ns(&clock_system)) < round->until_ns;) {
        int64_t until_ns = lock_cancel_poll_ns(round->cancel, now_ns, round->until_ns);
        struct timespec until = {.tv_sec = until_ns / 1000000000, .tv_nsec = until_ns % 1000000000};
        pthread_cond_clockwait(&round->decided, &round->mutex, CLOCK_MONOTONIC, &until);
    }
    struct redlock_votes votes = round->votes;
    if (!is_decided(round)) {
        votes.count[REDLOCK_DOWN] += votes.count[REDLOCK_OPEN];
        votes.count[REDLOCK_OPEN] = 0;
    }
    let_go(round);
    return votes;
}
