/* One connection to a Redis, shared by all threads that call over it. Not for users.
 *
 * Answers come in the order of the commands. One of the threads that wait reads for all of them (D. C.
 * Schmidt et al., "Leader/Followers", PLoP 2000). While answers are in flight commands gather, and are then
 * written together. So a lone caller costs one write and one read, with no other thread in between, and many
 * callers share both. */
#ifndef LOCK_REDIS_CONNECTION_H
#define LOCK_REDIS_CONNECTION_H

#include "base/redis/command.h"
#include "base/redis/url.h"
#include "lock/core/runtime.h"
#include "lock/redis/protocol.h"

/* A call in flight; the caller's own. */
struct redis_request {
    STAILQ_ENTRY(redis_request) next;
    struct redis_answer *answer;
    int64_t until_ns; /* not answered by then: the connection is closed */
    uint64_t ends_at; /* position of its command's end in all bytes ever queued */
    enum lock_status status;
    bool done;      /* its thread is woken, unless it finished the call itself */
    bool leads;     /* the leader before it has appointed it, and woken its thread */
    bool abandoned; /* its caller has gone, and this is a copy; the answer is thrown away */
    struct lock_waiter waiter;
};

struct redis_connection;

/* Connects with the first call, to the first server of the URL, or to the master that its Sentinels name. A
 * call that is not answered within `timeout_ms` closes the connection, and fails all calls behind it. `env`
 * may be NULL. NULL when out of memory. */
struct redis_connection *redis_connection_open(const struct redis_url *url, int timeout_ms,
                                               const struct lock_env *env);
/* No thread may be inside a call. NULL does nothing. */
void redis_connection_close(struct redis_connection *connection);

/* lock_env_failed() for this server, for failures that only the caller notices. */
void redis_connection_report(const struct redis_connection *connection, const char *why);

/* LOCK_OK: answered, perhaps with an ERROR. LOCK_UNKNOWN: the command may have been carried out or not; also
 * soon after `cancel` (which may be NULL) is called: another thread reads the answer then. LOCK_UNAVAILABLE,
 * LOCK_NOMEM: it was not carried out. Blocks for the timeout at most, which includes connecting: if too
 * little of it is left then, the command is not sent.
 *
 * An answer that the server is a replica closes the connection once no thread waits on it, since the host
 * name may mean another server by now. */
enum lock_status redis_connection_call(struct redis_connection *connection, int argc,
                                       const char *const argv[], struct redis_answer *answer,
                                       struct lock_cancel *cancel);

/* The two halves of a call, for a thread that has several commands to send at once: they are written with the
 * first redis_connection_end(). Each call that was begun must be ended, in the same order. `until_ns`: when
 * it must be answered, including connecting; 0: a timeout after connecting, which may take another. */
void redis_connection_begin(struct redis_connection *connection, struct redis_request *call, int argc,
                            const char *const argv[], struct redis_answer *answer, int64_t until_ns);
enum lock_status redis_connection_end(struct redis_connection *connection, struct redis_request *call,
                                      struct lock_cancel *cancel);

/* For the thread that watches Sentinels. */
struct redis_named;
/* False: no server was reached yet. `*epoch` becomes that of the newest failover that the connection has
 * heard of, if that is newer. */
bool redis_connection_was_reached(struct redis_connection *connection, int64_t *epoch);
/* The Sentinels say this now, in time. A connection to another server than they name is left, as if it broke;
 * then one to the master is made, if they name one, so that lock_env_moved() is called soon. So it is if they
 * have heard of a failover since this master was reached. What is older than what the connection has heard
 * since they were asked does not count. True: it was left. */
bool redis_connection_follow(struct redis_connection *connection, const struct redis_named *named);

#endif
