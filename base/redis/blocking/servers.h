/* The servers behind one URL: one Redis, the master that Sentinels name, or the masters of a cluster. Each
 * has a connection and, once a caller asks for it, a subscriber.
 *
 * - Below Sentinels a thread asks them again and again where the master is.
 * - In a cluster a call goes to the server that has the slot of its key, as far as is known. redirect.h says
 *   what an error means for it.
 * - The thread that finds the map of slots (CLUSTER SLOTS) outdated reads it, at most once a second.
 * - A map that is older than the last one is not believed (slots.h).
 * - A server that has no slot, and that the URL does not name, is forgotten once it was idle for some time
 *   (slots.h), with the next call.
 *
 * Any thread may call all functions but the first two. */
#ifndef BASE_REDIS_BLOCKING_SERVERS_H
#define BASE_REDIS_BLOCKING_SERVERS_H

#include "base/redis/blocking/connection.h"

struct redis_servers;

/* Connects with the first call. A call gives up a server that does not answer within `timeout_ms`; in a
 * cluster it may take half as long again, since it may read the map. NULL when out of memory, or of threads.
 */
struct redis_servers *redis_servers_open(const struct redis_url *url, int timeout_ms,
                                         const struct redis_hooks *hooks);
/* No thread may be inside a call. NULL does nothing. */
void redis_servers_close(struct redis_servers *servers);

/* As redis_connection_call(), to the server that has `key`. */
enum redis_status redis_servers_call(struct redis_servers *servers, const char *key, int argc,
                                     const char *const argv[], struct redis_answer *answer,
                                     struct cancel *cancel);

/* Whether this process is subscribed to the hooks' channel at the key's server, as far as it knows.
 * `subscribe`: starts the subscriber if there is none. */
bool redis_servers_are_subscribed(struct redis_servers *servers, const char *key, bool subscribe);

#endif
