/* Scenarios: each is one way in which a sale goes wrong, and what fixes it. It is played twice, broken and
 * fixed, with the same fault at the same moment. A file has the scenarios of one theme; scenarios.c has the
 * list of them, and plays one. */
#ifndef LOADTEST_LAB_SCENARIOS_SCENARIOS_H
#define LOADTEST_LAB_SCENARIOS_SCENARIOS_H

#include "loadtest/lab/draw/html.h"
#include "loadtest/lab/stage/stage.h"

struct scenario {
    const char *name;
    struct report_text text; /* its title is the sentence that the scenario teaches */
    int64_t ttl_ms;          /* of the lock; waits are multiples of it */
    bool shows_steps;        /* `run` prints the steps at the stock, since they are the lesson */
    /* Starts servers and clients, begins, breaks something, and lets things happen. It judges nothing. */
    void (*play)(struct stage *stage, bool broken);
};

/* ways_to_sell.c */
extern const struct scenario scenario_no_lock, scenario_strategies;
/* wrong_redis_locks.c */
extern const struct scenario scenario_get_then_set, scenario_crash_before_expire, scenario_getset,
    scenario_maotai, scenario_equal_timestamps;
/* paused_holders.c */
extern const struct scenario scenario_hung_holder, scenario_paused_holder, scenario_paused_quorum,
    scenario_etcd_paused, scenario_zookeeper_paused;
/* failovers.c */
extern const struct scenario scenario_sentinel_failover, scenario_split_brain;
/* redlock_votes.c */
extern const struct scenario scenario_clock_jump, scenario_lost_memory;
/* etcd_locks.c */
extern const struct scenario scenario_dead_lease, scenario_herd;
/* lock_limits.c */
extern const struct scenario scenario_two_processes, scenario_half_a_basket, scenario_twice_is_harmless;

/* All of them, in the order in which they are taught; NULL at the end. */
extern const struct scenario *const scenarios[];

/* Returns NULL if no scenario has this name. */
const struct scenario *scenario_find(const char *name);

/* ---- one play of a scenario: on a stage of its own, recorded, and judged ---- */

struct play_plan {
    const struct scenario *scenario;
    bool broken;    /* the play is named and judged as the broken one */
    bool fixed_way; /* the play runs as the fixed one: with `broken`, a test sees that the judge finds no
                       fault */
    int64_t seed;
    const char *work;     /* a directory for the servers; the play makes its own in it */
    const char *programs; /* where seckill-lab and the others are; NULL: beside this program */
    const char *logs;     /* where the logs of servers and clients go if the set-up fails */
    const char *events;   /* the file that is written */
    void *ctx;            /* see stage_options */
};

/* Plays a scenario, and reads back what was recorded; the verdict is the last line of the file. Blocks until
 * the play has ended. Must be called from the main thread, since processes are started. Returns false, and
 * the reason in `error`, if the file could not be written or read. */
bool play_run(const struct play_plan *plan, struct judged_play *played, char *error, size_t error_size);

#endif
