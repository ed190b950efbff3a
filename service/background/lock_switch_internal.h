/* The state of the lock switch, for lock_switch.c, lock_heartbeat.c and lock_probe.c. */
#ifndef SERVICE_BACKGROUND_LOCK_SWITCH_INTERNAL_H
#define SERVICE_BACKGROUND_LOCK_SWITCH_INTERNAL_H

#include <pthread.h>

#include "service/background/lock_switch.h"

/* The lock in force is the open lock if three things hold: it is the lock of the record's epoch (told_epoch
 * == lock_epoch); a heartbeat since it was opened has said that the epoch is in force (settled_epoch); and
 * heartbeats come back. */
struct lock_switch {
    struct lock_config lock_config;
    char instance[LOCK_SWITCH_INSTANCE_SIZE]; /* HOST:PORT and a random number: unique */
    const char *first_url;                    /* --lock */
    struct store_clock *clock;
    pthread_t thread, prober;

    pthread_mutex_t mutex; /* of everything below; never held for long */
    pthread_cond_t changed, probe_wanted;
    /* What the store told last: */
    uint64_t told_epoch; /* 0: never */
    char told_url[CONFIG_TEXT];
    int live, behind;
    char behind_id[LOCK_SWITCH_INSTANCE_SIZE];
    int64_t fresh_until_ns;
    /* What this instance tells: it has no grants older than this epoch, and uses this lock: */
    uint64_t clear_epoch; /* 0: this instance has not joined */
    char clear_url[CONFIG_TEXT];
    uint64_t settled_epoch;
    /* The open lock; `lock` is NULL if it could not be opened. */
    uint64_t lock_epoch;
    struct lock *lock;
    struct lock_cancel *cancel; /* of callers that wait for it */
    int users;                  /* threads that have grants of it, or are acquiring them */
    struct lock_metrics before; /* the counters of the locks that were closed */
    uint64_t announced_epoch, switches;
    /* Whether the open lock can be reached, and why not; when the next probe is due, and when the last one
     * was. */
    enum lock_switch_reach reach;
    char why[LOCK_SWITCH_WHY_SIZE];
    int64_t probe_ns, probed_ns;
    struct lock_switch_check *checks;
    struct lock_switch_wait *waits;
    bool ended; /* it gives out no grants any more */
    bool stop;  /* the threads are to end */

    /* The background thread's own: the heartbeat in flight. */
    bool heartbeat_in_flight;
    int64_t sent_ns;
    uint64_t sent_epoch; /* of the lock that was open when it was sent; 0: none */
    int64_t next_ns;
    bool leaving, left;
};

/* For so long after a heartbeat was sent, grants are given out. */
#define LOCK_SWITCH_FRESH_NS INT64_C(2000000000)

/* All calls below: with the mutex held, unless they say otherwise. */

/* ---- lock_switch.c ---- */

/* Whether grants may be given out. */
bool lock_switch_grants(const struct lock_switch *lock_switch, int64_t now_ns);
/* Whether this instance cannot open the lock of the newest epoch. */
bool lock_switch_failed(const struct lock_switch *lock_switch);
/* Returns how long after its last heartbeat this instance may have grants. */
int64_t lock_switch_quiet_ms(const struct lock_switch *lock_switch);

/* ---- lock_probe.c: whether a lock can be reached, the one in force, and one to switch to ---- */

/* The thread; `arg` is the struct lock_switch. It has a thread of its own, since a store that does not answer
 * holds a probe up for seconds. */
void *lock_probe_run(void *arg);
/* Another lock was opened: probes it at once. */
void lock_probe_now(struct lock_switch *lock_switch);
/* A call for a grant got an answer of the lock's store, or none. */
void lock_probe_note_answer(struct lock_switch *lock_switch, bool answered);
/* Opens a lock that may come in force, as lock_open(); without the mutex. LOCK_CONFIG also for renew=on:
 * grants that a live process renews without end would outlast the time for which the other instances wait for
 * them (lock_switch.h). */
enum lock_status lock_probe_open(const char *url, const struct lock_config *config, struct lock **lock,
                                 char *error, size_t error_size);

#endif
