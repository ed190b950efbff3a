/* The recorder: takes events from every thread of the lab, brings them into the order of their times, numbers
 * them, and writes them. */
#ifndef LOADTEST_LAB_STAGE_RECORDER_H
#define LOADTEST_LAB_STAGE_RECORDER_H

#include "loadtest/lab/events/event.h"

struct recorder;

/* An event is held back for so long, since an earlier one of another process may still be on its way. One
 * that comes later than that is written out of the order of times. */
enum { RECORDER_HOLD_MS = 40 };

/* Writes the first line, and events to `out` from then on. `start_ns`: the time of the play's begin,
 * monotonic. NULL when out of memory. */
struct recorder *recorder_new(FILE *out, const struct event_play *play, int64_t start_ns);

/* Copies the event. Its times are monotonic; `t_ns` 0 is now; `n` is given by the recorder, and `cause`,
 * where it is 0, to an answer: its request. From any thread. */
void recorder_add(struct recorder *recorder, const struct event *event);

/* Writes what has been held back for long enough; with `all`, everything. */
void recorder_flush(struct recorder *recorder, bool all);

/* Writes all, then the verdict, if it is not NULL. False: something could not be written. */
bool recorder_end(struct recorder *recorder, const struct event *verdict);
void recorder_free(struct recorder *recorder);

#endif
