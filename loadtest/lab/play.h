/* One play of a scenario: on a stage of its own, recorded, and judged. */
#ifndef LOADTEST_LAB_PLAY_H
#define LOADTEST_LAB_PLAY_H

#include "loadtest/lab/scenarios/scenarios.h"

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
    void *ctx;            /* see stage_ctx() */
};

/* Plays a scenario, and reads back what was recorded; the verdict is the last line of the file. Blocks until
 * the play has ended. Must be called from the main thread, since processes are started. Returns false, and
 * the reason in `error`, if the file could not be written or read. */
bool play_run(const struct play_plan *plan, struct judged_play *played, char *error, size_t error_size);

#endif
