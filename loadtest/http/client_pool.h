/* A fixed number of connections on one libuv loop, each of which takes a job, sends its request, and takes
 * the next one when that is over: a closed loop. Jobs come from a struct pool_work, which also judges the
 * answers. One thread: that of pool_run. */
#ifndef LOADTEST_HTTP_CLIENT_POOL_H
#define LOADTEST_HTTP_CLIENT_POOL_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "loadtest/http/client.h"

struct pool;

struct pool_answer {
    uint64_t job;
    unsigned tries; /* this one counted */
    unsigned target;
    enum client_result result;
    const struct response *response; /* NULL unless it was answered */
    uint64_t sent_ns;
    uint64_t answered_ns; /* or when it was given up */
};

struct pool_work {
    void *self;
    /* The next job's number; false when there are no more. */
    bool (*next)(void *self, uint64_t now_ns, uint64_t *job);
    /* Writes the job's request into `request` (CLIENT_REQUEST bytes) and returns its length. */
    size_t (*render)(void *self, uint64_t job, unsigned target, char *request);
    /* True when the job is over; false to try it again, on the next target, after a back-off. */
    bool (*answered)(void *self, const struct pool_answer *answer);
    /* Called some hundred times a second; may be NULL. */
    void (*tick)(void *self, uint64_t now_ns);
    uint64_t timeout_ns;               /* for one try */
    uint64_t deadline_ns;              /* nothing is begun or tried again after it; the calls may move it */
    const volatile sig_atomic_t *stop; /* likewise once this is not 0; may be NULL */
};

/* NULL when there is no memory. The targets stay the caller's. */
struct pool *pool_open(const struct client_target *targets, unsigned target_count, unsigned connections,
                       uint64_t seed);
void pool_close(struct pool *pool);

/* Until there are no more jobs, or the deadline or stop has come; then it waits for those under way. */
void pool_run(struct pool *pool, const struct pool_work *work);

/* How many connections were established so far. */
uint64_t pool_connects(const struct pool *pool);

#endif
