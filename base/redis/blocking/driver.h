/* The blocking driver from within: what its units have of each other. connection.h and servers.h are for its
 * users. */
#ifndef BASE_REDIS_BLOCKING_DRIVER_H
#define BASE_REDIS_BLOCKING_DRIVER_H

#include <hiredis/hiredis.h>

#include "base/redis/blocking/connection.h"
#include "base/redis/election.h"

/* ---- the socket to a Redis (dial.c) ---- */

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

/* ---- where the master is: at the first server of a URL, or where its Sentinels say (sentinels.c) ---- */

/* What the Sentinels say; all 0 before they are asked for the first time. */
struct redis_named {
    struct redis_target master;     /* with the URL's account. If none is named: the server asked last */
    struct redis_election election; /* kept from one time to the next */
    int64_t asked_epoch; /* election.epoch when they were asked. A connection that has heard of a newer
                            failover since does not believe this answer */
};

/* Asks all Sentinels at once, each in a thread of its own. Blocks for `timeout_ms` at most, whatever single
 * Sentinels do, and for the look-up of their names. False: no master is named, and `error` says why. */
bool redis_master_ask(const struct redis_url *url, int timeout_ms, struct redis_named *named, char *error,
                      size_t error_size);

/* As redis_dial(), to the master. A server that Sentinels name must say itself that it is a master.
 * `named->master` is the server that was reached, or the one that could not be. */
redisContext *redis_master_dial(const struct redis_url *url, int timeout_ms, struct redis_named *named,
                                char *error, size_t error_size);

/* ---- a connection that follows Sentinels (connection.c): for the thread that asks them ---- */

/* False: no server was reached yet. `*epoch` becomes that of the newest failover that the connection has
 * heard of, if that is newer. */
bool redis_connection_was_reached(struct redis_connection *connection, int64_t *epoch);
/* Follows what the Sentinels say now. Leaves a server that they do not name, as if the connection broke; also
 * while they replace the master. Then connects to the master that they name, so that a move is reported soon.
 * Reports a move too if they have heard of a failover since this master was reached. Ignores an answer that
 * is older than what the connection has heard since they were asked. True: it left a server. */
bool redis_connection_follow(struct redis_connection *connection, const struct redis_named *named);

/* ---- a subscription to one channel, with a connection and a thread of its own (subscriber.c) ---- */

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
