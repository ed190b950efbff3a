/* To connect to a Redis, and to greet it. For the files of this room that know hiredis. */
#ifndef LOCK_REDIS_DIAL_H
#define LOCK_REDIS_DIAL_H

#include <hiredis/hiredis.h>

#include "base/redis_target.h"

/* Blocks for `timeout_ms` at most, and for as long as the look-up of a host name takes. NULL: not there, or
 * it refused the password or the database; `error`, for which there may be no room (NULL, 0), says which. */
redisContext *redis_dial(const struct redis_target *target, int timeout_ms, char *error, size_t error_size);

#endif
