/* A metric that one thread writes and others read. Since no two threads write it, no locked instruction is
 * needed. */
#ifndef BASE_METRIC_H
#define BASE_METRIC_H

#include <stdint.h>

/* Any thread. */
static inline uint64_t metric_read(const _Atomic uint64_t *metric) {
    return __atomic_load_n((const uint64_t *)metric, __ATOMIC_RELAXED);
}

/* The writing thread only. */
static inline void metric_add(_Atomic uint64_t *metric, uint64_t n) {
    __atomic_store_n((uint64_t *)metric, metric_read(metric) + n, __ATOMIC_RELAXED);
}

#endif
