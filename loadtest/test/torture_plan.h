/* The plan of a round: one sale, and its faults. It follows from the seed and the number of the round alone,
 * so that a round can be repeated without those before it. */
#ifndef LOADTEST_TEST_TORTURE_PLAN_H
#define LOADTEST_TEST_TORTURE_PLAN_H

#include <stdbool.h>
#include <stdint.h>

enum { TORTURE_SERVICES = 2, TORTURE_FAULTS = 3, TORTURE_STORE_TIMEOUT_MS = 300 };

enum torture_kind {
    TORTURE_REDIS_KILLED,
    TORTURE_REDIS_AWAY,             /* killed, for longer than the service pursues an unknown purchase */
    TORTURE_REDIS_KILLED_REWRITING, /* in the middle of rewriting its append-only file */
    TORTURE_REDIS_FROZEN,           /* for longer than the store time-out */
    TORTURE_SCRIPTS_FLUSHED,
    TORTURE_CLIENTS_KILLED,
    TORTURE_SERVICE_KILLED,
    TORTURE_SERVICE_ENDED, /* SIGTERM, as in a rolling restart */
    TORTURE_SERVICE_FROZEN,
    TORTURE_ALL_KILLED,
    TORTURE_REPLY_CUT, /* from here on: by the proxy before Redis */
    TORTURE_REPLIES_LATE,
    TORTURE_LINK_DOWN,
    TORTURE_KINDS
};

extern const char *const torture_kind_names[TORTURE_KINDS];

struct torture_fault {
    enum torture_kind kind;
    int percent;  /* requests that are answered before the fault */
    int service;  /* the service that it hits, if it hits one */
    int pause_ms; /* until the fault ends, beyond what its kind needs */
    int bytes;    /* bytes of the reply before the cut */
};

struct torture_plan {
    char item[32];
    char name[320]; /* the plan as text */
    const char *strategy;
    bool whole; /* an order and its units are written in one step; not so in decr, which may strand units */
    int stock, limit, hold_s;
    int services; /* services that sell: the last ones */
    int requests, users, quantity, connections, timeout_ms;
    int64_t seed; /* the generator's */
    int fault_count;
    struct torture_fault faults[TORTURE_FAULTS]; /* in the order of time */
};

struct torture_plan torture_plan_make(uint64_t seed, int round);

#endif
