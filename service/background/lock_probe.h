/* Whether a lock can be had: the one in force, and one to switch to. A thread of its own tries it, since a
 * store that does not answer holds it up for seconds. */
#ifndef SERVICE_BACKGROUND_LOCK_PROBE_H
#define SERVICE_BACKGROUND_LOCK_PROBE_H

#include "service/background/lock_switch_state.h"

/* The thread; `arg` is the struct lock_switch. */
void *lock_probe_run(void *arg);

/* With the mutex held: */

/* Another lock was opened: it is tried at once. */
void lock_probe_now(struct lock_switch *lock_switch);
/* A call for a grant got an answer of the lock's store, or none. */
void lock_probe_note_answer(struct lock_switch *lock_switch, bool answered);

#endif
