/* The load: purchases, baskets and transfers in a closed loop; then the resolution of the unknown ones. */
#ifndef LOADTEST_LOAD_H
#define LOADTEST_LOAD_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

#include "loadtest/http/connection_pool.h"
#include "loadtest/http/request.h"
#include "loadtest/judge/request_log.h"
#include "loadtest/options.h"
#include "loadtest/plan/demand.h"
#include "loadtest/progress.h"

struct load {
    const struct demand *demand;
    const struct target *targets;
    struct request_log *log;
    struct progress *progress;
    struct request_form forms[FLAG_TEXTS][DEMAND_KINDS]; /* by target */
    const volatile sig_atomic_t *stop;
    uint64_t random;
    uint64_t started_ns;
    uint64_t ended_ns; /* the last answer that settled a request */
    uint64_t answered;
    uint64_t outcomes[OUTCOME_REJECTED + 1];
    bool out_of_memory; /* the request log could not grow, and the load ended early */
    size_t cursor;      /* of the resolution: the next line */
};

/* `load` is zeroed; the arguments must outlive it. `run` has REQUEST_RUN hex digits. */
void load_init(struct load *load, const struct demand *demand, const struct target *targets, const char *run,
               struct request_log *log, struct progress *progress, const volatile sig_atomic_t *stop);

/* Sends requests until their number or the time is reached, or *stop is not 0. */
void load_run(struct load *load, struct connection_pool *pool);

/* Repeats each unknown request with its key until it is settled or the deadline has passed. */
void load_resolve(struct load *load, struct connection_pool *pool, uint64_t deadline_ns);

#endif
