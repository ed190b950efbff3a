/* Whether a lock can be had: the one in force, and one to switch to. A thread of its own tries it, since a
 * store that does not answer holds it up for seconds. */
#ifndef SERVICE_BACKGROUND_LOCK_PROBE_H
#define SERVICE_BACKGROUND_LOCK_PROBE_H

#include "service/background/lock_switch_state.h"

/* Opens a lock that may come in force, as lock_open(). LOCK_CONFIG also for renew=on: grants that a live
 * process renews without end would outlast the time for which the other instances wait for them
 * (lock_switch.h). */
enum lock_status lock_probe_open(const char *url, const struct lock_config *config, struct lock **lock,
                                 char *error, size_t error_size);

/* The thread; `arg` is the struct lock_switch. */
void *lock_probe_run(void *arg);

/* With the mutex held: */

/* Another lock was opened: it is tried at once. */
void lock_probe_now(struct lock_switch *lock_switch);
/* A call for a grant got an answer of the lock's store, or none. */
void lock_probe_note_answer(struct lock_switch *lock_switch, bool answered);

#endif
