/* A wall clock that is turned, for servers: turned-clock.so is preloaded into them, and the file that the
 * environment variable TURNED_CLOCK names has this struct. */
#ifndef BASE_PRELOAD_TURNED_CLOCK_H
#define BASE_PRELOAD_TURNED_CLOCK_H

#include <stdint.h>

struct turned_clock {
    int64_t ahead_ms;   /* it is so much ahead of the machine's */
    int64_t stopped_ms; /* not 0: it stands still there */
};

#endif
