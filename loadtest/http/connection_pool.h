/* A connection pool: a closed loop on a fixed number of connections. Each connection takes a job, sends its
 * request, and takes the next job when that one is over. A struct pool_work has the jobs, and judges the
 * answers. One thread: the caller of connection_pool_run(). */
#ifndef LOADTEST_HTTP_CONNECTION_POOL_H
#define LOADTEST_HTTP_CONNECTION_POOL_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "loadtest/http/connection.h"

struct connection_pool;

struct pool_answer {
    uint64_t job;
    unsigned tries; /* attempts, with this one */
    enum connection_result result;
    const struct response *response; /* NULL: not answered */
    uint64_t sent_ns;
    uint64_t answered_ns; /* or the time when it was given up */
};

struct pool_work {
    void *self;
    /* The number of the next job; false: no more jobs. */
    bool (*next)(void *self, uint64_t now_ns, uint64_t *job);
    /* Writes the job's request into `request` (REQUEST_SIZE bytes) and returns its length. */
    size_t (*render)(void *self, uint64_t job, const struct target *target, char *request);
    /* True: the job is over. False: try it again, at the next target, after a backoff. */
    bool (*answered)(void *self, const struct pool_answer *answer);
    /* Called 200 times a second. */
    void (*tick)(void *self, uint64_t now_ns);
    uint64_t timeout_ns;               /* of one attempt */
    uint64_t deadline_ns;              /* no attempt begins after it; the callbacks may change it */
    const volatile sig_atomic_t *stop; /* no attempt begins when it is not 0; may be NULL */
};

/* NULL when out of memory. `targets` must outlive the pool. */
struct connection_pool *connection_pool_open(const struct target *targets, unsigned target_count,
                                             unsigned connections, uint64_t seed);
void connection_pool_close(struct connection_pool *pool);

/* Runs until no job is left, or the deadline or `stop` has come. Then waits for the requests in flight. */
void connection_pool_run(struct connection_pool *pool, const struct pool_work *work);

/* The connections that were opened. */
uint64_t connection_pool_connects(const struct connection_pool *pool);

#endif
