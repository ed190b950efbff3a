/* Who in this process holds which key, and who waits for it, first come, first served. Only the first in line
 * goes to the store, so that a hundred threads that want one key are one contender to it. Not for users. */
#ifndef LOCK_LINE_H
#define LOCK_LINE_H

#include "lock/backend.h"

struct lock_lines;

/* `env` is the clock, and must outlive it. NULL when out of memory. */
struct lock_lines *lock_lines_new(const struct lock_env *env);
void lock_lines_free(struct lock_lines *lines);

/* Waits for the turn of `key`: LOCK_OK, LOCK_TIMEOUT, LOCK_CANCELLED, LOCK_NOMEM. A `deadline_ns` that is
 * over asks once. The turn ends with lock_lines_leave(), or, where the holder forgot it, with the deadline
 * given to lock_lines_hold(). */
enum lock_status lock_lines_enter(struct lock_lines *lines, const char *key, const char *owner,
                                  int64_t deadline_ns, struct lock_cancel *cancel);
/* Whoever has the turn has the lock now, until `deadline_ns`. */
void lock_lines_hold(struct lock_lines *lines, const char *key, const char *owner, int64_t deadline_ns);
/* The next may come. False where `owner` does not have the turn (any more). */
bool lock_lines_leave(struct lock_lines *lines, const char *key, const char *owner);

#endif
