/* hiredis on a libuv loop: its socket is polled, and what it queued is written at once by redis_poll_flush().
 *
 * A request of hiredis to write is only noted: the write is tried at the end of the turn of the loop, and
 * only what the socket does not take costs an epoll_ctl(). */
#ifndef INVENTORY_STORE_REDIS_POLL_H
#define INVENTORY_STORE_REDIS_POLL_H

#include <stdbool.h>
#include <uv.h>

struct redis_poll;
struct redisAsyncContext;

/* Takes care of the connection until hiredis frees it, which ends the poll too. NULL when out of memory, or
 * if its socket cannot be polled. */
struct redis_poll *redis_poll_start(uv_loop_t *loop, struct redisAsyncContext *hiredis);
/* Writes what is queued now, as far as the socket takes it; the rest follows by itself. The connection may be
 * freed when this returns. */
void redis_poll_flush(struct redis_poll *poll);

#endif
