/* The socket to a Redis: connects and logs in, writes, reads. For the files that use hiredis. */
#ifndef LOCK_REDIS_DIAL_H
#define LOCK_REDIS_DIAL_H

#include <hiredis/hiredis.h>
#include <stdbool.h>

#include "base/redis_url.h"

/* Blocks for `timeout_ms` at most, and for as long as the look-up of a host name takes. NULL: the server
 * cannot be reached, or it refused the password or the database; `error`, which may be NULL with size 0, says
 * which. */
redisContext *redis_dial(const struct redis_target *target, int timeout_ms, char *error, size_t error_size);
/* The same to the first server of a URL, or to the master that Sentinels name: it must say that it is one.
 * `reached` is which server that was, or the one that could not be reached. */
redisContext *redis_dial_url(const struct redis_url *url, int timeout_ms, struct redis_target *reached,
                             char *error, size_t error_size);

/* Returns 0, or an errno; ETIMEDOUT after `until_ns`. `*sent` counts what was written. */
int redis_dial_write(int fd, const char *bytes, size_t length, int64_t until_ns, size_t *sent);
/* As recv(), but fails with ETIMEDOUT after `until_ns`. */
ssize_t redis_dial_read(int fd, char *bytes, size_t size, int64_t until_ns, _Atomic bool *quick);
/* A waiter busy-polls for so long before it sleeps, if the last answer came that quickly (`*quick`): waking a
 * thread takes longer than most answers, on processors that sleep deeply. It yields to other threads. */
extern const int64_t redis_dial_busy_poll_ns;

#endif
