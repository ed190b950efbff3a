/* The retry policy of seckill-load: the number of attempts, and the back-off between them, which is
 * exponential with jitter. (A retry also goes to the next target: see connection_pool.c.) */
#ifndef LOADTEST_HTTP_RETRY_BACKOFF_H
#define LOADTEST_HTTP_RETRY_BACKOFF_H

#include <stdint.h>

#include "base/random.h"

#define RETRY_ATTEMPTS       10                /* of a request with --retries, the first attempt included */
#define RETRY_BACKOFF_MIN_NS UINT64_C(5000000) /* after the first failure */
#define RETRY_BACKOFF_MAX_NS UINT64_C(1000000000) /* limit between two attempts of one job */
#define RETRY_PAUSE_MAX_NS   UINT64_C(100000000)  /* limit before a new job, if the last was not sent */

/* The wait after `failures` failures in a row (1 or more). It doubles each time. Half of it is random, so
 * that connections that failed together do not return together. */
static inline uint64_t retry_backoff_ns(unsigned failures, uint64_t max_ns, uint64_t *random) {
    uint64_t wait_ns = failures < 9 ? RETRY_BACKOFF_MIN_NS << (failures - 1) : max_ns;
    if (wait_ns > max_ns)
        wait_ns = max_ns;
    return wait_ns / 2 + random_next(random) % (wait_ns / 2);
}

#endif
