/* The probe: does the lock work, and what are its capabilities? */
#ifndef LOCK_BENCH_PROBE_H
#define LOCK_BENCH_PROBE_H

#include "lock/lock.h"

/* Opens the lock and acquires it once, in a child process, so that this process has no threads when it forks
 * others. LOCK_OK and its `caps`; LOCK_CONFIG (no such lock) or another status, and `error`. */
enum lock_status bench_probe(const char *url, bool teaching, unsigned *caps, char *error, size_t error_size);

#endif
