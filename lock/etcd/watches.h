/* How a waiter for a lock in etcd learns that its predecessor's key is gone. Not for users.
 *
 * There is one watch for each lock that a thread of this process waits for. It stays until ten seconds after
 * the last wait, because a new watch for each wait would be slower: a watch "from now on" begins at the
 * revision that the server read a moment before. If something is written in that moment the watch counts as
 * one from the past, and is served by a loop of the server that runs every 100 ms.
 *
 * At most one owner waits for each lock: the local holder of its key (local_queue.h). */
#ifndef LOCK_ETCD_WATCHES_H
#define LOCK_ETCD_WATCHES_H

#include "lock/etcd/session.h"

struct etcd_watches;

/* An owner's place in the queue of its lock. */
struct etcd_place {
    int64_t revision, lease; /* of its own key; 0: it has none */
    /* The key whose deletion it waits for ("": it does not wait), and the store's revision when that was
     * read. */
    char predecessor[ETCD_KEY_SIZE];
    int64_t read_revision;
};

/* `prefix`: the watched names are prefixes of keys; otherwise keys. `session` must outlive it, but its client
 * is closed first. NULL when out of memory. */
struct etcd_watches *etcd_watches_new(struct etcd_session *session, bool prefix);
/* NULL does nothing. */
void etcd_watches_free(struct etcd_watches *watches);

/* The attempt's owner waits from now on, and is woken when its predecessor's key is deleted. LOCK_BUSY, and
 * when to ask again if it is not woken. */
enum lock_status etcd_watches_wait(struct etcd_watches *watches, const char *name,
                                   struct lock_attempt *attempt, const struct etcd_place *place);
/* `owner` waits no more; nothing is done if it did not wait. */
void etcd_watches_drop(struct etcd_watches *watches, const char *name, const char *owner);

#endif
