/* Steps: how the clients came between each other, as a line of words. These are what clients note ("reads 1
 * left") and the writes that the stock has answered, in order of time. */
#ifndef LOADTEST_LAB_DRAW_STEPS_H
#define LOADTEST_LAB_DRAW_STEPS_H

#include "loadtest/lab/events/event.h"

enum { STEPS_MAX = 12, STEPS_TEXT = 200 };

struct steps {
    char texts[STEPS_MAX][STEPS_TEXT]; /* "client-a sells 1 (0 left)" */
    uint64_t n[STEPS_MAX];             /* their events */
    int count;
    size_t more; /* steps after these */
};

/* The first steps of a play; none if no client has noted anything. A client is who has asked for a lock or
 * sent a write. */
void steps_find(const struct event_log *log, struct steps *steps);

/* Prints them as one line: "client-a reads 1 left; client-b reads 1 left; and 3 more". False: there are none,
 * and nothing is printed. */
bool steps_print(FILE *out, const struct event_log *log);

#endif
