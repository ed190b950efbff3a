/* A closed loop on a fixed number of HTTP/1.1 keep-alive connections. Each connection takes a job, sends the
 * job's request, and takes the next job when this one is over; it has at most one request in flight. A struct
 * pool_work supplies the jobs and judges the answers. Everything runs in the thread that calls
 * connection_pool_run(). */
#ifndef LOADTEST_HTTP_CONNECTION_POOL_H
#define LOADTEST_HTTP_CONNECTION_POOL_H

#include <netinet/in.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "loadtest/http/http_response.h"

#define POOL_REQUEST_SIZE 4096 /* a basket of 32 lines is the largest request */

/* A server that requests go to. */
struct target {
    char host[300]; /* NAME:PORT, for the Host header */
    struct sockaddr_storage address;
};

enum connection_result {
    CONNECTION_ANSWERED,
    CONNECTION_NOT_SENT,   /* no connection, or it broke before a byte of the request was sent */
    CONNECTION_BROKEN,     /* it broke after bytes were sent: the seller may have carried out the request */
    CONNECTION_TIMED_OUT,  /* no answer in time: likewise */
    CONNECTION_UNREADABLE, /* the answer is not an HTTP response: likewise */
};

/* The end of one attempt of a job. */
struct pool_answer {
    uint64_t job;
    unsigned tries; /* attempts, with this one */
    enum connection_result result;
    const struct response *response; /* NULL: not answered */
    uint64_t sent_ns;
    uint64_t answered_ns; /* or the time when the attempt was given up */
};

struct pool_work {
    void *self; /* the first argument of each callback */
    /* Stores the number of the next job; false: there are no more jobs. */
    bool (*next)(void *self, uint64_t now_ns, uint64_t *job);
    /* Writes the job's request into `request` (POOL_REQUEST_SIZE bytes) and returns its length. */
    size_t (*render)(void *self, uint64_t job, const struct target *target, char *request);
    /* True: the job is over. False: try it again, at the next target, after a back-off. */
    bool (*answered)(void *self, const struct pool_answer *answer);
    /* Called 200 times a second. */
    void (*tick)(void *self, uint64_t now_ns);
    uint64_t timeout_ns;               /* of one attempt */
    uint64_t deadline_ns;              /* no attempt begins after it; the callbacks may change it */
    const volatile sig_atomic_t *stop; /* no attempt begins when it is not 0; may be NULL */
};

struct connection_pool;

/* The connections are spread over the targets, which must outlive the pool. `seed` is that of the back-off.
 * NULL when out of memory. */
struct connection_pool *connection_pool_open(const struct target *targets, unsigned target_count,
                                             unsigned connections, uint64_t seed);
void connection_pool_close(struct connection_pool *pool);

/* Runs until there are no more jobs, or until the deadline or `stop`. Then waits for the requests in flight.
 * May be called again, with other work, on the same connections. */
void connection_pool_run(struct connection_pool *pool, const struct pool_work *work);

/* The number of connections that were opened. */
uint64_t connection_pool_connects(const struct connection_pool *pool);

#endif
