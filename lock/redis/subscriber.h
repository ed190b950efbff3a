/* Hears who is given a lock: the process's subscription to lock:wake:SESSION, on a connection and a thread of
 * its own. Not for users. */
#ifndef LOCK_REDIS_SUBSCRIBER_H
#define LOCK_REDIS_SUBSCRIBER_H

#include "base/redis_target.h"
#include "lock/core/env.h"

struct redis_listener;

/* Connects, and connects again as often as it must; each time it listens anew everybody is woken, since what
 * was said meanwhile was not heard. NULL when out of memory, or of threads. */
struct redis_listener *redis_listener_open(const struct redis_target *target, const struct lock_env *env);
void redis_listener_close(struct redis_listener *listener); /* NULL is fine */
/* Connects anew: the name may mean another server by now. NULL is fine. */
void redis_listener_move(struct redis_listener *listener);
/* Does it hear, as far as it knows? NULL does not. */
bool redis_listener_hears(const struct redis_listener *listener);

#endif
