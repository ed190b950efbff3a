/* Waits for a lock: how long, for what, and what they cost the store. */
#ifndef LOADTEST_LAB_JUDGE_WAITS_H
#define LOADTEST_LAB_JUDGE_WAITS_H

#include "loadtest/lab/judge/holds.h"

struct waits {
    int64_t longest_ns;
    int64_t starved_ns;          /* the longest time that a client waited, and nobody was granted the lock */
    const struct event *starved; /* its request; NULL: nobody waited */
    /* Of keys that each holder released in time (when a lease runs out, all who wait have to ask): grants
     * after the first one, and requests to the store of all that asked for such a key; 0: not known. */
    int64_t hand_overs, requests;
};

void waits_measure(const struct event_log *log, const struct holds *holds, struct waits *waits);

#endif
