/* A subscription to one channel, with a connection and a thread of its own. */
#ifndef BASE_REDIS_BLOCKING_SUBSCRIBER_H
#define BASE_REDIS_BLOCKING_SUBSCRIBER_H

#include "base/redis/blocking/connection.h"

struct redis_subscriber;

/* Connects, and reconnects as often as necessary. `hooks` has the channel, and hears the messages. NULL when
 * out of memory, or of threads. */
struct redis_subscriber *redis_subscriber_open(const struct redis_url *url, const struct redis_hooks *hooks);
/* Tells its thread to end, and does not wait for that. NULL does nothing. */
void redis_subscriber_stop(struct redis_subscriber *subscriber);
/* Whether its thread has ended, so that redis_subscriber_close() does not block. True for NULL. */
bool redis_subscriber_has_ended(const struct redis_subscriber *subscriber);
/* NULL does nothing. */
void redis_subscriber_close(struct redis_subscriber *subscriber);
/* Connects anew: the host name may mean another server by now. NULL does nothing. */
void redis_subscriber_reconnect(struct redis_subscriber *subscriber);
/* As far as it knows; false for NULL. */
bool redis_subscriber_is_subscribed(const struct redis_subscriber *subscriber);

#endif
