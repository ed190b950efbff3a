/* What the files of the lock_switch share. Not for others. */
#ifndef SERVICE_BACKGROUND_LOCK_SWITCH_STATE_H
#define SERVICE_BACKGROUND_LOCK_SWITCH_STATE_H

#include <pthread.h>

#include "service/background/lock_switch.h"

/* In force is the lock that is open, if it is that of the record's epoch (told_epoch == lock_epoch), if since
 * it was opened a beat has said that nobody is behind (settled_epoch), and as long as beats come back. */
struct lock_switch {
    struct lock_config lock_config;
    char instance[LOCK_SWITCH_INSTANCE_SIZE]; /* HOST:PORT and chance; no two are the same */
    const char *first_url;                    /* --lock */
    struct store_clock *clock;
    pthread_t thread, prober;

    pthread_mutex_t mutex; /* of all that follows; never held for long */
    pthread_cond_t changed, probe_wanted;
    /* As the store told last. */
    uint64_t told_epoch; /* 0: never */
    char told_url[CONFIG_TEXT];
    int live, behind;
    char behind_id[LOCK_SWITCH_INSTANCE_SIZE];
    int64_t fresh_until_ns;
    /* What this instance tells: it has no grants older than this epoch, and goes by this lock. */
    uint64_t clear_epoch; /* 0: it has not joined */
    char clear_url[CONFIG_TEXT];
    uint64_t settled_epoch;
    /* The lock that is open, or was tried to be; `lock` is NULL where it could not be. */
    uint64_t lock_epoch;
    struct lock *lock;
    struct lock_cancel *cancel; /* of those who wait for it */
    int users;                  /* threads that have grants of it, or are about to */
    struct lock_metrics before; /* the counters of those that were closed */
    uint64_t announced_epoch, switches;
    /* Whether the lock that is open can be had, and why not; when that is tried next, and was last. */
    enum lock_switch_reach reach;
    char why[LOCK_SWITCH_WHY_SIZE];
    int64_t probe_ns, probed_ns;
    struct lock_switch_check *checks;
    struct lock_switch_wait *waits;
    bool ended; /* no grants any more */
    bool stop;  /* the threads */

    /* The back office's alone: the beat under way. */
    bool heartbeat_in_flight;
    int64_t sent_ns;
    uint64_t sent_epoch; /* of the lock that was open then; 0: none */
    int64_t next_ns;
    bool leaving, left;
};

/* So long after a beat was sent grants are given out. */
#define LOCK_SWITCH_FRESH_NS INT64_C(2000000000)

/* Whether grants may be given out; with the mutex held, as all here. */
bool lock_switch_grants(const struct lock_switch *lock_switch, int64_t now_ns);
/* This instance cannot open the lock of the newest epoch. */
bool lock_switch_failed(const struct lock_switch *lock_switch);
/* So long after its last beat this instance may have grants. */
int64_t lock_switch_quiet_ms(const struct lock_switch *lock_switch);

#endif
