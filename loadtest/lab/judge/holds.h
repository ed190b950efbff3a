/* Holds: for each grant, how long its client believed that it held the lock, and which of them overlap. */
#ifndef LOADTEST_LAB_JUDGE_HOLDS_H
#define LOADTEST_LAB_JUDGE_HOLDS_H

#include "loadtest/lab/events/event.h"

/* A client believes from the answer to its request until it sends the release, hears that the grant is lost,
 * or the deadline passes. A request whose answer is unknown may have been granted: it may hold the lock for a
 * time to live. */
struct hold {
    const char *who, *key;
    bool possible;    /* it is not known whether it was granted */
    uint64_t grant;   /* 0 if it is possible only */
    uint64_t begun_n; /* acquire.ok, or acquire.unknown */
    uint64_t ended_n; /* 0: the deadline passed, or the play ended */
    int64_t from_ns, to_ns;
    int64_t until_ns; /* the deadline, as it was moved last */
};

/* Two clients at once on one key. */
struct overlap {
    const struct hold *one, *other; /* `other` began later */
    int64_t from_ns, to_ns;
};

struct holds {
    struct hold *holds; /* in the order of their grants */
    size_t count;
    struct overlap *overlaps; /* of what clients believe, by key and begin */
    size_t overlap_count;
    /* The time with two holders or more, of all keys together: as they believe, and with those that are
     * possible. */
    int64_t overlap_ns, possible_overlap_ns;
};

/* False when out of memory. The holds point into the log. */
bool holds_find(const struct event_log *log, struct holds *holds);
void holds_free(struct holds *holds);

/* NULL: there is none. */
const struct hold *holds_of_grant(const struct holds *holds, uint64_t grant);

#endif
