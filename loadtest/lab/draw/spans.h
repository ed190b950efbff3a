/* Spans: until when the mark of each event lasts. A request lasts until its answer, a grant until the
 * deadline or the last use of it, a fault until its end, what a server or the stock says until it says
 * something else; what never ends lasts for ever (INT64_MAX), and all else is over at once. */
#ifndef LOADTEST_LAB_DRAW_SPANS_H
#define LOADTEST_LAB_DRAW_SPANS_H

#include "loadtest/lab/judge/judge.h"

/* A time in nanoseconds for each event, to be freed. NULL when out of memory. */
int64_t *spans_find(const struct judged_play *play);

#endif
