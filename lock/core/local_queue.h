/* The local queue: which thread of this process holds a key, and which threads wait for it, first come, first
 * served. Only the local holder asks the store, so a hundred threads that want one key are one contender to
 * the store.
 *
 * One grant of the store can serve several local holders, one after the other, each with its own fence: these
 * hand-offs cost the store nothing (D. Dice, V. Marathe, N. Shavit, "Lock Cohorting", PPoPP 2012; as there,
 * a bound keeps other processes from starving). Every function may be called by any thread, and only
 * lock_local_queue_enter() blocks. Not for users. */
#ifndef LOCK_CORE_LOCAL_QUEUE_H
#define LOCK_CORE_LOCAL_QUEUE_H

#include "lock/core/backend.h"

/* A release that the background thread does later, because it could not be done at the time (maintenance.c).
 * It is allocated before the store is asked for the grant, so that no key stays locked for want of memory.
 * Freed by free(). */
struct lock_pending_release {
    STAILQ_ENTRY(lock_pending_release) next;
    struct waiter *waiter; /* woken when it is done; NULL: no thread waits for it */
    int64_t until_ns;
    char owner[LOCK_OWNER_SIZE];
    char key[LOCK_KEY_MAX + 1];
};

/* A grant of the store to this process. */
struct lock_store_grant {
    char owner[LOCK_OWNER_SIZE]; /* as the store knows it; "": nothing is granted */
    unsigned holders_left;       /* how many more local holders it may serve */
    uint64_t moves;              /* lock->moves when the store was last known to have this grant */
    uint64_t next_fence;
    int64_t since_ns;      /* when the local holder got it */
    int64_t pass_until_ns; /* later it is not passed on: too little time would be left */
    int64_t deadline_ns;
    int64_t third_ns;  /* a third of the time until the deadline, when that was set; the queue sets it */
    int64_t verify_ns; /* when it is due to be verified; 0: the queue decides */
    struct lock_pending_release *pending; /* for its release. It belongs to the local queue, or to the
                                             function that took the grant out of it. May be NULL */
};

struct lock_local_queue;

/* `env` must outlive the queue. `renews`: the background thread extends grants in time. `outlives_deadline`
 * as in struct lock_backend. NULL when out of memory. */
struct lock_local_queue *lock_local_queue_new(const struct lock_env *env, int64_t ttl_ns, bool renews,
                                              bool outlives_deadline);
/* No thread may be inside a call. Frees what is granted too. `queue` may be NULL. */
void lock_local_queue_free(struct lock_local_queue *queue);

/* Blocks until `owner` is the local holder of `key`: LOCK_OK, LOCK_TIMEOUT, LOCK_CANCELLED, LOCK_NOMEM. With
 * a deadline in the past it tries once. `*granted` is what the last holder passed on or forgot. The owner
 * stays the holder until lock_local_queue_leave() or lock_local_queue_end(), or, if it forgets to release,
 * until the grant's deadline. `waiter` must exist until lock_local_queue_set_grant() or
 * lock_local_queue_end(): until then lock_local_queue_wake() and lock_local_queue_wake_all() wake it, since
 * its thread may wait for the store. */
enum lock_status lock_local_queue_enter(struct lock_local_queue *queue, const char *key, const char *owner,
                                        int64_t deadline_ns, struct cancel *cancel, struct waiter *waiter,
                                        struct lock_store_grant *granted);
/* The local holder has `grant` now, a part of `granted`, which the queue keeps. False: the last holder had
 * passed on `granted`, and it was lost meanwhile; the local holder has nothing. */
bool lock_local_queue_set_grant(struct lock_local_queue *queue, const struct lock_grant *grant,
                                const struct lock_store_grant *granted);

/* How many threads wait now, for any key. */
uint64_t lock_local_queue_count_waiting(struct lock_local_queue *queue);

enum lock_local_release {
    LOCK_LOCAL_NOT_HOLDER, /* `owner` is not the holder, or not any more */
    LOCK_LOCAL_STILL_HELD, /* the thread had acquired more than once */
    LOCK_LOCAL_PASSED_ON,  /* the next in the queue takes over the grant */
    LOCK_LOCAL_TO_STORE, /* the caller releases `*granted` in the store, then calls lock_local_queue_end() */
};

/* `owner` releases. `may_pass_on`: the next in the queue may take over the grant. `*granted` becomes what the
 * store granted, except with LOCK_LOCAL_NOT_HOLDER. Its `pending` is NULL unless the answer is
 * LOCK_LOCAL_TO_STORE: then it belongs to the caller. */
enum lock_local_release lock_local_queue_leave(struct lock_local_queue *queue, const char *key,
                                               const char *owner, bool may_pass_on,
                                               struct lock_store_grant *granted);
/* Nothing is granted any more, and the next in the queue becomes the holder. */
void lock_local_queue_end(struct lock_local_queue *queue, const char *key, const char *owner);

/* True: the calling thread holds `key`, and has acquired it once more. `*grant` is its grant. */
bool lock_local_queue_reenter(struct lock_local_queue *queue, const char *key, struct lock_grant *grant);

/* The local holder `owner` asks the store again if it waits for it. False: the store's owner `owner` neither
 * holds the key here nor waits for it. */
bool lock_local_queue_wake(struct lock_local_queue *queue, const char *key, const char *owner);
/* All local holders that wait for the store ask it again. */
void lock_local_queue_wake_all(struct lock_local_queue *queue);

/* The current deadline of a grant, which may have been renewed; 0: released or lost. `progresses`: its holder
 * reports progress. */
int64_t lock_local_queue_deadline_ns(struct lock_local_queue *queue, const struct lock_grant *grant,
                                     bool progresses);

/* A grant that is due: a third of its time has passed since it was verified last, or it should have been
 * renewed and its deadline has passed. */
struct lock_due {
    struct lock_grant grant; /* as its holder knows it */
    struct lock_store_grant granted;
    int64_t silent_ns; /* since its holder last reported progress */
    bool forgotten;    /* its deadline has passed and it was not released: there is no local holder any more,
                          but the store still has `granted`, whose `pending` belongs to the caller now */
};

/* Sets `due->granted` to what the store granted for `due->grant`. False: it is not held, or not any more. */
bool lock_local_queue_find(struct lock_local_queue *queue, struct lock_due *due);
/* One pass over all grants. What is due a little later (a sixteenth of the time between two verifications)
 * counts as due, so that thousands of grants need few passes. */
struct lock_scan {
    int bucket;      /* 0 at first */
    int64_t next_ns; /* when the first of the grants is due that were not yet; INT64_MAX at first */
};

/* The next grant that is due, which counts as verified now. False: there are no more. A forgotten grant that
 * no thread waits for is taken out of the queue; a thread that waits takes it over itself. */
bool lock_local_queue_next_due(struct lock_local_queue *queue, struct lock_scan *scan, struct lock_due *due);
/* In the same way the next grant that was not renewed until a third of its time was left, and so counts as
 * lost. `scan->next_ns` becomes when the first of the others will be in that state. Changes no grant. */
bool lock_local_queue_next_late(struct lock_local_queue *queue, struct lock_scan *scan, struct lock_due *due);
/* Sets the deadline of a grant, and when it is verified again, if that is earlier than before; 0: leaves it
 * as it is. Raises its `moves` to `due->granted.moves`. False: the grant has ended meanwhile. */
bool lock_local_queue_update(struct lock_local_queue *queue, const struct lock_due *due, int64_t deadline_ns,
                             int64_t verify_ns);
/* Makes every grant due now. */
void lock_local_queue_doubt_all(struct lock_local_queue *queue);
/* Marks the grant as lost. `gone`: the store does not have it any more; otherwise no other owner gets the key
 * before its deadline, but its holder should stop. False: it has ended meanwhile. */
bool lock_local_queue_set_lost(struct lock_local_queue *queue, const struct lock_due *due, bool gone);
/* The grant has ended meanwhile, but the store's grant was passed on: `due->grant` becomes the grant of the
 * thread that holds it now. False: no thread does, or its grant was lost already. */
bool lock_local_queue_find_successor(struct lock_local_queue *queue, struct lock_due *due);

#endif
