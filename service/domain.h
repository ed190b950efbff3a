/* Which lock is in force. */
#ifndef SERVICE_DOMAIN_H
#define SERVICE_DOMAIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lock/lock.h"
#include "service/config.h"

struct domain;

/* The lock in force as long as one is in it, and the epoch of its grants' tokens. */
struct domain_use {
    struct lock *lock;
    uint64_t epoch;
};

/* NULL on failure, with the reason in `error`. */
struct domain *domain_open(const struct config *config, char *error, size_t error_size);

/* To be called around everything that is done with a lock; from threads of the pool. False: none is in force
 * now, nor before `deadline_ns` (of CLOCK_MONOTONIC). */
bool domain_enter(struct domain *domain, int64_t deadline_ns, struct domain_use *use);
void domain_leave(struct domain *domain, const struct domain_use *use);

void domain_read_metrics(struct domain *domain, struct lock_metrics *metrics);

/* Nobody may be in it. */
void domain_close(struct domain *domain);

#endif
