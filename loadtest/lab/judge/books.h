/* The books: what the stock acknowledged, against what it says that it has sold and has left. */
#ifndef LOADTEST_LAB_JUDGE_BOOKS_H
#define LOADTEST_LAB_JUDGE_BOOKS_H

#include "loadtest/lab/events/event.h"

struct books {
    int64_t oversold;     /* units that were sold and were not there */
    int64_t lost_updates; /* units that were sold and are still on the shelf: a later write was computed
                             without them */
    int64_t vanished;     /* units whose sale was acknowledged, and is not in the books at the end */
    int64_t torn;         /* requests for several items of which some were sold and others were not */
};

/* Counts, for all items of a play, and adds evidence. */
void books_audit(const struct event_log *log, struct books *books, uint64_t evidence[EVENT_EVIDENCE]);

#endif
