/* The load generator: sends purchases, baskets and transfers in a closed loop, then resolves the unknown
 * ones. */
#ifndef LOADTEST_GENERATOR_H
#define LOADTEST_GENERATOR_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

#include "loadtest/http/connection_pool.h"
#include "loadtest/judge/request_log.h"
#include "loadtest/progress.h"
#include "loadtest/request_plan.h"

struct generator {
    const struct plan *plan;
    const struct target *targets;
    struct request_log *log;
    struct progress *progress;
    struct request_template templates[FLAG_TEXTS][REQUEST_KINDS]; /* by target */
    const volatile sig_atomic_t *stop;
    uint64_t random;
    uint64_t started_ns;
    uint64_t ended_ns; /* the last answer that settled a request */
    uint64_t answered;
    uint64_t outcomes[OUTCOME_REJECTED + 1];
    bool out_of_memory; /* the request log could not grow, and the load ended early */
    size_t cursor;      /* of the resolution: the next line */
};

/* `generator` is zeroed; the arguments must outlive it. `run` has RUN_DIGITS hexadecimal digits. */
void generator_init(struct generator *generator, const struct plan *plan, const struct target *targets,
                    const char *run, struct request_log *log, struct progress *progress,
                    const volatile sig_atomic_t *stop);

/* Sends requests until --requests are sent, --duration has passed, or *stop is not 0. Blocks until every
 * request in flight has ended. */
void generator_run(struct generator *generator, struct connection_pool *pool);

/* Repeats each unknown request with its key until it is settled or the deadline has passed. Blocks. */
void generator_resolve(struct generator *generator, struct connection_pool *pool, uint64_t deadline_ns);

#endif
