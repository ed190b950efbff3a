/* A session with an ensemble of ZooKeeper: reads its address, connects, keeps the session alive by
 * heartbeats, and replaces it when it is over. Not for users. */
#ifndef LOCK_ZOOKEEPER_ZOOKEEPER_SESSION_H
#define LOCK_ZOOKEEPER_ZOOKEEPER_SESSION_H

#include "lock/zookeeper/zookeeper_calls.h"

enum {
    ZOOKEEPER_ROOT_SIZE = 264,
    ZOOKEEPER_LEVELS_MAX = 9,                                           /* of the root */
    ZOOKEEPER_SERVERS_SIZE = 4 * sizeof((struct lock_url *)0)->address, /* each may get a port */
};

/* Reads HOST[:PORT],HOST[:PORT]...[/CHROOT], as it stands in the URL of a lock. `servers` gets all of them
 * with their ports, `root` is CHROOT/lock. False: `what` says what is not valid, and where. */
bool zookeeper_address_read(const char *address, char servers[ZOOKEEPER_SERVERS_SIZE],
                            char root[ZOOKEEPER_ROOT_SIZE], char *what, size_t size);

struct zookeeper_session;

/* Begins to connect; does not block. Has a thread of its own, and two of the C client. `env` must outlive it;
 * all waiters are woken when a session is over. `servers` is HOST:PORT,HOST:PORT, and is copied. NULL when
 * out of memory, or of threads. */
struct zookeeper_session *zookeeper_session_open(const char *servers, int64_t ttl_ms,
                                                 const struct lock_env *env);
/* Frees the session; no thread may be inside a call. With `expire` its nodes stay until the session expires;
 * otherwise the session ends now. Waits for up to a tenth of a second for replies in flight, and until the C
 * client has closed. */
void zookeeper_session_close(struct zookeeper_session *session, bool expire);

/* The number of the current session, never 0. Each new session has the next. */
uint64_t zookeeper_session_number(struct zookeeper_session *session);

/* CLOCK_MONOTONIC: until when a call that begins now may wait. */
int64_t zookeeper_session_until_ns(const struct zookeeper_session *session);

/* Sends requests, which the server carries out in this order, and waits for the replies until the limit is
 * over. `*number` is the session that they are for; 0: the current one, whose number it becomes. LOCK_OK: all
 * were answered. LOCK_UNAVAILABLE, LOCK_NOMEM: none was carried out, or will be. LOCK_NOT_OWNER: that session
 * is over, and with it all that it owned. LOCK_UNKNOWN: some replies are lost; `replies` says which. */
enum lock_status zookeeper_session_call(struct zookeeper_session *session, uint64_t *number,
                                        const struct zookeeper_request *requests, int count,
                                        struct zookeeper_reply *replies, const struct lock_limit *limit);

/* The deadline of a grant that was asked for at `sent_ns`: its time to live later, but not after the session
 * may end. 0: the session is over, or no heartbeat was answered for so long that it may soon be. */
int64_t zookeeper_session_deadline_ns(struct zookeeper_session *session, uint64_t number, int64_t sent_ns);

#endif
