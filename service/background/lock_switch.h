/* Which lock is in force.
 *
 * What is written under a lock carries a token, EPOCH:FENCE (inventory.h). Fences of two locks cannot be
 * compared, so all instances that sell from one store go by one lock, whose URL and epoch stand in that
 * store. To switch to another raises the epoch there. Each instance sees it with its next beat, lets nobody
 * take the old lock any more, waits until its own grants are given back, says so with its beat, opens the new
 * lock, and gives out no grant of it before all others have said so too, or have been silent for so long that
 * theirs have run out. So there are never grants of two locks at once, but for those of a process that was
 * paused beyond their end: those the token stops.
 *
 * An instance that cannot reach the store gives out no grants either, once its last beat is 2 s old: that is
 * what bounds how long the others have to wait for it.
 *
 * Whether the lock can be had at all is tried when it comes in force, whenever a call for it fails, every 10
 * s while nobody calls, and every 2 s while it cannot; and of another before it is switched to.
 *
 * Threads: as each call says. What blocks for long (closing locks, opening and trying them) is done by two
 * threads of the lock_switch. */
#ifndef SERVICE_BACKGROUND_LOCK_SWITCH_H
#define SERVICE_BACKGROUND_LOCK_SWITCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "inventory/inventory.h"
#include "lock/lock.h"
#include "service/background/lock_name.h"
#include "service/background/store_clock.h"
#include "service/config.h"

struct lock_switch;

/* Checks --lock, and starts the thread. NULL on failure, with the reason in `error`. `config` must outlive
 * it, and so must `clock`, which its heartbeat measures. */
struct lock_switch *lock_switch_open(const struct config *config, struct store_clock *clock, char *error,
                                     size_t error_size);
/* Nobody may be in a call. NULL is fine. */
void lock_switch_close(struct lock_switch *lock_switch);

/* ---- grants: from any thread that may block ---- */

/* The lock that was in force when its grants were had, and the epoch of their tokens. */
struct lock_switch_use {
    struct lock *lock;
    uint64_t epoch;
};

/* lock_acquire_all() of the lock in force; waits for one to be, too. Where it is switched meanwhile, the new
 * one is waited for. LOCK_CANCELLED: none was in force until the deadline, or none will be (this instance
 * cannot open it, or ends). LOCK_UNAVAILABLE: also, and at once, while it cannot be reached as last tried,
 * since to wait for each call to fail would keep a whole queue waiting. LOCK_TIMEOUT: also where the deadline
 * had passed before. Otherwise as lock_acquire_all(). `use` and `grants` are garbage unless LOCK_OK; then
 * lock_switch_release() must follow, and until it does no other lock comes in force. The grants must not be
 * extended: how long they can last is what others rely on. */
enum lock_status lock_switch_acquire(struct lock_switch *lock_switch, const char *const keys[], size_t count,
                                     int64_t deadline_ns, struct lock_switch_use *use,
                                     struct lock_grant grants[]);
void lock_switch_release(struct lock_switch *lock_switch, const struct lock_switch_use *use,
                         const struct lock_grant grants[], size_t count);

/* ---- how it stands: from any thread ---- */

enum lock_switch_phase { LOCK_SWITCH_NONE, LOCK_SWITCH_SWITCHING, LOCK_SWITCH_IN_FORCE };

enum lock_switch_reach { LOCK_SWITCH_UNTRIED, LOCK_SWITCH_REACHABLE, LOCK_SWITCH_UNREACHABLE };

enum { LOCK_SWITCH_INSTANCE_SIZE = 96, LOCK_SWITCH_WHY_SIZE = 256 };

struct lock_switch_state {
    enum lock_switch_phase phase; /* here. NONE: the store is not there, or the lock cannot be opened */
    uint64_t epoch;               /* newest known; 0: the store was never reached */
    char lock[LOCK_NAME_SIZE];    /* of that epoch, as lock_name_print() has it */
    int instances;                /* that live, with this one */
    int behind;                   /* others that may have grants of an older epoch */
    char behind_id[LOCK_SWITCH_INSTANCE_SIZE]; /* one of those, or "" */
    int64_t patience_ms; /* a switch takes no longer, unless somebody's grants last longer than the own */
    enum lock_switch_reach reach;   /* of that lock, from here, as last tried */
    char why[LOCK_SWITCH_WHY_SIZE]; /* it cannot be reached; plain text */
};

void lock_switch_read_state(struct lock_switch *lock_switch, struct lock_switch_state *state);

/* The lock's counters never go back, also when it is switched. */
struct lock_switch_metrics {
    struct lock_metrics lock;
    uint64_t epoch; /* in force here; 0: none is */
    uint64_t switches;
    enum lock_switch_reach reach; /* as in struct lock_switch_state */
};

void lock_switch_read_metrics(struct lock_switch *lock_switch, struct lock_switch_metrics *metrics);

/* ---- switching: from any thread ---- */

/* Lives in the caller's data until `done`, which comes from the lock_switch's thread. */
struct lock_switch_check {
    struct lock_switch_check *next;
    const char *url;
    enum lock_status status;
    char error[LOCK_ERROR_SIZE];
    void (*done)(struct lock_switch_check *check);
};

/* Whether this instance can open such a lock (LOCK_CONFIG: as lock_open() says) and have it. */
void lock_switch_check(struct lock_switch *lock_switch, struct lock_switch_check *check);

enum lock_switch_outcome {
    LOCK_SWITCH_DONE,
    LOCK_SWITCH_OVERTAKEN /* by a newer epoch */,
    LOCK_SWITCH_LATE,
    LOCK_SWITCH_ENDED
};

/* The same; `done` comes from the back office. */
struct lock_switch_wait {
    struct lock_switch_wait *next;
    uint64_t epoch;
    int64_t deadline_ns;
    enum lock_switch_outcome outcome;
    void (*done)(struct lock_switch_wait *wait);
};

/* Until `epoch` is in force here. */
void lock_switch_wait(struct lock_switch *lock_switch, struct lock_switch_wait *wait);

/* ---- its heart: from the back office, with its inventory ---- */

enum { LOCK_SWITCH_TICK_MS = 20 };

/* To be called every LOCK_SWITCH_TICK_MS: beats when it is time to. */
void lock_switch_tick(struct lock_switch *lock_switch, struct inventory *inventory);
/* Nobody gets a grant any more, all who wait are told, and the other instances once none is held here: true
 * when they are. To be called until then, or until the inventory is closed. */
bool lock_switch_end(struct lock_switch *lock_switch, struct inventory *inventory);

#endif
