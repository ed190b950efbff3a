/* Who of this process waits for a lock in etcd, and what each is told of. Not for users.
 *
 * An owner's notes are used by one thread at a time: the one with the turn in the line of its key, or whoever
 * takes back what it left. */
#ifndef LOCK_ETCD_WAITS_H
#define LOCK_ETCD_WAITS_H

#include "lock/etcd_session.h"

struct etcd_waits;

/* Where an owner stands in etcd. */
struct etcd_place {
    int64_t revision, lease;  /* of its key; 0: it has none */
    char name[ETCD_KEY_SIZE]; /* whose deletion it waits for; "": it does not wait */
};

/* NULL when out of memory. `session` outlives it, but its client is closed first. */
struct etcd_waits *etcd_waits_new(struct etcd_session *session);
/* NULL is fine. */
void etcd_waits_free(struct etcd_waits *waits);

/* False: the owner is not noted, and `*place` is untouched. */
bool etcd_waits_find(struct etcd_waits *waits, const char *owner, struct etcd_place *place);
/* The owner of `grant` waits there: it is woken when the key of that name is deleted, and also once as soon
 * as that is sure to be noticed, since it may have gone before. False: it will not be woken, and must look by
 * itself. */
bool etcd_waits_note(struct etcd_waits *waits, const struct lock_grant *grant,
                     const struct etcd_place *place);
/* It waits no more. Not noted is fine. */
void etcd_waits_drop(struct etcd_waits *waits, const char *owner);

#endif
