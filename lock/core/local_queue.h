/* The local queue: which thread of this process holds a key, and which wait for it, first come, first served.
 * Only the local holder asks the store, so a hundred threads that want one key are one contender to it.
 *
 * One grant of the store can serve several local holders, one after the other, each with its own fence: such
 * hand-overs cost the store nothing (D. Dice, V. Marathe, N. Shavit, "Lock Cohorting", PPoPP 2012; as there,
 * a bound keeps other processes from starving). Not for users. */
#ifndef LOCK_CORE_LOCAL_QUEUE_H
#define LOCK_CORE_LOCAL_QUEUE_H

#include "lock/core/runtime.h"

/* A release that the background thread does later, because it could not be done at the time (maintenance.h).
 * It is allocated before the store is asked for anything, so that no key stays there for want of memory.
 * Freed by free(). */
struct lock_pending_release {
    STAILQ_ENTRY(lock_pending_release) next;
    struct lock_waiter *waiter; /* woken when it is done; NULL: no thread waits for it */
    int64_t until_ns;
    char owner[LOCK_OWNER_SIZE];
    char key[LOCK_KEY_MAX + 1];
};

/* A grant of the store to this process. */
struct lock_store_grant {
    char owner[LOCK_OWNER_SIZE]; /* as the store knows it; "": nothing is granted */
    unsigned holders_left;       /* how many more local holders it may serve */
    uint64_t moves;              /* of the store (handle.h), when it was last known to have this */
    uint64_t next_fence;
    int64_t since_ns;      /* when the local holder got it */
    int64_t pass_until_ns; /* later it is not passed on: too little time would be left */
    int64_t deadline_ns;
    int64_t third_ns;                     /* of the time until the deadline, when that was set; the queue's */
    int64_t verify_ns;                    /* when it is to be verified; 0: the queue decides */
    struct lock_pending_release *pending; /* for its release. It belongs to the local queue, or to the
                                             function that took the grant out of it. May be NULL */
};

struct lock_local_queue;

/* `env` must outlive it. `renews`: grants are to be extended in time. `outlives_deadline` as in struct
 * lock_backend. NULL when out of memory. */
struct lock_local_queue *lock_local_queue_new(const struct lock_env *env, int64_t ttl_ns, bool renews,
                                              bool outlives_deadline);
void lock_local_queue_free(struct lock_local_queue *queue);

/* Waits until `owner` is the local holder of `key`: LOCK_OK, LOCK_TIMEOUT, LOCK_CANCELLED, LOCK_NOMEM. With a
 * deadline in the past it tries once. `*granted` is what the holder before it has left. It stays the holder
 * until lock_local_queue_end(), or, if it forgets to release, until the grant's deadline. `waiter` must exist
 * until lock_local_queue_set_grant() or lock_local_queue_end(): until then it is woken by
 * lock_local_queue_wake() and lock_local_queue_wake_all(), as its thread may wait for the store. */
enum lock_status lock_local_queue_enter(struct lock_local_queue *queue, const char *key, const char *owner,
                                        int64_t deadline_ns, struct lock_cancel *cancel,
                                        struct lock_waiter *waiter, struct lock_store_grant *granted);
/* The local holder has `grant` now, out of `granted`, which the queue keeps. False: the holder before it had
 * left `granted`, and that was lost meanwhile; the local holder has nothing. */
bool lock_local_queue_set_grant(struct lock_local_queue *queue, const struct lock_grant *grant,
                                const struct lock_store_grant *granted);

/* How many threads wait now, for any key. */
uint64_t lock_local_queue_count_waiting(struct lock_local_queue *queue);

enum lock_local_release {
    LOCK_LOCAL_NOT_HOLDER, /* `owner` is not the holder, or not any more */
    LOCK_LOCAL_STILL_HELD, /* the thread had acquired more than once */
    LOCK_LOCAL_PASSED_ON,  /* the next in the queue has the grant */
    LOCK_LOCAL_TO_STORE, /* the caller releases `*granted` in the store, then calls lock_local_queue_end() */
};

/* `may_pass_on`: the next in the queue may have the grant. `*granted` is what was granted, except with
 * LOCK_LOCAL_NOT_HOLDER; only with LOCK_LOCAL_TO_STORE its `pending` belongs to the caller. */
enum lock_local_release lock_local_queue_leave(struct lock_local_queue *queue, const char *key,
                                               const char *owner, bool may_pass_on,
                                               struct lock_store_grant *granted);
/* Nothing is granted any more, and the next in the queue becomes the holder. */
void lock_local_queue_end(struct lock_local_queue *queue, const char *key, const char *owner);

/* If the calling thread holds `key` it acquires it again: true, and `*grant` is its grant. */
bool lock_local_queue_reenter(struct lock_local_queue *queue, const char *key, struct lock_grant *grant);

/* False: `owner`, which is the store's name for it, neither holds nor waits here. */
bool lock_local_queue_wake(struct lock_local_queue *queue, const char *key, const char *owner);
void lock_local_queue_wake_all(struct lock_local_queue *queue);

/* The deadline of a grant as it is now, since it may have been renewed; 0: released or lost. `progresses`:
 * its holder reports progress. */
int64_t lock_local_queue_deadline_ns(struct lock_local_queue *queue, const struct lock_grant *grant,
                                     bool progresses);

/* A grant that must be verified: a third of its time has passed since the last time; or it should
 * have been renewed and its deadline has passed. */
struct lock_due {
    struct lock_grant grant; /* as its holder knows it */
    struct lock_store_grant granted;
    int64_t silent_ns; /* since its holder last reported progress */
    bool forgotten;    /* its deadline has passed and it was not released: there is no local holder any more,
                          but the store still has `granted`, whose `pending` belongs to the caller */
};

/* Fills in `due->granted` for `due->grant`; false: it is not held (any more). */
bool lock_local_queue_find(struct lock_local_queue *queue, struct lock_due *due);
/* One pass over all grants; begins with `next_ns` INT64_MAX. What is due a little later (a sixteenth of the
 * time between two verifications) counts as due, so that thousands of grants need few passes. */
struct lock_scan {
    int bucket;
    int64_t
        next_ns; /* when the first of the grants that were passed over is due; INT64_MAX: there was none */
};

/* The next grant that is due, which counts as verified now; false: no more. A forgotten grant that no thread
 * waits for is taken out of the queue; a thread that waits takes it over itself. */
bool lock_local_queue_next_due(struct lock_local_queue *queue, struct lock_scan *scan, struct lock_due *due);
/* In the same way the next grant that has less than a third of its time left, and so counts as lost if it
 * should have been renewed; `scan->next_ns` is when the first of the others will have. It stays as it is. */
bool lock_local_queue_next_late(struct lock_local_queue *queue, struct lock_scan *scan, struct lock_due *due);
/* The grant has another deadline, or is verified again earlier than it would be; 0: as it is. And
 * `due->granted.moves`, if that is more. False: it has ended meanwhile. */
bool lock_local_queue_update(struct lock_local_queue *queue, const struct lock_due *due, int64_t deadline_ns,
                             int64_t verify_ns);
/* Every grant is due now. */
void lock_local_queue_doubt_all(struct lock_local_queue *queue);
/* The grant is lost. `gone`: it is not in the store any more; otherwise no other owner has it before its
 * deadline, but its holder should stop. False: it has ended meanwhile. */
bool lock_local_queue_set_lost(struct lock_local_queue *queue, const struct lock_due *due, bool gone);
/* The grant has ended meanwhile, but the store's was passed on: `due->grant` becomes that of who holds it
 * now. False: nobody does, or he was told that it is lost. */
bool lock_local_queue_find_heir(struct lock_local_queue *queue, struct lock_due *due);

#endif
