/* Who in this process holds which key, and who waits for it, first come, first served. Only the first in line
 * goes to the store, so that a hundred threads that want one key are one contender to it.
 *
 * A turn is one holder's time in this process. What the store has granted can serve several turns, one after
 * the other, each with its own fence: such hand-overs cost the store nothing (D. Dice, V. Marathe, N. Shavit,
 * "Lock Cohorting", PPoPP 2012; as there, a bound keeps other processes from starving). Not for users. */
#ifndef LOCK_CORE_LOCAL_QUEUE_H
#define LOCK_CORE_LOCAL_QUEUE_H

#include "lock/core/env.h"
#include "lock/core/waiter.h"

/* What is released by the background thread, since it could not be at the time (keeper.h). It is made before
 * the store is asked for anything, so that no key stays there for want of memory. Freed by free(). */
struct lock_pending {
    struct lock_pending *next;
    struct lock_waiter *waiter; /* to be woken when it is done; NULL: nobody waits for it */
    int64_t until_ns;
    char owner[LOCK_OWNER_SIZE];
    char key[LOCK_KEY_MAX + 1];
};

/* What the store has granted to this process. */
struct lock_held {
    char owner[LOCK_OWNER_SIZE]; /* as the store knows it; "": nothing */
    unsigned fences;             /* how many turns it serves yet */
    uint64_t fence;              /* the next turn's */
    int64_t since_ns;            /* the turn's */
    int64_t pass_until_ns;       /* no turn begins after that: too little time would be left */
    int64_t deadline_ns;
    struct lock_pending *pending; /* for its release; whoever is given what is held has it, and the line no
                                     more. NULL: none */
};

struct lock_lines;

/* `env` must outlive it. `renews`: no grant should run out while it is held. `lasts`: the store does not
 * forget those that ran out. NULL when out of memory. */
struct lock_lines *lock_lines_new(const struct lock_env *env, int64_t ttl_ns, bool renews, bool lasts);
void lock_lines_free(struct lock_lines *lines);

/* Waits for the turn of `key`: LOCK_OK, LOCK_TIMEOUT, LOCK_CANCELLED, LOCK_NOMEM. A `deadline_ns` that is
 * over asks once. `*held` is what the one before has left. The turn ends with lock_lines_end(), or, where the
 * holder forgot it, with the deadline given to lock_lines_hold(). */
enum lock_status lock_lines_enter(struct lock_lines *lines, const char *key, const char *owner,
                                  int64_t deadline_ns, struct lock_cancel *cancel, struct lock_held *held);
/* Whoever has the turn has the lock now, with `grant` of `held`, which the line keeps. */
void lock_lines_hold(struct lock_lines *lines, const struct lock_grant *grant, const struct lock_held *held);

/* How many wait for a turn, of any key, now. */
uint64_t lock_lines_waiting(struct lock_lines *lines);

enum lock_turn {
    LOCK_TURN_OVER,   /* `owner` does not have the turn (any more) */
    LOCK_TURN_INNER,  /* it goes on: the thread had acquired more than once */
    LOCK_TURN_PASSED, /* it is the next one's, with all that is held */
    LOCK_TURN_LAST,   /* give `*held` back to the store, and then end the turn */
};

/* `pass`: somebody who waits here may have what is held. `*held` is what it was, unless it is LOCK_TURN_OVER;
 * only with LOCK_TURN_LAST is its `pending` the caller's. */
enum lock_turn lock_lines_leave(struct lock_lines *lines, const char *key, const char *owner, bool pass,
                                struct lock_held *held);
/* Nothing is held any more, and the next may come. */
void lock_lines_end(struct lock_lines *lines, const char *key, const char *owner);

/* The thread that has the turn acquires again: true, and its grant. */
bool lock_lines_reenter(struct lock_lines *lines, const char *key, struct lock_grant *grant);

/* While the one with the turn waits for the store, it is `asker` who is woken; NULL: it does not wait. */
void lock_lines_ask(struct lock_lines *lines, const char *key, const char *owner, struct lock_waiter *asker);
/* False where nobody here is, or waits as, `owner`, which is the store's name for it. */
bool lock_lines_wake(struct lock_lines *lines, const char *key, const char *owner);
void lock_lines_wake_all(struct lock_lines *lines);

/* The deadline as it is now, for a grant that may have been renewed or lost; 0: not had any more. */
int64_t lock_lines_deadline(struct lock_lines *lines, const struct lock_grant *grant);
/* Its holder is alive. */
void lock_lines_progress(struct lock_lines *lines, const struct lock_grant *grant);

/* What is held and was not looked at for about a third of the time to live; or has run out and should not
 * have. */
struct lock_due {
    struct lock_grant grant; /* as its holder knows it */
    struct lock_held held;
    int64_t silent_ns; /* since its holder last reported progress */
    bool forgotten;    /* it ran out and was not given back: nobody has it here, but the store has `held`, and
                          its `pending` is the caller's */
};

/* What is held by `due->grant`; false: nothing (any more). */
bool lock_lines_find(struct lock_lines *lines, struct lock_due *due);
/* Goes through all lines once; begins with `next_ns` INT64_MAX. Those that are due a little later (a
 * sixteenth of the time between two looks) are due now, so that thousands need not be gone through for each
 * of them. */
struct lock_scan {
    int bucket;
    int64_t next_ns; /* when the first of those that were passed is due; INT64_MAX: none was held */
};

/* The next that is due, marked as looked at now; false: no more. Turns that were forgotten, and that nobody
 * waits for, end here; who waits for one takes it over, with what is held. */
bool lock_lines_due(struct lock_lines *lines, struct lock_scan *scan, struct lock_due *due);
/* To be looked at again earlier than in the third of a time to live. */
void lock_lines_look_at(struct lock_lines *lines, const struct lock_due *due, int64_t look_ns);
/* What was found. False where the turn has ended meanwhile. */
bool lock_lines_renewed(struct lock_lines *lines, const struct lock_due *due, int64_t deadline_ns);
/* `gone`: from the store; otherwise nobody else has it before its deadline, but its holder should stop. */
bool lock_lines_lost(struct lock_lines *lines, const struct lock_due *due, bool gone);

#endif
