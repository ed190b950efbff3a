/* The events as a trace that opens in Perfetto (the Trace Event Format of Chrome): a process for each play, a
 * thread for each actor; holds, waits and faults as slices, causes as flows, the stock as a counter. */
#ifndef LOADTEST_LAB_DRAW_TRACE_H
#define LOADTEST_LAB_DRAW_TRACE_H

#include "loadtest/lab/judge/judge.h"

/* False: out of memory, or it could not be written. */
bool trace_draw(FILE *out, const struct judged_play plays[], int count);

#endif
