/* The lock that strategy `locked` sells under, as the service sees it. Two of them live here: `none:` and
 * `local:`. */
#ifndef SERVICE_LOCKER_H
#define SERVICE_LOCKER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct locker;

/* Opens a lock by its URL; NULL on failure, with what exists in `error`. */
struct locker *locker_open(const char *url, char *error, size_t error_size);
void locker_close(struct locker *locker);

/* Blocks until the lock of `key` is had (true), or CLOCK_MONOTONIC has passed `deadline_ns` (false). From any
 * thread. */
bool locker_acquire(struct locker *locker, const char *key, int64_t deadline_ns);
/* Gives back what was acquired; from any thread. */
void locker_release(struct locker *locker, const char *key);

#endif
