/* The load itself: purchases, baskets and transfers in a closed loop, then one question more for each that
 * stayed unknown. */
#ifndef LOADTEST_LOAD_H
#define LOADTEST_LOAD_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

#include "loadtest/http/client_pool.h"
#include "loadtest/http/request.h"
#include "loadtest/judge/request_log.h"
#include "loadtest/options.h"
#include "loadtest/plan/demand.h"
#include "loadtest/report/progress.h"

struct load {
    const struct options *options;
    const struct demand *demand;
    struct ledger *ledger;
    struct progress *progress;
    struct request_form forms[OPTIONS_URLS][DEMAND_KINDS]; /* of each target */
    const volatile sig_atomic_t *stop;
    uint64_t random;
    uint64_t started_ns;
    uint64_t ended_ns; /* of the last answer that settled a request */
    uint64_t answered;
    uint64_t outcomes[LEDGER_REJECTED + 1];
    bool out_of_memory; /* the ledger could not grow: the load ended early */
    size_t cursor;      /* of the resolving: lines before it were asked for */
};

/* Everything but `load` must outlive it. `run` has REQUEST_RUN hex digits. */
void load_init(struct load *load, const struct demand *demand, const struct client_target *targets,
               const char *run, struct ledger *ledger, struct progress *progress,
               const volatile sig_atomic_t *stop);

/* Asks until the number or the time is reached, or *stop is not 0. */
void load_run(struct load *load, struct pool *pool);

/* Asks again for each unknown line, with its key, until it is settled or the deadline has come. */
void load_resolve(struct load *load, struct pool *pool, uint64_t deadline_ns);

#endif
