/* A scenario: one way in which a sale goes wrong, and what fixes it. It is played twice, with the same fault
 * at the same moment. One file each; scenarios.c lists them. */
#ifndef LOADTEST_LAB_SCENARIOS_SCENARIO_H
#define LOADTEST_LAB_SCENARIOS_SCENARIO_H

#include "loadtest/lab/draw/html.h"
#include "loadtest/lab/stage/stage.h"

struct scenario {
    const char *name;
    struct report_text text; /* its title is the sentence that it teaches */
    int64_t ttl_ms;          /* of the lock; waits are multiples of it */
    bool shows_steps;        /* its steps at the stock are printed: they are the lesson */
    /* Starts servers and clients, begins, breaks, and lets things happen. It judges nothing. */
    void (*play)(struct stage *stage, bool broken);
};

/* In the order in which they are taught. NULL at the end. */
extern const struct scenario *const scenarios[];

/* NULL: there is none of this name. */
const struct scenario *scenario_find(const char *name);

#endif
