/* The servers that have the keys of locks: one Redis, the master that Sentinels name, or the masters of a
 * cluster, each with a connection and, once a waiter needs it, a subscriber. Not for users.
 *
 * In a cluster a call goes to the server that has the slot of its key, as far as is known; MOVED and ASK are
 * followed, TRYAGAIN, CLUSTERDOWN, MASTERDOWN and LOADING are waited for. The map of slots (CLUSTER SLOTS) is
 * read by the thread that finds it outdated, at most once a second; a server that is not in it, nor in the
 * URL, is forgotten. All functions may be called by many threads. */
#ifndef LOCK_REDIS_SERVERS_H
#define LOCK_REDIS_SERVERS_H

#include "base/redis/url.h"
#include "lock/redis/connection.h"

struct redis_servers;

/* Connects with the first call. A server that does not answer within `timeout_ms` is given up for that call;
 * in a cluster within 270 ms at most, since the map may be read besides. NULL when out of memory, or of
 * threads. */
struct redis_servers *redis_servers_open(const struct redis_url *url, int timeout_ms,
                                         const struct lock_env *env);
/* No thread may be inside a call. NULL does nothing. */
void redis_servers_close(struct redis_servers *servers);

/* As redis_connection_call(), to the server that has `key`. */
enum lock_status redis_servers_call(struct redis_servers *servers, const char *key, int argc,
                                    const char *const argv[], struct redis_answer *answer,
                                    struct lock_cancel *cancel);

/* Is this process subscribed to what the key's server publishes to it? `subscribe`: starts the subscriber. */
bool redis_servers_are_subscribed(struct redis_servers *servers, const char *key, bool subscribe);

#endif
