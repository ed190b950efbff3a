/* One play of a scenario: on a stage of its own, recorded, and judged. */
#ifndef LOADTEST_LAB_PLAY_H
#define LOADTEST_LAB_PLAY_H

#include "loadtest/lab/scenarios/scenario.h"

struct play_plan {
    const struct scenario *scenario;
    bool broken;    /* how it is called, and judged */
    bool fixed_way; /* it is played in the fixed way: for a test that takes the fault away */
    int64_t seed;
    const char *work;     /* a directory for servers; a new one is made in it */
    const char *programs; /* where seckill-lab and the others are */
    const char *logs;     /* where logs of servers and clients go if the set-up fails */
    const char *events;   /* the file that is written */
    void *ctx;            /* see stage_ctx() */
};

/* Plays it, and reads what was recorded. Its verdict is the last line of the file. False: the file could not
 * be written or read; `error` says why. */
bool play_run(const struct play_plan *plan, struct judged_play *played, char *error, size_t error_size);

#endif
