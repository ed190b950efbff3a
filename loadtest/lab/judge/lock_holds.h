/* Lock holds: for each grant, how long its client believed that it held the lock, and where two beliefs
 * overlap. */
#ifndef LOADTEST_LAB_JUDGE_LOCK_HOLDS_H
#define LOADTEST_LAB_JUDGE_LOCK_HOLDS_H

#include "loadtest/lab/events/event.h"

/* A client believes from the answer to its request until it sends the release, hears that the grant is lost,
 * or the deadline passes. A request whose answer is unknown may have been granted: its client may hold the
 * lock for a time to live. */
struct lock_hold {
    const char *who, *key;
    bool possible;    /* it is not known whether the lock was granted */
    uint64_t grant;   /* 0 if the hold is only possible */
    uint64_t begun_n; /* the event acquire.ok or acquire.unknown */
    uint64_t ended_n; /* 0: the deadline passed, or the play ended */
    int64_t from_ns, to_ns;
    int64_t until_ns; /* the deadline, as the last renewal moved it */
};

/* Two clients held one key at the same time. */
struct lock_overlap {
    const struct lock_hold *one, *other; /* `other` began later */
    int64_t from_ns, to_ns;
};

struct lock_holds {
    struct lock_hold *holds; /* in the order of their grants */
    size_t count;
    struct lock_overlap *overlaps; /* of what clients believe, sorted by key and begin */
    size_t overlap_count;
    int64_t overlap_ns; /* the time in which two clients or more believed, summed over all keys */
};

/* Returns false when out of memory. The holds point into the log. */
bool lock_holds_find(const struct event_log *log, struct lock_holds *holds);
void lock_holds_free(struct lock_holds *holds);

/* Returns NULL if no hold has this grant. */
const struct lock_hold *lock_holds_of_grant(const struct lock_holds *holds, uint64_t grant);

#endif
