/* Connects to a Redis and logs in. For the files that use hiredis. */
#ifndef LOCK_REDIS_DIAL_H
#define LOCK_REDIS_DIAL_H

#include <hiredis/hiredis.h>

#include "base/redis_target.h"

/* Blocks for `timeout_ms` at most, and for as long as the look-up of a host name takes. NULL: the server
 * cannot be reached, or it refused the password or the database; `error`, which may be NULL with size 0, says
 * which. */
redisContext *redis_dial(const struct redis_target *target, int timeout_ms, char *error, size_t error_size);

#endif
