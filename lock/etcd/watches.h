/* Who of this process waits for a lock in etcd, and how each is told. Not for users.
 *
 * There is one watch for each lock that somebody here waits for, and it stays for a while: until something is
 * had, or waited for, ten seconds later. To watch anew for each wait would be slower: a watch "from now on"
 * begins at the revision that the server read a moment before, and if something is written in that moment it
 * belongs to the past, and to a loop of the server that runs every 100 ms.
 *
 * An owner's place is used by one thread at a time: the one with the turn in the line of its key, or whoever
 * takes back what it left. */
#ifndef LOCK_ETCD_WAITS_H
#define LOCK_ETCD_WAITS_H

#include "lock/etcd/session.h"

struct etcd_waits;

/* Where an owner stands in etcd. */
struct etcd_place {
    int64_t revision, lease; /* of its key; 0: it has none */
    /* The key whose deletion it waits for, and the store's revision when it was seen; "": it does not wait.
     */
    char name[ETCD_KEY_SIZE];
    int64_t seen;
};

/* `prefix`: the keys to wait for begin with the range that etcd_waits_note() is given; otherwise the range is
 * the key. `session` outlives it, but its client is closed first. NULL when out of memory. */
struct etcd_waits *etcd_waits_new(struct etcd_session *session, bool prefix);
/* NULL is fine. */
void etcd_waits_free(struct etcd_waits *waits);

/* False: the owner does not wait, and `*place` is untouched. */
bool etcd_waits_find(struct etcd_waits *waits, const char *owner, struct etcd_place *place);

enum etcd_wait {
    ETCD_WAIT_TOLD /* it will be woken */,
    ETCD_WAIT_PASSED /* perhaps it is gone: look again */,
    ETCD_WAIT_DEAF
};
/* The owner of `grant` waits there, for a key of `range`. */
enum etcd_wait etcd_waits_note(struct etcd_waits *waits, const struct lock_grant *grant, const char *range,
                               const struct etcd_place *place);
/* It waits no more. Fine if it never did. */
void etcd_waits_drop(struct etcd_waits *waits, const char *owner);

/* LOCK_BUSY, and when to look again in each case. */
enum lock_status etcd_waits_busy(struct etcd_waits *waits, enum etcd_wait wait, struct lock_attempt *attempt);

#endif
