/* The socket to a Redis: connects and logs in, writes, reads. For the files that use hiredis. */
#ifndef BASE_REDIS_BLOCKING_DIAL_H
#define BASE_REDIS_BLOCKING_DIAL_H

#include <hiredis/hiredis.h>
#include <stdbool.h>

#include "base/redis/url.h"

enum { REDIS_WHY_SIZE = 512 }; /* of a reason why a server cannot be used */

/* Connects and logs in. Blocks for `timeout_ms` at most, and for as long as the look-up of a host name takes.
 * NULL: the server cannot be reached, or it refused the password or the database; `error`, which may be NULL
 * with size 0, says which. */
redisContext *redis_dial(const struct redis_target *target, int timeout_ms, char *error, size_t error_size);
/* Connects without logging in, and sets until when that may take. NULL or an error: `*why`. */
redisContext *redis_dial_connect(const struct redis_target *target, int timeout_ms, int64_t *until_ns,
                                 const char **why);
/* Sends a command and waits for its reply. NULL: no reply came in time. */
redisReply *redis_dial_ask(redisContext *hiredis, int64_t until_ns, int argc, const char *argv[]);

/* Returns 0, or an errno; ETIMEDOUT after `until_ns`. `*sent` counts what was written. */
int redis_dial_write(int fd, const char *bytes, size_t length, int64_t until_ns, size_t *sent);
/* As recv(), but fails with ETIMEDOUT after `until_ns`. Sets `*quick`: whether the bytes came within
 * redis_dial_busy_poll_ns. */
ssize_t redis_dial_read(int fd, char *bytes, size_t size, int64_t until_ns, _Atomic bool *quick);
/* A waiter busy-polls for so long before it sleeps, if the last answer came that quickly: waking a thread
 * takes longer than most answers, on processors that sleep deeply. It yields to other threads. */
extern const int64_t redis_dial_busy_poll_ns;

#endif
