/* The subscription of this process to lock:wake:SESSION, by which a Redis wakes waiters. It has its own
 * connection and thread. Not for users. */
#ifndef LOCK_REDIS_SUBSCRIBER_H
#define LOCK_REDIS_SUBSCRIBER_H

#include "base/redis/url.h"
#include "lock/core/runtime.h"

struct redis_subscriber;

/* Connects, and reconnects as often as necessary. After each time all waiters are woken, since messages may
 * have been lost. NULL when out of memory, or of threads. */
struct redis_subscriber *redis_subscriber_open(const struct redis_url *url, const struct lock_env *env);
/* Ends its thread, without waiting for it: that has ended then, and redis_subscriber_close() does not block.
 * NULL does nothing, and has ended. */
void redis_subscriber_stop(struct redis_subscriber *subscriber);
bool redis_subscriber_has_ended(const struct redis_subscriber *subscriber);
/* NULL does nothing. */
void redis_subscriber_close(struct redis_subscriber *subscriber);
/* Connects anew: the host name may mean another server by now. NULL does nothing. */
void redis_subscriber_reconnect(struct redis_subscriber *subscriber);
/* As far as it knows; false for NULL. */
bool redis_subscriber_is_subscribed(const struct redis_subscriber *subscriber);

#endif
