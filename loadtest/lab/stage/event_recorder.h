/* The recorder takes events from every thread of the lab, sorts them by time, numbers them, and writes them.
 */
#ifndef LOADTEST_LAB_STAGE_EVENT_RECORDER_H
#define LOADTEST_LAB_STAGE_EVENT_RECORDER_H

#include "loadtest/lab/events/event.h"

struct recorder;

/* For how long an event is held back: an earlier one of another process may still be in flight. An event that
 * comes later than that is written out of order. */
enum { RECORDER_HOLD_MS = 40 };

/* Writes the first line, and events to `out` from then on. `start_ns`: the time of the play's begin,
 * monotonic. NULL when out of memory. */
struct recorder *recorder_new(FILE *out, const struct event_play *play, int64_t start_ns);

/* Copies the event. Its times are monotonic; `t_ns` 0 is now. The recorder sets `n`, and in an answer without
 * a `cause` it sets that to the number of the request. From any thread. */
void recorder_add(struct recorder *recorder, const struct event *event);

/* Writes the events that have been held back for long enough; with `all`, every event. */
void recorder_flush(struct recorder *recorder, bool all);

/* Writes all events, then the verdict, which may be NULL. False: something could not be written. */
bool recorder_end(struct recorder *recorder, const struct event *verdict);
void recorder_free(struct recorder *recorder);

#endif
