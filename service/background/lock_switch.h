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
 * threads of the domain. */
#ifndef SERVICE_BACKGROUND_LOCK_SWITCH_H
#define SERVICE_BACKGROUND_LOCK_SWITCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "inventory/inventory.h"
#include "lock/lock.h"
#include "service/background/store_clock.h"
#include "service/config.h"

struct domain;

/* Checks --lock, and starts the thread. NULL on failure, with the reason in `error`. `config` must outlive
 * it, and so must `clock`, which its heartbeat measures. */
struct domain *domain_open(const struct config *config, struct store_clock *clock, char *error,
                           size_t error_size);
/* Nobody may be in a call. NULL is fine. */
void domain_close(struct domain *domain);

/* ---- grants: from any thread that may block ---- */

/* The lock that was in force when its grants were had, and the epoch of their tokens. */
struct domain_use {
    struct lock *lock;
    uint64_t epoch;
};

/* lock_acquire_all() of the lock in force; waits for one to be, too. Where it is switched meanwhile, the new
 * one is waited for. LOCK_CANCELLED: none was in force until the deadline, or none will be (this instance
 * cannot open it, or ends). LOCK_UNAVAILABLE: also, and at once, while it cannot be reached as last tried,
 * since to wait for each call to fail would keep a whole queue waiting. LOCK_TIMEOUT: also where the deadline
 * had passed before. Otherwise as lock_acquire_all(). `use` and `grants` are garbage unless LOCK_OK; then
 * domain_release() must follow, and until it does no other lock comes in force. The grants must not be
 * extended: how long they can last is what others rely on. */
enum lock_status domain_acquire(struct domain *domain, const char *const keys[], size_t count,
                                int64_t deadline_ns, struct domain_use *use, struct lock_grant grants[]);
void domain_release(struct domain *domain, const struct domain_use *use, const struct lock_grant grants[],
                    size_t count);

/* ---- how it stands: from any thread ---- */

enum domain_phase { DOMAIN_NONE, DOMAIN_SWITCHING, DOMAIN_IN_FORCE };

enum domain_reach { DOMAIN_UNTRIED, DOMAIN_REACHABLE, DOMAIN_UNREACHABLE };

enum { DOMAIN_NAME_SIZE = 256, DOMAIN_INSTANCE_SIZE = 96, DOMAIN_WHY_SIZE = 256 };

struct domain_state {
    enum domain_phase phase;     /* here. NONE: the store is not there, or the lock cannot be opened */
    uint64_t epoch;              /* newest known; 0: the store was never reached */
    char lock[DOMAIN_NAME_SIZE]; /* of that epoch, as domain_print_lock() has it */
    int instances;               /* that live, with this one */
    int behind;                  /* others that may have grants of an older epoch */
    char behind_id[DOMAIN_INSTANCE_SIZE]; /* one of those, or "" */
    int64_t patience_ms;     /* a switch takes no longer, unless somebody's grants last longer than the own */
    enum domain_reach reach; /* of that lock, from here, as last tried */
    char why[DOMAIN_WHY_SIZE]; /* it cannot be reached; plain text */
};

void domain_read_state(struct domain *domain, struct domain_state *state);

/* The lock's counters never go back, also when it is switched. */
struct domain_metrics {
    struct lock_metrics lock;
    uint64_t epoch; /* in force here; 0: none is */
    uint64_t switches;
    enum domain_reach reach; /* as in struct domain_state */
};

void domain_read_metrics(struct domain *domain, struct domain_metrics *metrics);

/* SCHEME://ADDRESS[?variant=NAME][&ttl=MS] of a lock's URL: without its password, whatever the URL, and of
 * characters that need no escaping anywhere. */
void domain_print_lock(char out[DOMAIN_NAME_SIZE], const char *url);
/* Words that may have anything in them: of characters that JSON needs no escapes for. */
void domain_print_plain(char *out, size_t size, const char *text);

/* ---- switching: from any thread ---- */

/* Lives in the caller's data until `done`, which comes from the domain's thread. */
struct domain_check {
    struct domain_check *next;
    const char *url;
    enum lock_status status;
    char error[LOCK_ERROR_SIZE];
    void (*done)(struct domain_check *check);
};

/* Whether this instance can open such a lock (LOCK_CONFIG: as lock_open() says) and have it. */
void domain_check(struct domain *domain, struct domain_check *check);

enum domain_outcome { DOMAIN_DONE, DOMAIN_OVERTAKEN /* by a newer epoch */, DOMAIN_LATE, DOMAIN_ENDED };

/* The same; `done` comes from the back office. */
struct domain_wait {
    struct domain_wait *next;
    uint64_t epoch;
    int64_t deadline_ns;
    enum domain_outcome outcome;
    void (*done)(struct domain_wait *wait);
};

/* Until `epoch` is in force here. */
void domain_wait(struct domain *domain, struct domain_wait *wait);

/* ---- its heart: from the back office, with its inventory ---- */

enum { DOMAIN_TICK_MS = 20 };

/* To be called every DOMAIN_TICK_MS: beats when it is time to. */
void domain_tick(struct domain *domain, struct inventory *inventory);
/* Nobody gets a grant any more, all who wait are told, and the other instances once none is held here: true
 * when they are. To be called until then, or until the inventory is closed. */
bool domain_end(struct domain *domain, struct inventory *inventory);

#endif
