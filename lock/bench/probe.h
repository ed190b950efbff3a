/* Is the lock there, and what can it do? */
#ifndef LOCK_BENCH_PROBE_H
#define LOCK_BENCH_PROBE_H

#include "lock/lock.h"

/* Opens the lock and takes it once, in a process of its own, so that this one has no threads when it forks
 * others. LOCK_OK and its `caps`; or LOCK_CONFIG (no such lock) or another status, and in `error` what is
 * wrong. */
enum lock_status bench_probe(const char *url, bool teaching, unsigned *caps, char *error, size_t error_size);

#endif
