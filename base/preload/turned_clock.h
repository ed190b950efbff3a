/* A wall clock that can be turned or stopped. turned-clock.so is preloaded into servers, and replaces their
 * functions that read the wall clock. It maps the file that the environment variable TURNED_CLOCK names,
 * which holds this struct; whoever writes to the file turns the clock at once. Monotonic clocks are not
 * changed. */
#ifndef BASE_PRELOAD_TURNED_CLOCK_H
#define BASE_PRELOAD_TURNED_CLOCK_H

#include <stdint.h>

struct turned_clock {
    int64_t ahead_ms;   /* added to the machine's wall clock */
    int64_t stopped_ms; /* not 0: the clock stands still at this time, in milliseconds since 1970 */
};

#endif
