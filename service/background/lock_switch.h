/* The lock in force, and how it is switched while the service sells.
 *
 * Each write under a lock carries a fencing token, EPOCH:FENCE (inventory.h). Fences of two locks cannot be
 * compared. So all instances that sell from one store use one lock. Its URL and its epoch are in that store,
 * and a lock switch raises the epoch. Each instance sees that with its next heartbeat. It gives out no grants
 * of the old lock any more, waits until its own are released, says so with a heartbeat, and opens the new
 * lock. It gives out grants of the new lock after all other instances have said the same, or have been silent
 * for so long that their grants have run out. So grants of two locks never exist at once, except those of a
 * process that was paused for longer than its grants: the fencing token stops that one.
 *
 * An instance whose last heartbeat is 2 s old gives out no grants. That bounds how long the others wait for
 * an instance that cannot reach the store.
 *
 * Probes find out whether the lock can be reached: when it comes into force, when a call for it fails, every
 * 10 s while it is not used, and every 2 s while it cannot be reached. Another lock is probed before a switch
 * to it. A lock in a Redis Cluster counts as reachable if one of the masters that have the four keys of the
 * probe is: calls for keys of a master that is gone fail by themselves.
 *
 * Threads: as each call says. Two threads do what blocks for long: one opens and closes locks
 * (lock_switch.c), the other probes them (lock_probe.c). */
#ifndef SERVICE_BACKGROUND_LOCK_SWITCH_H
#define SERVICE_BACKGROUND_LOCK_SWITCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "inventory/inventory.h"
#include "lock/lock.h"
#include "service/config.h"
#include "service/log.h"

/* ---- opening and closing ---- */

struct lock_switch;
struct store_clock;

/* Checks --lock, and starts the threads. NULL on failure, with the reason in `error`. `config` must outlive
 * it, and so must `clock`, which the heartbeat measures. */
struct lock_switch *lock_switch_open(const struct config *config, struct store_clock *clock, char *error,
                                     size_t error_size);
/* No thread may be inside a call. NULL is fine. */
void lock_switch_close(struct lock_switch *lock_switch);

/* ---- grants: from any thread that may block ---- */

/* The lock in force when the grants were acquired, and the epoch of their fencing tokens. */
struct lock_switch_use {
    struct lock *lock;
    uint64_t epoch;
};

/* Waits for a lock to be in force, and acquires all keys of it, as lock_acquire_all(). If the lock is
 * switched meanwhile, it waits for the new one. LOCK_CANCELLED: no lock was in force until the deadline, or
 * none will be (this instance cannot open it, or ends). LOCK_UNAVAILABLE: also at once, while the last probe
 * could not reach it, so that a queue does not wait for each call to fail. LOCK_TIMEOUT: also if the deadline
 * had passed before. Only after LOCK_OK are `use` and `grants` filled in. Then lock_switch_release() must
 * follow, and no other lock comes in force until it does. The grants must not be extended: the other
 * instances rely on how long they can last. */
enum lock_status lock_switch_acquire(struct lock_switch *lock_switch, const char *const keys[], size_t count,
                                     int64_t deadline_ns, struct lock_switch_use *use,
                                     struct lock_grant grants[]);
void lock_switch_release(struct lock_switch *lock_switch, const struct lock_switch_use *use,
                         const struct lock_grant grants[], size_t count);

/* ---- state: from any thread ---- */

enum lock_switch_phase { LOCK_SWITCH_NONE, LOCK_SWITCH_SWITCHING, LOCK_SWITCH_IN_FORCE };

enum lock_switch_reach { LOCK_SWITCH_UNTRIED, LOCK_SWITCH_REACHABLE, LOCK_SWITCH_UNREACHABLE };

enum { LOCK_SWITCH_INSTANCE_SIZE = 96, LOCK_SWITCH_WHY_SIZE = 256 };

struct lock_switch_state {
    enum lock_switch_phase phase; /* here. NONE: the store cannot be reached, or the lock not opened */
    uint64_t epoch;               /* the newest known; 0: the store was never reached */
    char lock[LOG_LOCK_SIZE];     /* of that epoch, as log_print_lock() writes it */
    int instances;                /* instances that live, with this one */
    int behind;                   /* others that may have grants of an older epoch */
    char behind_id[LOCK_SWITCH_INSTANCE_SIZE]; /* one of those, or "" */
    int64_t patience_ms; /* a switch takes no longer, unless grants of another instance last longer */
    enum lock_switch_reach reach;   /* whether that lock can be reached from here */
    char why[LOCK_SWITCH_WHY_SIZE]; /* why not; plain text */
    uint64_t switches;              /* times that another lock came into force here */
    struct lock_metrics metrics;    /* of all locks so far, added up, so that they never go back */
};

void lock_switch_read_state(struct lock_switch *lock_switch, struct lock_switch_state *state);

/* ---- switching: from any thread ---- */

/* Lives in the caller's data until a thread of the lock switch calls `done`. */
struct lock_switch_check {
    struct lock_switch_check *next;
    const char *url;
    enum lock_status status;
    char error[LOCK_ERROR_SIZE];
    void (*done)(struct lock_switch_check *check);
};

/* Finds out whether this instance can open the lock (LOCK_CONFIG: as lock_open() says) and reach it. */
void lock_switch_check(struct lock_switch *lock_switch, struct lock_switch_check *check);

enum lock_switch_outcome {
    LOCK_SWITCH_DONE,
    LOCK_SWITCH_OVERTAKEN, /* a newer epoch came */
    LOCK_SWITCH_LATE,      /* the deadline has passed; the switch goes on */
    LOCK_SWITCH_ENDED      /* this instance ends */
};

/* Lives in the caller's data until the background thread calls `done`. */
struct lock_switch_wait {
    struct lock_switch_wait *next;
    uint64_t epoch;
    int64_t deadline_ns;
    enum lock_switch_outcome outcome;
    void (*done)(struct lock_switch_wait *wait);
};

/* Calls `done` once `epoch` is in force here, or cannot come into force any more, or the deadline has passed.
 * Does not block. */
void lock_switch_wait(struct lock_switch *lock_switch, struct lock_switch_wait *wait);

/* ---- heartbeat: from the background thread, with its inventory ---- */

enum { LOCK_SWITCH_TICK_MS = 20 };

/* To be called every LOCK_SWITCH_TICK_MS: sends a heartbeat when one is due. */
void lock_switch_tick(struct lock_switch *lock_switch, struct inventory *inventory);
/* Gives out no grant any more, and tells all callers that wait. Once this instance holds no grant, tells the
 * other instances. True: they know. To be called again and again until then, or until the inventory is
 * closed. */
bool lock_switch_end(struct lock_switch *lock_switch, struct inventory *inventory);

#endif
